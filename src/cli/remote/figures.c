/* figures.c - breakers, workers and statistics of a server, read back into structs. */
#include "cli/remote/remote.h"

#include "base/err.h"

/* ---- Breakers -------------------------------------------------------------------------------- */

#define BREAKER(m) offsetof(struct breaker_info, m)
static const struct unpack BREAKERS[] = {
    {"key", UNPACK_STR, BREAKER(key)},
    {"tenant", UNPACK_STR, BREAKER(tenant)},
    {"state", UNPACK_WORD, BREAKER(status.state), .words = VOCABULARY_BREAKER_STATE},
    {"failure_count", UNPACK_U32, BREAKER(status.failure_count)},
    {"opened_at", UNPACK_TIME, BREAKER(status.opened_at_ms)},
    {"next_probe_at", UNPACK_TIME, BREAKER(status.next_probe_ms)},
    {"parked", UNPACK_U64, BREAKER(parked)},
    {"idle", UNPACK_BOOL, BREAKER(is_idle)},
    {0},
};

int remote_breakers(struct remote *remote, struct breaker_page *ret, struct redrive_err *err)
{
    struct unpack_list list = {0};
    breaker_page_release(ret);
    int rc = remote_get_list(remote, "/retry/circuit-breakers", BREAKERS, sizeof *ret->breakers,
                             NULL, &ret->arena, &list, err);
    ret->breakers = list.rows;
    ret->n = rc < 0 ? 0 : list.n;
    return rc;
}

/* ---- Health ---------------------------------------------------------------------------------- */

struct written_health {
    struct redrive_health health;
    struct str status;
    uint64_t workers;
};

#define HEALTH(m) offsetof(struct written_health, m)
static const struct unpack HEALTH_ROWS[] = {
    {"status", UNPACK_STR, HEALTH(status)},
    {"health_score", UNPACK_DOUBLE, HEALTH(health.health_score)},
    {"success_rate", UNPACK_DOUBLE, HEALTH(health.success_rate)},
    {"error_rate", UNPACK_DOUBLE, HEALTH(health.error_rate)},
    {"latency_factor", UNPACK_DOUBLE, HEALTH(health.latency_factor)},
    {"breakers", UNPACK_U32, HEALTH(health.breakers)},
    {"breakers_open", UNPACK_U32, HEALTH(health.breakers_open)},
    {"workers", UNPACK_U64, HEALTH(workers)},
    {0},
};

/* ---- Statistics ------------------------------------------------------------------------------ */

#define WORKER(m) offsetof(struct worker_info, m)
static const struct unpack WORKERS[] = {
    {"name", UNPACK_STR, WORKER(name)},
    {"tenant", UNPACK_STR, WORKER(tenant)},
    {"host", UNPACK_STR, WORKER(host)},
    {"pid", UNPACK_INT, WORKER(pid)},
    {"started_at", UNPACK_TIME, WORKER(started_ms)},
    {"seen_at", UNPACK_TIME, WORKER(seen_ms)},
    {"running", UNPACK_U32, WORKER(running)},
    {"slots", UNPACK_U32, WORKER(slots)},
    {"runs", UNPACK_U64, WORKER(runs)},
    {"failed", UNPACK_U64, WORKER(failed)},
    {"tasks_per_second", UNPACK_DOUBLE, WORKER(tasks_per_second)},
    {"p50", UNPACK_MS, WORKER(p50_ms)},
    {"p90", UNPACK_MS, WORKER(p90_ms)},
    {"p99", UNPACK_MS, WORKER(p99_ms)},
    {0},
};

/* Rows for each state, of an array that begins at `base`. */
#define STATE_ROW(name, text) {text, UNPACK_U64, REDRIVE_STATE_##name * sizeof(uint64_t)},
static const struct unpack SIZES[] = {REDRIVE_STATE_MAP(STATE_ROW){0}};

#define COUNT(m) offsetof(struct job_count, m)

/* An age, or -1; the stats have the time since when. */
static const struct unpack FIGURES_OF_QUEUE[] = {
    {"queue", UNPACK_STR, COUNT(queue)},
    {"tenant", UNPACK_STR, COUNT(tenant)},
    {"paused", UNPACK_BOOL, COUNT(paused)},
    {"sizes", UNPACK_OBJECT, COUNT(by_state), .object = SIZES},
    {"oldest_ready_age", UNPACK_SPAN, COUNT(oldest_ready_ms)},
    {"next_ready_time", UNPACK_TIME, COUNT(next_due_ms)},
    {0},
};

#define EVENT_ROW(name, text, counter) \
    {counter, UNPACK_U64, ENGINE_EVENT_##name * sizeof(uint64_t)},
static const struct unpack COUNTS[] = {ENGINE_EVENT_MAP(EVENT_ROW){0}};

#define BREAKER_STATE_ROW(name, text) \
    {text, UNPACK_U32, offsetof(struct stats, breakers_by_state[REDRIVE_BREAKER_##name])},
static const struct unpack BREAKER_COUNTS[] = {
    {"total", UNPACK_U64, offsetof(struct stats, breakers.n)},
    REDRIVE_BREAKER_STATE_MAP(BREAKER_STATE_ROW){0},
};
_Static_assert(sizeof(size_t) == sizeof(uint64_t), "the number of breakers is read as 64 bits");

#define STATS(m) offsetof(struct stats, m)
static const struct unpack RUN_TIME[] = {
    {"p50", UNPACK_MS, STATS(run_time.p50_ms)},
    {"p90", UNPACK_MS, STATS(run_time.p90_ms)},
    {"p99", UNPACK_MS, STATS(run_time.p99_ms)},
    {0},
};

/* The document, and what has to be made of some of its members. */
struct written_stats {
    struct stats stats; /* first: tables of its parts count from here */
    struct written_health health;
    struct str counters; /* JSON, like those below */
    struct str by_task;
    struct str queues;
    struct str workers;
};

static const struct unpack STATS_ROWS[] = {
    {"at", UNPACK_TIME, STATS(at_ms)},
    {"tenant", UNPACK_STR, STATS(tenant)},
    {"counters", UNPACK_JSON, offsetof(struct written_stats, counters)},
    {"by_task", UNPACK_JSON, offsetof(struct written_stats, by_task)},
    {"average_retries", UNPACK_DOUBLE, STATS(average_retries)},
    {"oldest_ready_age", UNPACK_SPAN, STATS(oldest_ready_ms)},
    {"next_ready_time", UNPACK_TIME, STATS(next_ready_ms)},
    {"queues", UNPACK_JSON, offsetof(struct written_stats, queues)},
    {"breakers", UNPACK_OBJECT, 0, .object = BREAKER_COUNTS},
    {"tasks_per_second", UNPACK_DOUBLE, STATS(tasks_per_second)},
    {"run_time", UNPACK_OBJECT, 0, .object = RUN_TIME},
    {"health", UNPACK_OBJECT, offsetof(struct written_stats, health), .object = HEALTH_ROWS},
    {"workers", UNPACK_JSON, offsetof(struct written_stats, workers)},
    {0},
};

/* {"mail":{"jobs_received":…}}: a row for each key. */
static int read_rows(struct json_reader *r, struct arena *arena, struct stats_rows *ret)
{
    struct json_string key;
    int rc = json_enter_object(r);
    RELEASED_BY(buf_release) struct buf name = BUF_MAX(JSON_MAX_BYTES);
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
        struct stats_row *rows = page_grow(arena, ret->rows, ret->n, sizeof *rows);
        if (!rows) {
            rc = REDRIVE_E_NOMEM;
            break;
        }
        ret->rows = rows;
        buf_reset(&name);
        (void)json_unescape(key, &name);
        rows[ret->n] = (struct stats_row){.name = arena_str(arena, buf_str(&name))};
        rc = unpack_members(r, COUNTS, arena, rows[ret->n++].counts);
    }
    return rc;
}

static int read_tasks(struct str json, struct stats *s, struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = UINT32_MAX};
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, json, &limits);
    int rc = read_rows(&r, &s->arena, &s->by[STATS_TASK]);
    if (rc < 0 && unpack_error(&r, err) == 0)
        rc = err_nomem(err);
    return rc;
}

static int64_t since(int64_t age_ms, int64_t now_ms)
{
    return age_ms < 0 ? 0 : now_ms - age_ms;
}

static int restore_stats(struct written_stats *w, struct stats *s, struct redrive_err *err)
{
    static const struct unpack UNCLASSIFIED[] = {{"unclassified", UNPACK_U64, STATS(unclassified)},
                                                 {0}};
    static const struct job_count NO_AGE = {.oldest_ready_ms = -1};
    struct unpack_list queues = {0}, workers = {0};
    int rc = unpack_object(w->counters, COUNTS, &s->arena, s->counts, err);
    if (rc == 0)
        rc = unpack_object(w->counters, UNCLASSIFIED, &s->arena, s, err);
    if (rc == 0)
        rc = read_tasks(w->by_task, s, err);
    if (rc == 0)
        rc = unpack_array(w->queues, FIGURES_OF_QUEUE, sizeof NO_AGE, &NO_AGE, &s->arena, &queues,
                          err);
    if (rc == 0)
        rc = unpack_array(w->workers, WORKERS, sizeof(struct worker_info), NULL, &s->arena,
                          &workers, err);
    if (rc < 0)
        return rc;
    s->queues.counts = queues.rows;
    s->queues.n = queues.n;
    for (size_t i = 0; i < queues.n; i++)
        s->queues.counts[i].oldest_ready_ms = since(s->queues.counts[i].oldest_ready_ms, s->at_ms);
    s->oldest_ready_ms = since(s->oldest_ready_ms, s->at_ms);
    s->workers.workers = workers.rows;
    s->workers.n = workers.n;
    s->health = w->health.health;
    s->health.status = w->health.status.ptr ? w->health.status.ptr : "";
    return 0;
}

int remote_stats(struct remote *remote, struct http_answer *json, struct stats *ret,
                 struct redrive_err *err)
{
    struct written_stats written = {.stats = {.oldest_ready_ms = -1}};
    stats_release(ret);
    int rc = remote_get(remote, "/stats", json, err);
    if (rc == 0)
        rc = unpack_object(buf_str(&json->body), STATS_ROWS, &written.stats.arena, &written, err);
    *ret = written.stats;
    return rc < 0 ? rc : restore_stats(&written, ret, err);
}
