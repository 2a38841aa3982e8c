#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "store/sqlite/private.h"

#define KEY_MAX ((size_t)1 << 20)

void lines_init(struct lines *lines)
{
    *lines = (struct lines){0};
    map_init(&lines->by_name, rng_system_seed());
    buf_init(&lines->key, KEY_MAX);
}

static void line_free(struct line *line)
{
    if (!line)
        return;
    free((char *)line->tenant.ptr);
    free((char *)line->queue.ptr);
    free((char *)line->task.ptr);
    free(line);
}

void lines_release(struct lines *lines)
{
    for (size_t i = 0; i < lines->n_by_id; i++)
        line_free(lines->by_id[i]);
    free(lines->by_id);
    map_release(&lines->by_name);
    buf_release(&lines->key);
}

/* The three names with their lengths, so that no two lines look the same. */
static int line_key(struct lines *lines, struct str tenant, struct str queue, struct str task,
                    struct str *ret)
{
    const size_t lengths[2] = {tenant.len, queue.len};
    buf_reset(&lines->key);
    buf_add(&lines->key, lengths, sizeof lengths);
    buf_add_str(&lines->key, tenant);
    buf_add_str(&lines->key, queue);
    int rc = buf_add_str(&lines->key, task);
    *ret = buf_str(&lines->key);
    return rc;
}

static int make_room(struct lines *lines, int64_t id)
{
    if ((size_t)id < lines->n_by_id)
        return 0;
    size_t n = ((size_t)id + 1) * 2;
    struct line **grown = realloc(lines->by_id, n * sizeof(struct line *));
    if (!grown)
        return REDRIVE_E_NOMEM;
    memset(grown + lines->n_by_id, 0, (n - lines->n_by_id) * sizeof(struct line *));
    lines->by_id = grown;
    lines->n_by_id = n;
    return 0;
}

static bool copy(struct str s, struct str *ret)
{
    *ret = (struct str){str_dup(s), s.len};
    return ret->ptr != NULL;
}

/* Keeps the line that a statement stands on. */
static int keep(struct store *store, sqlite3_stmt *st, struct line **ret, struct redrive_err *err)
{
    struct lines *lines = &store->lines;
    int64_t id = sqlite3_column_int64(st, 0);
    if (id <= 0 || id > INT32_MAX)
        return sql_damaged(store, 0, "a line has an impossible number", err);
    if (make_room(lines, id) != 0)
        return err_nomem(err);
    if (lines->by_id[id]) {
        *ret = lines->by_id[id];
        return 0;
    }
    struct line *line = calloc(1, sizeof *line);
    if (!line)
        return err_nomem(err);
    line->id = id;
    line->tenant_id = sqlite3_column_int64(st, 1);
    struct str key;
    if (!copy(column_str(st, 2), &line->tenant) || !copy(column_str(st, 3), &line->queue) ||
        !copy(column_str(st, 4), &line->task) ||
        line_key(lines, line->tenant, line->queue, line->task, &key) != 0 ||
        map_put(&lines->by_name, key, line) != 0) {
        line_free(line);
        return err_nomem(err);
    }
    lines->by_id[id] = line;
    *ret = line;
    return 0;
}

static int find(struct store *store, struct str tenant, struct str queue, struct str task,
                struct line **ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_LINE_FIND, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    rc = keep(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

static int add_line(struct store *store, struct str tenant, struct str queue, struct str task,
                    struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    int rc = sql_run(store, st, err);
    if (rc != 0)
        return rc;
    st = sql_use(store, STATEMENT_LINE_ADD, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, tenant);
    bind_key(st, 2, queue);
    bind_key(st, 3, task);
    store->lines.added = true;
    return sql_run(store, st, err);
}

int line_named(struct store *store, struct str tenant, struct str queue, struct str task, bool add,
               struct line **ret, struct redrive_err *err)
{
    struct str key;
    *ret = NULL;
    if (line_key(&store->lines, tenant, queue, task, &key) != 0)
        return err_set(err, REDRIVE_E_TOO_BIG, "the names of a job are too long");
    *ret = map_get(&store->lines.by_name, key);
    if (*ret)
        return 0;
    int rc = find(store, tenant, queue, task, ret, err);
    if (rc != 0 || *ret || !add)
        return rc;
    rc = add_line(store, tenant, queue, task, err);
    return rc != 0 ? rc : find(store, tenant, queue, task, ret, err);
}

int line_numbered(struct store *store, int64_t id, struct line **ret, struct redrive_err *err)
{
    if (id > 0 && (size_t)id < store->lines.n_by_id && store->lines.by_id[id]) {
        *ret = store->lines.by_id[id];
        return 0;
    }
    sqlite3_stmt *st = sql_use(store, STATEMENT_LINE_READ, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, id);
    int rc = sql_step(store, st, err);
    if (rc == 0)
        return sql_damaged(store, 0, "jobs stand in a line that is not there", err);
    if (rc < 0)
        return rc;
    rc = keep(store, st, ret, err);
    sqlite3_reset(st);
    return rc;
}

void line_count(struct store *store, struct line *line, int from, int to)
{
    if (from >= 0)
        line->moved[from]--;
    if (to >= 0)
        line->moved[to]++;
    if (line->touched)
        return;
    line->touched = true;
    line->next_touched = store->lines.touched;
    store->lines.touched = line;
}

static void untouch(struct store *store)
{
    struct line *next;
    for (struct line *line = store->lines.touched; line; line = next) {
        next = line->next_touched;
        line->touched = false;
        line->next_touched = NULL;
        memset(line->moved, 0, sizeof line->moved);
    }
    store->lines.touched = NULL;
}

int lines_flush(struct store *store, struct redrive_err *err)
{
    for (struct line *line = store->lines.touched; line; line = line->next_touched) {
        sqlite3_stmt *st = sql_use(store, STATEMENT_LINE_COUNT, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, line->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            bind_int(st, i + 2, line->moved[i]);
        int rc = sql_run(store, st, err);
        if (rc != 0)
            return rc;
    }
    untouch(store);
    return 0;
}

void lines_forget(struct store *store)
{
    untouch(store);
    if (!store->lines.added)
        return;
    lines_release(&store->lines);
    lines_init(&store->lines);
}
