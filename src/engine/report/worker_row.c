/* worker_row.c - workers that are alive, as every process can see them. */
#include "engine/report/worker_row.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/buf.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "store/job_json.h"

#define ROW_MAX_BYTES (64u * 1024)

/* More runs than any process counts: what is added up stays a number. */
#define WEIGHT_MAX 1e15

/* ---- Writing --------------------------------------------------------------------------------- */

/* Pairs of bucket and weight, of those that have one, so that many can be added up exactly. */
static void write_run_times(struct json_writer *w, const struct quantile *q)
{
    json_key(w, "run_times");
    json_begin_array(w);
    for (int i = 0; i < QUANTILE_BUCKETS; i++) {
        if (q->weights[i] <= 0)
            continue;
        json_begin_array(w);
        json_put_int(w, i);
        json_put_double(w, q->weights[i]);
        json_end_array(w);
    }
    json_end_array(w);
}

static void write_row(const struct engine *e, const struct worker_op *op, struct buf *out)
{
    char host[256] = "";
    struct json_writer w;
    struct health_share health;
    struct quantile run_time;
    (void)gethostname(host, sizeof host - 1);
    health_share(&e->health, e->now_ms, &health);
    quantile_init(&run_time, 0, e->now_ms);
    quantile_merge(&run_time, &e->run_time, e->now_ms);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "host", host);
    json_field_int(&w, "pid", getpid());
    json_field_int(&w, "started_ms", e->started_ms);
    json_field_int(&w, "seen_ms", e->now_ms);
    json_field_int(&w, "running", op->running);
    json_field_int(&w, "slots", op->slots);
    json_field_int(&w, "runs", (int64_t)e->runs);
    json_field_int(&w, "failed", (int64_t)e->failed_runs);
    json_field_double(&w, "events", health.events);
    json_field_double(&w, "failures", health.failures);
    json_field_double(&w, "latency_factor", health.latency_factor);
    write_run_times(&w, &run_time);
    json_end_object(&w);
}

static int by_tenant_and_name(const void *left, const void *right)
{
    const struct shared_row *a = left, *b = right;
    const int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

/* The version of a worker's row, 0 when there is none; the rows are in the order of tenant and
 * name. */
static int64_t version_among(const struct shared_page *page, struct str tenant, struct str name)
{
    const struct shared_row wanted = {.tenant = tenant, .key = name};
    const struct shared_row *row = NULL;
    if (page->n > 0)
        row = bsearch(&wanted, page->rows, page->n, sizeof wanted, by_tenant_and_name);
    return row ? row->version : 0;
}

static int apply_worker(struct engine *e, struct op *base, struct redrive_err *err)
{
    const struct worker_op *op = (const struct worker_op *)base;
    struct shared_row row = {
        .kind = SHARED_WORKER, .tenant = op->tenant, .key = op->name, .removed = op->leaving};
    struct shared_page page = {0};
    struct buf value;
    int rc = e->ops->shared_list(e->store, SHARED_WORKER, op->tenant, &page, err);
    row.version = rc == 0 ? version_among(&page, op->tenant, op->name) : 0;
    shared_page_release(&page);
    if (rc < 0 || (op->leaving && row.version == 0))
        return rc;
    buf_init(&value, ROW_MAX_BYTES);
    if (!op->leaving)
        write_row(e, op, &value);
    row.value = buf_str(&value);
    rc = buf_failed(&value) ? err_nomem(err) : shared_row_put(e, &row, NULL, err);
    buf_release(&value);
    return rc;
}

/* What the engine of a shard knows of the work is in the row on that shard. */
static const struct op_route WORKER_ROUTE = {.to = ROUTE_EVERY};

void worker_op_init(struct worker_op *op, struct str name, struct str tenant)
{
    *op = (struct worker_op){.op = {.apply = apply_worker, .route = &WORKER_ROUTE, .weight = 1},
                             .name = name,
                             .tenant = tenant};
}

/* ---- Workers that work through a server ------------------------------------------------------ */

static void write_remote(const struct engine *e, const struct remote_worker *worker,
                         struct buf *out)
{
    struct json_writer w;
    buf_reset(out);
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_int(&w, "started_ms", worker->started_ms);
    json_field_int(&w, "seen_ms", e->now_ms);
    json_field_int(&w, "running", worker->running);
    json_field_int(&w, "slots", worker->slots);
    json_field_int(&w, "runs", (int64_t)worker->runs);
    json_field_int(&w, "failed", (int64_t)worker->failed);
    json_end_object(&w);
}

static int put_remote(struct engine *e, const struct remote_worker *worker, int64_t version,
                      struct buf *value, struct redrive_err *err)
{
    struct shared_row row = {.kind = SHARED_WORKER,
                             .tenant = worker->tenant,
                             .key = worker->name,
                             .version = version,
                             .removed = worker->gone};
    if (worker->gone && version == 0)
        return 0;
    write_remote(e, worker, value);
    row.value = buf_str(value);
    if (buf_failed(value))
        return err_nomem(err);
    return shared_row_put(e, &row, NULL, err);
}

static int apply_remote(struct engine *e, struct op *base, struct redrive_err *err)
{
    const struct remote_workers_op *op = (const struct remote_workers_op *)base;
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    RELEASED_BY(buf_release) struct buf value = BUF_MAX(ROW_MAX_BYTES);
    int rc = e->ops->shared_list(e->store, SHARED_WORKER, (struct str){0}, &page, err);
    for (size_t i = 0; i < op->n && rc == 0; i++) {
        const struct remote_worker *worker = &op->workers[i];
        rc = put_remote(e, worker, version_among(&page, worker->tenant, worker->name), &value, err);
    }
    return rc;
}

static const struct op_route REMOTE_ROUTE = {.to = ROUTE_TENANT};

void remote_workers_op_init(struct remote_workers_op *op, const struct remote_worker *workers,
                            size_t n)
{
    *op = (struct remote_workers_op){
        .op = {.apply = apply_remote, .route = &REMOTE_ROUTE, .weight = (uint32_t)n},
        .workers = workers,
        .n = n};
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A pair, or an array that is none: what it lacks stays as it was. */
static void read_pair(struct json_reader *r, int64_t *ret_bucket, double *ret_weight)
{
    (void)json_enter_array(r);
    for (int i = 0; json_next_item(r) > 0; i++) {
        if (i == 0)
            (void)json_read_int(r, ret_bucket);
        else if (i == 1)
            (void)json_read_double(r, ret_weight);
        else
            (void)json_skip(r, NULL);
    }
}

static void read_run_times(struct json_reader *r, struct quantile *ret)
{
    (void)json_enter_array(r);
    while (json_next_item(r) > 0) {
        int64_t bucket = -1;
        double weight = 0;
        read_pair(r, &bucket, &weight);
        if (bucket >= 0 && bucket < QUANTILE_BUCKETS && weight > 0 && weight <= WEIGHT_MAX) {
            ret->weights[bucket] += weight;
            ret->total += weight;
        }
    }
}

static bool read_u64(struct json_reader *r, struct json_string key, const char *name, uint64_t most,
                     uint64_t *ret)
{
    int64_t value = 0;
    if (!json_string_is(key, name))
        return false;
    if (json_read_int(r, &value) == 0)
        *ret = value < 0 ? 0 : (uint64_t)value > most ? most : (uint64_t)value;
    return true;
}

static bool read_share(struct json_reader *r, struct json_string key, const char *name, double *ret)
{
    double value = 0;
    if (!json_string_is(key, name))
        return false;
    if (json_read_double(r, &value) == 0)
        *ret = fmin(fmax(value, 0), WEIGHT_MAX);
    return true;
}

struct parsed {
    struct worker_info info;
    struct quantile run_time;
};

static void read_member(struct json_reader *r, struct json_string key, struct parsed *p,
                        struct buf *host)
{
    struct worker_info *info = &p->info;
    uint64_t running = info->running, slots = info->slots;
    uint64_t pid = (uint64_t)info->pid, started = (uint64_t)info->started_ms;
    uint64_t seen = (uint64_t)info->seen_ms;
    struct json_string text;
    if (json_string_is(key, "host")) {
        if (json_read_string(r, &text) == 0)
            (void)json_unescape(text, host);
    } else if (json_string_is(key, "run_times")) {
        read_run_times(r, &p->run_time);
    } else if (!read_u64(r, key, "pid", INT64_MAX, &pid) &&
               !read_u64(r, key, "started_ms", INT64_MAX, &started) &&
               !read_u64(r, key, "seen_ms", INT64_MAX, &seen) &&
               !read_u64(r, key, "running", UINT32_MAX, &running) &&
               !read_u64(r, key, "slots", UINT32_MAX, &slots) &&
               !read_u64(r, key, "runs", INT64_MAX, &info->runs) &&
               !read_u64(r, key, "failed", INT64_MAX, &info->failed) &&
               !read_share(r, key, "events", &info->health.events) &&
               !read_share(r, key, "failures", &info->health.failures) &&
               !read_share(r, key, "latency_factor", &info->health.latency_factor)) {
        (void)json_skip(r, NULL);
    }
    info->pid = (int64_t)pid;
    info->started_ms = (int64_t)started;
    info->seen_ms = (int64_t)seen;
    info->running = (uint32_t)running;
    info->slots = (uint32_t)slots;
}

static void derive_figures(struct parsed *p, int64_t now_ms)
{
    struct worker_info *info = &p->info;
    info->tasks_per_second = health_share_rate(&info->health, info->started_ms, now_ms);
    info->p50_ms = quantile_get(&p->run_time, 0.5);
    info->p90_ms = quantile_get(&p->run_time, 0.9);
    info->p99_ms = quantile_get(&p->run_time, 0.99);
}

/* A worker of a store with shards has a row on each of them, with what its engine there knows. */
static bool is_same_worker(const struct worker_info *a, const struct worker_info *b)
{
    return str_eq(a->name, b->name) && str_eq(a->tenant, b->tenant);
}

static void join_rows(struct parsed *to, const struct parsed *from, int64_t now_ms)
{
    struct worker_info *a = &to->info;
    const struct worker_info *b = &from->info;
    /* A process of that name which ended while the shard was away has left its row there. */
    if (a->pid != b->pid || !str_eq(a->host, b->host)) {
        if (b->seen_ms > a->seen_ms)
            *to = *from;
        return;
    }
    a->runs += b->runs;
    a->failed += b->failed;
    if (b->seen_ms > a->seen_ms) {
        a->seen_ms = b->seen_ms;
        a->running = b->running;
        a->slots = b->slots;
    }
    if (b->started_ms < a->started_ms)
        a->started_ms = b->started_ms;
    health_share_add(&a->health, &b->health, now_ms);
    quantile_merge(&to->run_time, &from->run_time, now_ms);
    derive_figures(to, now_ms);
}

/* False when it is not what a worker writes. */
static bool parse_row(const struct shared_row *row, int64_t now_ms, struct arena *arena,
                      struct parsed *ret)
{
    struct json_reader r;
    struct json_string key;
    RELEASED_BY(buf_release) struct buf host = BUF_MAX(1024);
    *ret = (struct parsed){.info = {.health = {.latency_factor = 1}}};
    quantile_init(&ret->run_time, 0, now_ms);
    json_reader_init(&r, row->value, NULL);
    (void)json_enter_object(&r);
    while (json_next_key(&r, &key) > 0)
        read_member(&r, key, ret, &host);
    bool whole = json_end(&r) == 0 && !buf_failed(&host);
    json_reader_release(&r);
    struct worker_info *info = &ret->info;
    info->health.at_ms = info->seen_ms;
    derive_figures(ret, now_ms);
    info->name = arena_str(arena, row->key);
    info->tenant = arena_str(arena, row->tenant);
    info->host = arena_str(arena, buf_str(&host));
    return whole;
}

/* A row from the future is of a clock that was ahead and has been set back, or of a worker that is
 * about to write another one. */
static bool is_alive(const struct worker_info *info, int64_t now_ms)
{
    const int64_t ago_ms = now_ms - info->seen_ms;
    return ago_ms < WORKER_GONE_MS && ago_ms > -WORKER_GONE_MS;
}

int workers_read(struct store *store, struct str tenant, int64_t now_ms, struct worker_page *ret,
                 struct redrive_err *err)
{
    struct shared_page rows = {0};
    struct parsed parsed, last = {0};
    worker_page_release(ret);
    quantile_init(&ret->run_time, 0, now_ms);
    int rc = store_ops(store)->shared_list(store, SHARED_WORKER, (struct str){0}, &rows, err);
    if (rc == 0)
        ret->workers = arena_array(&ret->arena, rows.n, sizeof *ret->workers);
    for (size_t i = 0; i < rows.n && ret->workers; i++) {
        const struct shared_row *row = &rows.rows[i];
        bool wanted = tenant.len == 0 || row->tenant.len == 0 || str_eq(tenant, row->tenant);
        if (!wanted || !parse_row(row, now_ms, &ret->arena, &parsed) ||
            !is_alive(&parsed.info, now_ms))
            continue;
        if (ret->n > 0 && is_same_worker(&last.info, &parsed.info)) {
            join_rows(&last, &parsed, now_ms);
            ret->n--;
        } else {
            last = parsed;
        }
        ret->workers[ret->n++] = last.info;
        quantile_merge(&ret->run_time, &parsed.run_time, now_ms);
    }
    shared_page_release(&rows);
    for (size_t i = 0; ret->workers && i < ret->n; i++)
        ret->n_working += ret->workers[i].slots > 0;
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc < 0)
        worker_page_release(ret);
    return rc;
}

void worker_page_release(struct worker_page *page)
{
    arena_release(&page->arena);
    *page = (struct worker_page){0};
}

void workers_health(const struct worker_page *page, const struct health_thresholds *thresholds,
                    uint32_t breakers, uint32_t open, int64_t now_ms, struct redrive_health *ret)
{
    struct health_share all = {.at_ms = now_ms};
    for (size_t i = 0; i < page->n; i++)
        health_share_add(&all, &page->workers[i].health, now_ms);
    health_share_read(&all, thresholds, breakers, open, now_ms, ret);
}

void worker_write_json(struct json_writer *w, const struct worker_info *info)
{
    json_begin_object(w);
    json_field_string(w, "name", info->name);
    json_field_string_or_null(w, "tenant", info->tenant);
    json_field_string(w, "host", info->host);
    json_field_int(w, "pid", info->pid);
    job_write_time(w, "started_at", info->started_ms);
    job_write_time(w, "seen_at", info->seen_ms);
    json_field_int(w, "running", info->running);
    json_field_int(w, "slots", info->slots);
    json_field_int(w, "runs", (int64_t)info->runs);
    json_field_int(w, "failed", (int64_t)info->failed);
    json_field_double(w, "tasks_per_second", info->tasks_per_second);
    json_field_double(w, "p50", info->p50_ms / 1000);
    json_field_double(w, "p90", info->p90_ms / 1000);
    json_field_double(w, "p99", info->p99_ms / 1000);
    json_end_object(w);
}

/* ---- Those that are gone --------------------------------------------------------------------- */

int workers_sweep(struct engine *e, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page rows = {0};
    RELEASED_BY(arena_release) struct arena arena = {0};
    struct parsed parsed;
    int rc = e->ops->shared_list(e->store, SHARED_WORKER, (struct str){0}, &rows, err);
    for (size_t i = 0; i < rows.n && rc == 0; i++) {
        struct shared_row row = rows.rows[i];
        if (parse_row(&row, e->now_ms, &arena, &parsed) && is_alive(&parsed.info, e->now_ms))
            continue;
        row.removed = true;
        rc = shared_row_put(e, &row, NULL, err);
    }
    return rc;
}
