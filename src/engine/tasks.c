/* tasks.c - the definitions of tasks that processes share. */
#include "engine/tasks.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/check.h"
#include "engine/rows.h"
#include "engine/state.h"

#define ROW_MAX_BYTES (1024u * 1024)

/* Tasks are the same for all tenants. */
static const struct str TASK_TENANT = {ENGINE_TENANT_DEFAULT, sizeof ENGINE_TENANT_DEFAULT - 1};

struct published_task {
    int64_t version; /* of the row */
    bool seen;       /* in this load */
    struct config_part *box;
};

static void task_free(struct published_task *task)
{
    if (!task)
        return;
    config_part_free(task->box);
    free(task);
}

void tasks_release(struct engine *e)
{
    MAP_FOREACH (&e->published, slot)
        task_free(slot->value);
    map_release(&e->published);
}

void tasks_distrust(struct engine *e)
{
    MAP_FOREACH (&e->published, slot)
        ((struct published_task *)slot->value)->version = -1;
}

/* Which dead letters are removed when depends on the tasks: the sweep starts anew. */
static void note_change(struct engine *e)
{
    e->n_sweep_marks = 0;
    e->task_changes++;
}

static bool is_declared(const struct engine *e, struct str name)
{
    return e->options.config && *config_task(e->options.config, name)->name;
}

/* A row that cannot be read was written by a version that knows more: the defaults hold then. */
static int take_row(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    struct published_task *task = map_get(&e->published, row->key);
    if (!task) {
        task = calloc(1, sizeof *task);
        if (!task || map_put(&e->published, row->key, task) < 0) {
            free(task);
            return err_nomem(err);
        }
    }
    task->seen = true;
    if (task->version == row->version)
        return 0;
    struct redrive_err why = {0};
    note_change(e);
    config_part_free(task->box);
    task->box = NULL;
    task->version = row->version;
    if (task_parse_json(row->key, row->value, &task->box, &why) < 0)
        log_event(e->options.log, LOG_LEVEL_WARNING, engine_now_ms(e), "task_not_understood",
                  LOG_S("error", why.message), LOG_S("detail", why.detail));
    return 0;
}

/* A map must not change during a walk: a task whose row is gone stays in it without a definition.
 */
static void forget_unseen(struct engine *e)
{
    MAP_FOREACH (&e->published, slot) {
        struct published_task *task = slot->value;
        if (!task->seen) {
            if (task->box)
                note_change(e);
            config_part_free(task->box);
            *task = (struct published_task){0};
        }
        task->seen = false;
    }
}

int tasks_load(struct engine *e, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    int rc = e->ops->shared_list(e->store, SHARED_TASK, TASK_TENANT, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        if (!is_declared(e, page.rows[i].key))
            rc = take_row(e, &page.rows[i], err);
    if (rc == 0)
        forget_unseen(e);
    return rc;
}

const struct config_task *task_in_force(const struct engine *e, struct str name)
{
    const struct config_task *own = engine_task(e, name);
    if (*own->name || e->published.count == 0)
        return own;
    const struct published_task *task = map_get(&e->published, name);
    return task && task->box ? &task->box->task : own;
}

const struct config_task **tasks_in_force(struct engine *e, size_t *ret_n)
{
    const struct config *config = e->options.config;
    const size_t n_own = config ? config->n_tasks : 0;
    const struct config_task **tasks =
        arena_array(&e->arena, n_own + e->published.count + 1, sizeof(const struct config_task *));
    size_t n = 0;
    for (size_t i = 0; tasks && i < n_own; i++)
        tasks[n++] = &config->tasks[i];
    MAP_FOREACH (&e->published, slot) {
        const struct published_task *task = slot->value;
        if (tasks && task->box)
            tasks[n++] = &task->box->task;
    }
    *ret_n = n;
    return tasks;
}

/* ---- Publishing ------------------------------------------------------------------------------ */

static int publish_text(struct engine *e, struct str name, struct str text,
                        const struct shared_page *page, size_t *n_changed, struct redrive_err *err)
{
    const struct shared_row *there = shared_row_find(page, name);
    bool won = false;
    if (there && str_eq(there->value, text))
        return 0;
    const struct shared_row row = {
        .kind = SHARED_TASK,
        .tenant = TASK_TENANT,
        .key = name,
        .value = text,
        .version = there ? there->version : 0,
    };
    int rc = shared_row_put(e, &row, &won, err);
    *n_changed += won;
    return rc;
}

static int write_task(const struct config_task *task, struct buf *out, struct redrive_err *err)
{
    struct json_writer w;
    json_writer_init(&w, out);
    task_write_json(task, &w);
    return buf_failed(out) ? err_full(err, buf_failed(out),
                                      "the definition of task '%s' is too long", task->name)
                           : 0;
}

static int apply_publish(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct publish_op *op = (struct publish_op *)base;
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    const struct config *config = e->options.config;
    op->n_changed = 0;
    if (!config || config->n_tasks == 0)
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_TASK, TASK_TENANT, &page, err);
    for (size_t i = 0; i < config->n_tasks && rc == 0; i++) {
        RELEASED_BY(buf_release) struct buf value = BUF_MAX(ROW_MAX_BYTES);
        rc = write_task(&config->tasks[i], &value, err);
        if (rc == 0)
            rc = publish_text(e, str_of(config->tasks[i].name), buf_str(&value), &page,
                              &op->n_changed, err);
    }
    return rc;
}

static const struct op_route PUBLISH_ROUTE = {.to = ROUTE_TASKS};

void publish_op_init(struct publish_op *op)
{
    *op = (struct publish_op){.op = {.apply = apply_publish, .route = &PUBLISH_ROUTE, .weight = 1}};
}

/* ---- Declaring ------------------------------------------------------------------------------- */

/* What the configuration of this process declares is not replaced. */
static int apply_declare(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct declare_op *op = (struct declare_op *)base;
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    op->n_changed = 0;
    int rc = e->ops->shared_list(e->store, SHARED_TASK, TASK_TENANT, &page, err);
    for (size_t i = 0; i < op->n && rc == 0; i++)
        if (!is_declared(e, op->tasks[i].name))
            rc = publish_text(e, op->tasks[i].name, op->tasks[i].value, &page, &op->n_changed, err);
    return rc == 0 ? tasks_load(e, err) : rc;
}

/* Takes the place of a section: the whole definition, which depends on no defaults. */
static int complete(struct declare_op *op, const struct config *config, struct json_member *task,
                    struct redrive_err *err)
{
    struct config_part *box = NULL;
    RELEASED_BY(buf_release) struct buf value = BUF_MAX(ROW_MAX_BYTES);
    int rc = name_check("the name of a task", task->name, err);
    if (rc == 0)
        rc = task_parse_section(config, task->name, task->value, &box, err);
    if (rc == 0)
        rc = write_task(&box->task, &value, err);
    config_part_free(box);
    if (rc < 0)
        return rc;
    task->value = (struct str){arena_dup(&op->arena, buf_str(&value)), value.len};
    task->name = (struct str){arena_dup(&op->arena, task->name), task->name.len};
    return task->value.ptr && task->name.ptr ? 0 : err_nomem(err);
}

static const struct op_route DECLARE_ROUTE = {.to = ROUTE_EVERY};

int declare_op_init(struct declare_op *op, const struct engine *e, struct str json,
                    struct redrive_err *err)
{
    *op = (struct declare_op){.op = {.apply = apply_declare, .route = &DECLARE_ROUTE, .weight = 1}};
    struct config *config = engine_config(e);
    int rc = json_read_members(json, NULL, &op->arena, &op->tasks, &op->n, err);
    if (rc == 0 && op->n > DECLARE_MAX) {
        rc = err_set(err, REDRIVE_E_TOO_BIG, "there are %zu tasks", op->n);
        err_hint(err, "declare at most %d with one request", DECLARE_MAX);
    }
    for (size_t i = 0; i < op->n && rc == 0; i++)
        rc = complete(op, config, &op->tasks[i], err);
    config_free(config);
    return rc;
}

void declare_op_release(struct declare_op *op)
{
    arena_release(&op->arena);
    *op = (struct declare_op){0};
}
