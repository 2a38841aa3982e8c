/* experiments.c - the figures of experiments, from counters and definitions. */
#include "engine/report/experiments.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/engine.h"
#include "engine/event.h"

/* ---- Counters -------------------------------------------------------------------------------- */

#define AT(member) offsetof(struct arm_figures, member)

const struct arm_counter ARM_COUNTER[ARM_COUNTERS] = {
    {"arm_submitted", AT(submitted)},
    {"arm_completed", AT(completed)},
    {"arm_dead", AT(dead)},
    {"arm_cancelled", AT(cancelled)},
    {"arm_attempts", AT(attempts.sum)},
    {"arm_attempts_squares_high", AT(attempts.squares_high)},
    {"arm_attempts_squares_low", AT(attempts.squares_low)},
    {"arm_time_ms", AT(time_ms.sum)},
    {"arm_time_ms_squares_high", AT(time_ms.squares_high)},
    {"arm_time_ms_squares_low", AT(time_ms.squares_low)},
};

struct arm_figures arm_event_figures(const struct engine_event *event)
{
    struct arm_figures f = {
        .submitted = event->kind == ENGINE_EVENT_SUBMITTED,
        .completed = event->kind == ENGINE_EVENT_COMPLETED,
        .dead = event->kind == ENGINE_EVENT_DEAD || event->kind == ENGINE_EVENT_FAILED,
        .cancelled = event->kind == ENGINE_EVENT_CANCELLED,
    };
    if (figures_ended(&f) > 0)
        moments_add(&f.attempts, event->attempt);
    if (f.completed > 0)
        moments_add(&f.time_ms, event->at_ms - event->first_started_ms);
    return f;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static struct experiment_row *row_for(struct experiment_page *page, struct str name)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->rows[i].name, name))
            return &page->rows[i];
    struct experiment_row *rows = page_grow(&page->arena, page->rows, page->n, sizeof *rows);
    if (!rows)
        return NULL;
    page->rows = rows;
    rows[page->n] = (struct experiment_row){.name = arena_str(&page->arena, name)};
    return &rows[page->n++];
}

static struct arm_row *arm_for(struct experiment_page *page, struct experiment_row *row,
                               struct str name)
{
    for (size_t i = 0; i < row->n_arms; i++)
        if (str_eq(row->arms[i].name, name))
            return &row->arms[i];
    struct arm_row *arms = page_grow(&page->arena, row->arms, row->n_arms, sizeof *arms);
    if (!arms)
        return NULL;
    row->arms = arms;
    arms[row->n_arms] = (struct arm_row){.name = arena_str(&page->arena, name)};
    return &arms[row->n_arms++];
}

/* The first definition of an experiment holds. */
static void add_definition(struct experiment_page *page, const struct experiment *experiment)
{
    struct experiment_row *row = row_for(page, str_of(experiment->name));
    if (!row || row->task.len > 0)
        return;
    row->task = arena_str(&page->arena, str_of(experiment->task));
    for (size_t i = 0; i < experiment->n_arms; i++) {
        struct arm_row *arm = arm_for(page, row, str_of(experiment->arms[i].name));
        if (arm)
            arm->share = experiment->arms[i].share;
    }
}

/* A definition that cannot be read was written by a version that knows more. */
static int add_published(struct store *store, struct experiment_page *page, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page tasks = {0};
    int rc =
        store_ops(store)->shared_list(store, SHARED_TASK, STR(ENGINE_TENANT_DEFAULT), &tasks, err);
    for (size_t i = 0; i < tasks.n && rc == 0; i++) {
        struct config_part *box = NULL;
        if (task_parse_json(tasks.rows[i].key, tasks.rows[i].value, &box, NULL) == 0 &&
            box->task.experiment)
            add_definition(page, box->task.experiment);
        config_part_free(box);
    }
    return rc;
}

static void add_counter(struct experiment_page *page, const struct counter *counter)
{
    const struct str prefix = STR(ARM_LABEL);
    struct str name, arm_name;
    size_t i = 0;
    while (i < ARM_COUNTERS && !str_is(counter->name, ARM_COUNTER[i].name))
        i++;
    if (i == ARM_COUNTERS || !str_starts_with(counter->label, prefix) ||
        !arm_split((struct str){counter->label.ptr + prefix.len, counter->label.len - prefix.len},
                   &name, &arm_name))
        return;
    struct experiment_row *row = row_for(page, name);
    struct arm_row *arm = row ? arm_for(page, row, arm_name) : NULL;
    if (arm)
        *(int64_t *)(void *)((char *)&arm->figures + ARM_COUNTER[i].offset) += counter->value;
}

static int rows_by_name(const void *left, const void *right)
{
    const struct experiment_row *a = left, *b = right;
    return str_compare(a->name, b->name);
}

void experiments_count(const struct counter_page *counters, struct experiment_page *page)
{
    for (size_t i = 0; i < counters->n; i++)
        add_counter(page, &counters->counters[i]);
    if (page->n > 0)
        qsort(page->rows, page->n, sizeof *page->rows, rows_by_name);
}

static int add_counters(struct store *store, struct str tenant, struct experiment_page *page,
                        struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page counters = {0};
    int rc = store_ops(store)->counters_list(store, tenant, &counters, err);
    experiments_count(&counters, page);
    return rc;
}

int experiments_read(struct store *store, struct str tenant, const struct config *config,
                     struct experiment_page *ret, struct redrive_err *err)
{
    experiment_page_release(ret);
    for (size_t i = 0; config && i < config->n_experiments; i++)
        add_definition(ret, &config->experiments[i]);
    int rc = add_published(store, ret, err);
    if (rc == 0)
        rc = add_counters(store, tenant, ret, err);
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc < 0)
        experiment_page_release(ret);
    return rc;
}

void experiment_page_release(struct experiment_page *page)
{
    arena_release(&page->arena);
    *page = (struct experiment_page){0};
}

const struct experiment_row *experiment_find(const struct experiment_page *page, struct str name)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->rows[i].name, name))
            return &page->rows[i];
    return NULL;
}

struct experiment_row experiment_defined(const struct experiment *experiment, struct arm_row *arms)
{
    for (size_t i = 0; i < experiment->n_arms; i++)
        arms[i] = (struct arm_row){.name = str_of(experiment->arms[i].name),
                                   .share = experiment->arms[i].share};
    return (struct experiment_row){.name = str_of(experiment->name),
                                   .task = str_of(experiment->task),
                                   .arms = arms,
                                   .n_arms = experiment->n_arms};
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* The number of the arm that the others are compared with: `control`, or else the first. */
static size_t experiment_base(const struct experiment_row *row)
{
    for (size_t i = 0; i < row->n_arms; i++)
        if (str_is(row->arms[i].name, "control"))
            return i;
    return 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static double unit_of(enum measure_kind kind)
{
    return kind == MEASURE_TIME ? 1e-3 : 1;
}

static void write_estimate(struct json_writer *w, const struct estimate *estimate, double unit)
{
    json_field_double(w, "value", estimate->value * unit);
    json_field_double(w, "low", estimate->low * unit);
    json_field_double(w, "high", estimate->high * unit);
}

static void write_measures(struct json_writer *w, const struct arm_figures *figures)
{
    for (int kind = 0; kind < MEASURE_KINDS; kind++) {
        const struct estimate e = figures_estimate(figures, (enum measure_kind)kind);
        json_key(w, kind == MEASURE_COMPLETED ? "completed_share"
                    : kind == MEASURE_TIME    ? "time_to_completion"
                                              : "attempts_per_job");
        if (!e.is_known) {
            json_put_null(w);
            continue;
        }
        json_begin_object(w);
        write_estimate(w, &e, unit_of((enum measure_kind)kind));
        json_end_object(w);
    }
}

static void write_differences(struct json_writer *w, const struct arm_figures *base,
                              const struct arm_figures *figures)
{
    for (int kind = 0; kind < MEASURE_KINDS; kind++) {
        const struct estimate e = figures_difference(base, figures, (enum measure_kind)kind);
        json_key(w, measure_name((enum measure_kind)kind));
        if (!e.is_known) {
            json_put_null(w);
            continue;
        }
        json_begin_object(w);
        write_estimate(w, &e, unit_of((enum measure_kind)kind));
        json_field_bool(w, "significant", estimate_is_significant(&e));
        json_end_object(w);
    }
}

/* What intervals are made of, beside the counts. */
static void write_sums(struct json_writer *w, const struct arm_figures *figures)
{
    json_open_object(w, "sums");
    json_field_int(w, "attempts_squares_high", figures->attempts.squares_high);
    json_field_int(w, "attempts_squares_low", figures->attempts.squares_low);
    json_field_int(w, "time_ms", figures->time_ms.sum);
    json_field_int(w, "time_ms_squares_high", figures->time_ms.squares_high);
    json_field_int(w, "time_ms_squares_low", figures->time_ms.squares_low);
    json_end_object(w);
}

static void write_arm(struct json_writer *w, const struct experiment_row *row, size_t i)
{
    const struct arm_row *arm = &row->arms[i];
    const size_t base = experiment_base(row);
    json_begin_object(w);
    json_field_string(w, "name", arm->name);
    json_field_double(w, "share", arm->share);
    json_field_int(w, "submitted", arm->figures.submitted);
    json_field_int(w, "ended", figures_ended(&arm->figures));
    json_field_int(w, "completed", arm->figures.completed);
    json_field_int(w, "dead", arm->figures.dead);
    json_field_int(w, "cancelled", arm->figures.cancelled);
    json_field_int(w, "attempts", arm->figures.attempts.sum);
    write_measures(w, &arm->figures);
    write_sums(w, &arm->figures);
    json_key(w, "against_base");
    if (i == base) {
        json_put_null(w);
    } else {
        json_begin_object(w);
        write_differences(w, &row->arms[base].figures, &arm->figures);
        json_end_object(w);
    }
    json_end_object(w);
}

void experiment_write_json(struct json_writer *w, const struct experiment_row *row)
{
    json_begin_object(w);
    json_field_string(w, "name", row->name);
    json_key(w, "task");
    if (row->task.len > 0)
        json_put_string(w, row->task);
    else
        json_put_null(w);
    json_field_bool(w, "running", row->task.len > 0);
    json_field_string(w, "base",
                      row->n_arms > 0 ? row->arms[experiment_base(row)].name : (struct str){0});
    json_open_array(w, "arms");
    for (size_t i = 0; i < row->n_arms; i++)
        write_arm(w, row, i);
    json_end_array(w);
    json_end_object(w);
}
