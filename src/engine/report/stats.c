/* stats.c - all figures of a store: read in one place, and written as documents. */
#include "engine/report/stats.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "store/job_json.h"

void stats_release(struct stats *stats)
{
    count_page_release(&stats->queues);
    count_page_release(&stats->partitions);
    breaker_page_release(&stats->breakers);
    limit_page_release(&stats->limits);
    worker_page_release(&stats->workers);
    experiment_page_release(&stats->experiments);
    arena_release(&stats->arena);
    *stats = (struct stats){0};
}

/* ---- Counters -------------------------------------------------------------------------------- */

struct counting {
    struct stats *stats;
    struct map rows[STATS_LABEL_COUNT]; /* key → struct stats_row */
};

static void add(struct counting *c, enum stats_label group, struct str key, struct stats_row row,
                int kind, uint64_t value)
{
    struct stats_rows *rows = &c->stats->by[group];
    struct stats_row *found = map_get(&c->rows[group], key);
    if (!found) {
        found = &rows->rows[rows->n];
        found->name = arena_str(&c->stats->arena, row.name);
        found->queue = arena_str(&c->stats->arena, row.queue);
        if (map_put(&c->rows[group], key, found) != 0) {
            c->stats->arena.failed = true;
            return;
        }
        rows->n++;
    }
    found->counts[kind] += value;
}

static void count(struct counting *c, const struct counter *counter)
{
    const struct str label = counter->label, class_prefix = STR("class:");
    struct str queue, task;
    uint64_t value = counter->value > 0 ? (uint64_t)counter->value : 0;
    if (label.len == 0 && str_is(counter->name, "unclassified"))
        c->stats->unclassified += value;
    int kind = engine_event_counted(counter->name);
    if (kind < 0)
        return;
    if (label.len == 0) {
        c->stats->counts[kind] += value;
    } else if (counter_partition(label, &queue, &task)) {
        add(c, STATS_PARTITION, label, (struct stats_row){.name = task, .queue = queue}, kind,
            value);
        add(c, STATS_TASK, task, (struct stats_row){.name = task}, kind, value);
        add(c, STATS_QUEUE, queue, (struct stats_row){.name = queue}, kind, value);
    } else if (str_starts_with(label, class_prefix)) {
        const struct str name = {label.ptr + class_prefix.len, label.len - class_prefix.len};
        add(c, STATS_CLASS, name, (struct stats_row){.name = name}, kind, value);
    }
}

static int by_name(const void *left, const void *right)
{
    const struct stats_row *a = left, *b = right;
    const int order = str_compare(a->name, b->name);
    return order != 0 ? order : str_compare(a->queue, b->queue);
}

static int read_counters(struct store *store, struct stats *s, struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page page = {0};
    struct counting c = {.stats = s};
    int rc = store_ops(store)->counters_list(store, s->tenant, &page, err);
    for (int i = 0; i < STATS_LABEL_COUNT; i++) {
        map_init(&c.rows[i], (uint64_t)s->at_ms);
        s->by[i].rows = rc == 0 ? arena_array(&s->arena, page.n, sizeof *s->by[i].rows) : NULL;
    }
    for (size_t i = 0; i < page.n && !s->arena.failed; i++)
        count(&c, &page.counters[i]);
    for (int i = 0; i < STATS_LABEL_COUNT; i++) {
        if (s->by[i].n > 0 && !s->arena.failed)
            qsort(s->by[i].rows, s->by[i].n, sizeof *s->by[i].rows, by_name);
        map_release(&c.rows[i]);
    }
    experiments_count(&page, &s->experiments);
    return rc == 0 && (s->arena.failed || s->experiments.arena.failed) ? err_nomem(err) : rc;
}

/* ---- Sizes, breakers, workers ---------------------------------------------------------------- */

static int by_task(const void *left, const void *right)
{
    const struct job_count *a = left, *b = right;
    const int order = str_compare(a->task, b->task);
    return order != 0 ? order : str_compare(a->queue, b->queue);
}

static int read_tasks(struct store *store, struct stats *s, struct redrive_err *err)
{
    int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, s->tenant, &s->partitions, err);
    if (rc == 0)
        s->tasks = arena_array(&s->arena, s->partitions.n, sizeof *s->tasks);
    if (s->partitions.n > 0)
        qsort(s->partitions.counts, s->partitions.n, sizeof *s->partitions.counts, by_task);
    for (size_t i = 0; i < s->partitions.n && s->tasks; i++) {
        const struct job_count *partition = &s->partitions.counts[i];
        if (s->n_tasks == 0 || !str_eq(s->tasks[s->n_tasks - 1].task, partition->task)) {
            s->tasks[s->n_tasks++].task = partition->task;
        }
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            s->tasks[s->n_tasks - 1].by_state[state] += partition->by_state[state];
    }
    return rc == 0 && s->arena.failed ? err_nomem(err) : rc;
}

static void earliest(int64_t at_ms, int64_t *ret)
{
    if (at_ms != 0 && (*ret == 0 || at_ms < *ret))
        *ret = at_ms;
}

static void sum_up(struct stats *s)
{
    for (size_t i = 0; i < s->queues.n; i++) {
        const struct job_count *q = &s->queues.counts[i];
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            s->by_state[state] += q->by_state[state];
        earliest(q->oldest_ready_ms, &s->oldest_ready_ms);
        earliest(q->next_due_ms, &s->next_ready_ms);
    }
    for (size_t i = 0; i < s->breakers.n; i++)
        s->breakers_by_state[s->breakers.breakers[i].status.state]++;
    for (size_t i = 0; i < s->workers.n; i++)
        s->tasks_per_second += s->workers.workers[i].tasks_per_second;
    s->run_time.p50_ms = quantile_get(&s->workers.run_time, 0.5);
    s->run_time.p90_ms = quantile_get(&s->workers.run_time, 0.9);
    s->run_time.p99_ms = quantile_get(&s->workers.run_time, 0.99);
    uint64_t ended = s->counts[ENGINE_EVENT_COMPLETED] + s->counts[ENGINE_EVENT_DEAD] +
                     s->counts[ENGINE_EVENT_FAILED];
    if (ended > 0)
        s->average_retries = (double)s->counts[ENGINE_EVENT_RETRYING] / (double)ended;
}

int stats_read(struct store *store, struct str tenant, const struct health_thresholds *thresholds,
               int64_t now_ms, struct stats *ret, struct redrive_err *err)
{
    stats_release(ret);
    ret->at_ms = now_ms;
    ret->tenant = tenant;
    int rc = read_counters(store, ret, err);
    if (rc == 0)
        rc = store_ops(store)->counts(store, COUNT_QUEUES, tenant, &ret->queues, err);
    if (rc == 0)
        rc = breakers_read(store, tenant, now_ms, &ret->breakers, err);
    if (rc == 0)
        rc = workers_read(store, tenant, now_ms, &ret->workers, err);
    if (rc < 0) {
        stats_release(ret);
        return rc;
    }
    sum_up(ret);
    workers_health(&ret->workers, thresholds, (uint32_t)ret->breakers.n,
                   breakers_open(&ret->breakers), now_ms, &ret->health);
    return 0;
}

int stats_read_all(struct store *store, struct str tenant,
                   const struct health_thresholds *thresholds, int64_t now_ms, struct stats *ret,
                   struct redrive_err *err)
{
    int rc = stats_read(store, tenant, thresholds, now_ms, ret, err);
    if (rc == 0)
        rc = read_tasks(store, ret, err);
    if (rc == 0)
        rc = limits_read(store, tenant, now_ms, &ret->limits, err);
    if (rc < 0)
        stats_release(ret);
    return rc;
}

int stats_health(struct store *store, const struct health_thresholds *thresholds, int64_t now_ms,
                 struct redrive_health *ret, struct worker_page *ret_workers,
                 struct redrive_err *err)
{
    const struct str all = {0};
    RELEASED_BY(breaker_page_release) struct breaker_page breakers = {0};
    int rc = breakers_read(store, all, now_ms, &breakers, err);
    if (rc == 0)
        rc = workers_read(store, all, now_ms, ret_workers, err);
    if (rc == 0)
        workers_health(ret_workers, thresholds, (uint32_t)breakers.n, breakers_open(&breakers),
                       now_ms, ret);
    return rc;
}

/* ---- JSON: everything ------------------------------------------------------------------------ */

static void field_u64(struct json_writer *w, const char *key, uint64_t value)
{
    json_key(w, key);
    json_put_uint(w, value);
}

static void write_counts(struct json_writer *w, const uint64_t *counts)
{
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++) {
        const char *name = engine_event_counter((enum engine_event_kind)kind);
        if (*name)
            field_u64(w, name, counts[kind]);
    }
}

static void write_rows(struct json_writer *w, const char *key, const struct stats_rows *rows)
{
    json_key(w, key);
    json_begin_object(w);
    for (size_t i = 0; i < rows->n; i++) {
        json_key_str(w, rows->rows[i].name);
        json_begin_object(w);
        write_counts(w, rows->rows[i].counts);
        json_end_object(w);
    }
    json_end_object(w);
}

static void write_sizes(struct json_writer *w, const uint64_t *by_state)
{
    json_key(w, "sizes");
    json_begin_object(w);
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        field_u64(w, redrive_state_name((enum redrive_state)state), by_state[state]);
    json_end_object(w);
}

/* How long ago, in seconds; null when there is none. */
static void write_age(struct json_writer *w, const char *key, int64_t since_ms, int64_t now_ms)
{
    json_key(w, key);
    if (since_ms == 0)
        json_put_null(w);
    else
        json_put_double(w, now_ms > since_ms ? (double)(now_ms - since_ms) / 1000 : 0);
}

static void write_queue(struct json_writer *w, const struct job_count *q, int64_t now_ms)
{
    json_begin_object(w);
    json_field_string(w, "queue", q->queue);
    json_field_string(w, "tenant", q->tenant);
    json_field_bool(w, "paused", q->paused);
    write_sizes(w, q->by_state);
    write_age(w, "oldest_ready_age", q->oldest_ready_ms, now_ms);
    job_write_time(w, "next_ready_time", q->next_due_ms);
    json_end_object(w);
}

static void write_queues(struct json_writer *w, const struct stats *s)
{
    json_key(w, "queues");
    json_begin_array(w);
    for (size_t i = 0; i < s->queues.n; i++)
        write_queue(w, &s->queues.counts[i], s->at_ms);
    json_end_array(w);
}

static void write_breakers(struct json_writer *w, const struct stats *s)
{
    json_key(w, "breakers");
    json_begin_object(w);
    field_u64(w, "total", s->breakers.n);
    for (int state = 0; state < REDRIVE_BREAKER_STATE_COUNT; state++)
        field_u64(w, redrive_breaker_state_name((enum redrive_breaker_state)state),
                  s->breakers_by_state[state]);
    json_end_object(w);
}

static void write_workers(struct json_writer *w, const struct worker_page *workers)
{
    json_key(w, "workers");
    json_begin_array(w);
    for (size_t i = 0; i < workers->n; i++)
        worker_write_json(w, &workers->workers[i]);
    json_end_array(w);
}

static void write_run_time(struct json_writer *w, const struct stats *s)
{
    json_key(w, "run_time");
    json_begin_object(w);
    json_field_double(w, "p50", s->run_time.p50_ms / 1000);
    json_field_double(w, "p90", s->run_time.p90_ms / 1000);
    json_field_double(w, "p99", s->run_time.p99_ms / 1000);
    json_end_object(w);
}

void health_write_members(struct json_writer *w, const struct redrive_health *health,
                          size_t workers)
{
    json_field_cstr(w, "status", health->status);
    json_field_double(w, "health_score", health->health_score);
    json_field_double(w, "success_rate", health->success_rate);
    json_field_double(w, "error_rate", health->error_rate);
    json_field_double(w, "latency_factor", health->latency_factor);
    json_field_int(w, "breakers", health->breakers);
    json_field_int(w, "breakers_open", health->breakers_open);
    field_u64(w, "workers", workers);
}

/* What both documents begin with, and what they have in the middle. */
static void write_head(struct json_writer *w, const struct stats *s)
{
    job_write_time(w, "at", s->at_ms);
    json_field_string_or_null(w, "tenant", s->tenant);
    json_key(w, "counters");
    json_begin_object(w);
    write_counts(w, s->counts);
    field_u64(w, "unclassified", s->unclassified);
    json_end_object(w);
}

static void write_figures(struct json_writer *w, const struct stats *s)
{
    json_field_double(w, "average_retries", s->average_retries);
    write_sizes(w, s->by_state);
    write_age(w, "oldest_ready_age", s->oldest_ready_ms, s->at_ms);
    job_write_time(w, "next_ready_time", s->next_ready_ms);
}

static void write_state_of_things(struct json_writer *w, const struct stats *s)
{
    write_breakers(w, s);
    json_field_double(w, "tasks_per_second", s->tasks_per_second);
    write_run_time(w, s);
    json_key(w, "health");
    json_begin_object(w);
    health_write_members(w, &s->health, s->workers.n_working);
    json_end_object(w);
}

void stats_write_json(struct json_writer *w, const struct stats *s)
{
    json_begin_object(w);
    write_head(w, s);
    write_rows(w, "by_task", &s->by[STATS_TASK]);
    write_rows(w, "by_queue", &s->by[STATS_QUEUE]);
    write_rows(w, "by_class", &s->by[STATS_CLASS]);
    write_figures(w, s);
    write_queues(w, s);
    write_state_of_things(w, s);
    write_workers(w, &s->workers);
    json_end_object(w);
}

/* ---- JSON: the summary ----------------------------------------------------------------------- */

/* Jobs that have not ended, or should be looked at. */
static uint64_t weight(const struct job_count *q)
{
    return q->by_state[REDRIVE_STATE_QUEUED] + q->by_state[REDRIVE_STATE_RUNNING] +
           q->by_state[REDRIVE_STATE_RETRYING] + q->by_state[REDRIVE_STATE_PARKED] +
           q->by_state[REDRIVE_STATE_DEAD_LETTER];
}

static int heavier_first(const void *left, const void *right)
{
    const struct job_count *a = left, *b = right;
    const uint64_t x = weight(a), y = weight(b);
    return x != y ? (x > y ? -1 : 1) : str_compare(a->queue, b->queue);
}

static void write_top_queues(struct json_writer *w, const struct stats *s, size_t max)
{
    struct job_count *sorted = calloc(s->queues.n + 1, sizeof *sorted);
    for (size_t i = 0; sorted && i < s->queues.n; i++)
        sorted[i] = s->queues.counts[i];
    if (sorted)
        qsort(sorted, s->queues.n, sizeof *sorted, heavier_first);
    field_u64(w, "n_queues", s->queues.n);
    json_key(w, "queues");
    json_begin_array(w);
    for (size_t i = 0; sorted && i < s->queues.n && i < max; i++)
        write_queue(w, &sorted[i], s->at_ms);
    json_end_array(w);
    free(sorted);
}

void stats_write_summary_json(struct json_writer *w, const struct stats *s, size_t max_queues)
{
    uint64_t slots = 0, running = 0;
    for (size_t i = 0; i < s->workers.n; i++) {
        slots += s->workers.workers[i].slots;
        running += s->workers.workers[i].running;
    }
    json_begin_object(w);
    write_head(w, s);
    write_figures(w, s);
    write_top_queues(w, s, max_queues);
    write_state_of_things(w, s);
    field_u64(w, "workers", s->workers.n_working);
    field_u64(w, "slots", slots);
    field_u64(w, "running", running);
    json_end_object(w);
}

/* ---- JSON: retry statistics ------------------------------------------------------------------ */

/* Always with a fraction, so that readers which tell 25 from 25.0 see one type. */
static void field_percent(struct json_writer *w, const char *key, uint64_t part, uint64_t whole)
{
    double share = whole == 0 ? 0 : 100 * (double)part / (double)whole;
    char text[32];
    json_key(w, key);
    if (share != (double)(int)share) {
        json_put_double(w, share);
        return;
    }
    (void)snprintf(text, sizeof text, "%d.0", (int)share);
    json_put_raw(w, str_of(text));
}

static void write_execution(struct json_writer *w, const struct stats *s)
{
    uint64_t successful = s->counts[ENGINE_EVENT_COMPLETED];
    uint64_t failed = s->counts[ENGINE_EVENT_DEAD] + s->counts[ENGINE_EVENT_FAILED];
    uint64_t retried = s->counts[ENGINE_EVENT_RETRYING];
    uint64_t total = successful + failed + retried;
    json_key(w, "execution_stats");
    json_begin_object(w);
    field_u64(w, "total_executed", total);
    field_u64(w, "successful", successful);
    field_u64(w, "failed", failed);
    field_u64(w, "retried", retried);
    field_percent(w, "success_rate", successful, total);
    field_percent(w, "failure_rate", failed, total);
    field_percent(w, "retry_rate", retried, total);
    json_end_object(w);
}

static void write_dead_by_task(struct json_writer *w, const struct stats *s)
{
    json_key(w, "by_task_type");
    json_begin_object(w);
    for (size_t i = 0; i < s->n_tasks; i++) {
        uint64_t dead = s->tasks[i].by_state[REDRIVE_STATE_DEAD_LETTER];
        if (dead == 0)
            continue;
        json_key_str(w, s->tasks[i].task);
        json_put_uint(w, dead);
    }
    json_end_object(w);
}

void stats_write_retry_json(struct json_writer *w, const struct stats *s)
{
    uint32_t open = breakers_open(&s->breakers);
    json_begin_object(w);
    write_execution(w, s);
    json_key(w, "circuit_breaker_stats");
    json_begin_object(w);
    field_u64(w, "total_circuit_breakers", s->breakers.n);
    field_u64(w, "open_circuits", open);
    field_u64(w, "closed_circuits",
              s->breakers.n - open - s->breakers_by_state[REDRIVE_BREAKER_DISABLED]);
    json_end_object(w);
    json_key(w, "dead_letter_stats");
    json_begin_object(w);
    field_u64(w, "total_dead_letters", s->by_state[REDRIVE_STATE_DEAD_LETTER]);
    write_dead_by_task(w, s);
    json_end_object(w);
    json_end_object(w);
}
