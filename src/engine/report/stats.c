#include "engine/report/stats.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"

void stats_release(struct stats *stats)
{
    count_page_release(&stats->queues);
    count_page_release(&stats->partitions);
    breaker_page_release(&stats->breakers);
    worker_page_release(&stats->workers);
    arena_release(&stats->arena);
    *stats = (struct stats){0};
}

/* ---- Counters -------------------------------------------------------------------------------- */

/* The kind of event that a counter counts, or -1. */
static int kind_of(struct str name)
{
    for (int kind = 0; kind < ENGINE_EVENT_COUNT; kind++)
        if (str_is(name, engine_event_counter((enum engine_event_kind)kind)))
            return kind;
    return -1;
}

struct counting {
    struct stats *stats;
    struct map rows[STATS_LABEL_COUNT]; /* key → struct stats_row */
};

static struct str keep(struct arena *arena, struct str s)
{
    return s.ptr ? arena_str(arena, s) : s;
}

static void add(struct counting *c, enum stats_label group, struct str key, struct stats_row row,
                int kind, uint64_t value)
{
    struct stats_rows *rows = &c->stats->by[group];
    struct stats_row *found = map_get(&c->rows[group], key);
    if (!found) {
        found = &rows->rows[rows->n];
        found->name = keep(&c->stats->arena, row.name);
        found->queue = keep(&c->stats->arena, row.queue);
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
    int kind = kind_of(counter->name);
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
    struct counter_page page = {0};
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
    counter_page_release(&page);
    return rc == 0 && s->arena.failed ? err_nomem(err) : rc;
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
        rc = read_tasks(store, ret, err);
    if (rc == 0)
        rc = breakers_read(store, tenant, now_ms, &ret->breakers, err);
    if (rc == 0)
        rc = breakers_count_parked(store, tenant, &ret->breakers, err);
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

int stats_health(struct store *store, const struct health_thresholds *thresholds, int64_t now_ms,
                 struct redrive_health *ret, struct worker_page *ret_workers,
                 struct redrive_err *err)
{
    const struct str all = {0};
    struct breaker_page breakers = {0};
    int rc = breakers_read(store, all, now_ms, &breakers, err);
    if (rc == 0)
        rc = workers_read(store, all, now_ms, ret_workers, err);
    if (rc == 0)
        workers_health(ret_workers, thresholds, (uint32_t)breakers.n, breakers_open(&breakers),
                       now_ms, ret);
    breaker_page_release(&breakers);
    return rc;
}
