/* gates.c - how breakers and limits are read from the store, met by jobs, and written once a
 * transaction. */
#include "engine/gates/gates.h"

#include <string.h>

#include "base/err.h"
#include "base/os/log.h"
#include "base/text/buf.h"
#include "core/elapsed.h"
#include "engine/state.h"
#include "engine/tasks.h"

#define SUCCESS_LAG_MS 1000
#define FAILURE_LAG_MS 100
#define SAVE_MAX_BYTES (64u * 1024 * 1024)

/* When a limit without a rate was last wanted is known to about this. */
#define WANTED_LAG_MS (5 * INT64_C(60000))

/* ---- The gate of a job ----------------------------------------------------------------------- */

int gate_to_now(struct engine *e, struct gate *gate, struct redrive_err *err)
{
    return gate_follow_clock(gate, e->now_ms) ? gate_mark(&e->gates, gate, err) : 0;
}

int gate_breaker(struct engine *e, struct str tenant, struct str key,
                 const struct redrive_breaker_config *config, struct gate **ret,
                 struct redrive_err *err)
{
    *ret = gate_find(&e->gates.breakers, tenant, key);
    const bool is_new = !*ret;
    if (is_new) {
        int rc = gate_new(&e->gates, SHARED_BREAKER, tenant, key, ret, err);
        if (rc != 0)
            return rc;
    }
    if (config)
        (*ret)->breaker_config = *config;
    if (is_new)
        breaker_window_advance(&(*ret)->breaker.window, &(*ret)->breaker_config, e->now_ms);
    return gate_to_now(e, *ret, err);
}

/* A job that ticks of cron entries may not run twice at a time has a limit of its own. */
static const struct config_limits *limits_of(const struct engine *e, const struct gate *gate,
                                             struct str task)
{
    static const struct str CRON_GATE = {"limit:cron:", 11};
    static const struct config_limits ONE_AT_A_TIME = {.concurrency = 1};
    const bool is_cron = str_starts_with(str_of(gate->key), CRON_GATE);
    return is_cron ? &ONE_AT_A_TIME : &task_in_force(e, task)->limits;
}

int limit_renew(struct engine *e, struct gate *gate, struct str task, struct redrive_err *err)
{
    const struct config_limits *limits = limits_of(e, gate, task);
    const struct rate *rate = &limits->rate;
    if (rate->count > 0 && gate->rate.count == 0)
        bucket_init(&gate->bucket, rate, e->now_ms);
    else if (rate->count == 0 && elapsed_since(gate->bucket.updated_ms, e->now_ms) >= WANTED_LAG_MS)
        gate->bucket.updated_ms = e->now_ms; /* so that it is known when it was last wanted */
    gate->rate = *rate;
    gate_set_slots(gate, limits->concurrency, &limits->adaptive);
    gate_set_budget(gate, &limits->budget, e->now_ms);
    return limits->concurrency > 0 ? gates_need_slots(e, err) : 0;
}

int gate_limit(struct engine *e, const struct job *job, struct gate **ret, struct redrive_err *err)
{
    const struct str tenant = job->spec.tenant, key = job->spec.limit_key;
    *ret = gate_find(&e->gates.limits, tenant, key);
    int rc = *ret ? 0 : gate_new(&e->gates, SHARED_LIMIT, tenant, key, ret, err);
    if (rc == 0)
        rc = gate_to_now(e, *ret, err);
    return rc < 0 ? rc : limit_renew(e, *ret, job->spec.task, err);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool has_failures(const struct breaker_counts *counts)
{
    return counts->failures > 0 || counts->slow > 0;
}

/* Half of what would open it, or more. */
static bool is_near(const struct gate *gate)
{
    const struct redrive_breaker_config *config = &gate->breaker_config;
    const struct breaker_counts sum = breaker_window_sum(&gate->breaker.window, config);
    return (config->failure_rate > 0 && 2 * sum.failures >= config->failure_rate * sum.calls) ||
           (config->slow_rate > 0 && 2 * sum.slow >= config->slow_rate * sum.calls &&
            config->slow_call_ms > 0);
}

/* How long the calls of the transaction, and those before it that are not written, may wait. */
static int64_t lag_ms(const struct gate *gate)
{
    const struct breaker_counts unsaved = breaker_window_sum(&gate->unsaved, &gate->breaker_config);
    if (!has_failures(&gate->transaction) && !has_failures(&unsaved))
        return SUCCESS_LAG_MS;
    return gate->breaker_config.window_calls > 0 || is_near(gate) ? 0 : FAILURE_LAG_MS;
}

static bool holds_jobs(const struct gate *gate)
{
    return gate->has_parked || gate->candidates > 0 || gate->release.rate > 0;
}

/* Nothing has changed but the window. Other processes need not read that: they see it when they put
 * the row themselves, and are refused. */
static bool is_quiet(const struct gate *gate)
{
    const struct breaker *b = &gate->breaker, *s = &gate->saved;
    return gate->kind == SHARED_BREAKER && gate->version > 0 && !gate->may_go &&
           !holds_jobs(gate) && !gate->saved_holds && b->state == s->state &&
           b->generation == s->generation && b->consecutive == s->consecutive &&
           memcmp(b->probes, s->probes, sizeof b->probes) == 0;
}

/* It is quiet, and the row was written not long ago. */
static bool may_lag(const struct gate *gate, int64_t now_ms)
{
    return is_quiet(gate) && !gate->is_urgent && now_ms >= gate->saved_ms &&
           now_ms - gate->saved_ms < lag_ms(gate);
}

static bool flush_is_due(const struct engine *e)
{
    const int64_t at_ms = e->gates.flush_ms;
    return e->now_ms >= at_ms ||
           (at_ms < INT64_MAX && elapsed_end_is_ahead(at_ms, SUCCESS_LAG_MS, e->now_ms));
}

/* Marks what has waited long enough to be written, and with it all that waits. */
static int mark_unsaved(struct engine *e, struct redrive_err *err)
{
    int rc = 0;
    if (!flush_is_due(e))
        return 0;
    MAP_FOREACH (&e->gates.breakers, slot) {
        struct gate *gate = slot->value;
        if (rc < 0 || !gate->has_unsaved)
            continue;
        gate->is_urgent = true;
        rc = gate_mark(&e->gates, gate, err);
    }
    return rc;
}

/* The row of a gate, its bytes in the transaction's arena. */
static struct shared_row row_of(struct engine *e, struct gate *gate, struct buf *scratch)
{
    struct shared_row row = {
        .kind = gate->kind,
        .tenant = str_of(gate->tenant),
        .key = str_of(gate->key),
        .version = gate->version,
        .removed = gate->may_go,
        .is_quiet = is_quiet(gate),
    };
    if (gate->kind == SHARED_LIMIT)
        limit_fill_row(gate, &row);
    if (row.is_delta)
        return row;
    buf_reset(scratch);
    gate_encode(gate, scratch);
    row.value = arena_str(&e->arena, buf_str(scratch));
    return row;
}

static int put_gates(struct engine *e, struct gate *const *gates, const struct shared_row *rows,
                     struct move_result *results, size_t n, struct redrive_err *err)
{
    int rc = e->ops->shared_put(e->store, rows, n, results, err);
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (results[i].code < 0)
            return err_set(err, REDRIVE_E_CANCELLED,
                           "another process has changed the same breaker or limit");
        gates[i]->version += !rows[i].is_delta;
        gates[i]->is_written = true;
        e->puts += shared_put_is_notified(&rows[i]);
    }
    e->touched |= rc == 0;
    return rc;
}

int gates_save(struct engine *e, struct redrive_err *err)
{
    struct gates *gates = &e->gates;
    size_t n = 0;
    int rc = mark_unsaved(e, err);
    const size_t n_marked = gates->n_marked;
    if (rc < 0 || n_marked == 0)
        return rc;
    struct gate **changed = arena_array(&e->arena, n_marked, sizeof(struct gate *));
    struct shared_row *rows = arena_array(&e->arena, n_marked, sizeof *rows);
    struct move_result *results = arena_array(&e->arena, n_marked, sizeof *results);
    struct buf scratch;
    buf_init(&scratch, SAVE_MAX_BYTES);
    for (size_t i = 0; i < n_marked && !e->arena.failed; i++) {
        struct gate *gate = gates->marked[i];
        gate->may_go = gate->may_go && gate_is_spent(gate, e->now_ms);
        const bool is_new = gate->version == 0;
        if (gate->may_go ? is_new : may_lag(gate, e->now_ms) || limit_says_nothing(gate))
            continue;
        changed[n] = gate;
        rows[n++] = row_of(e, gate, &scratch);
        event_add_breaker(e, gate);
    }
    bool failed = buf_failed(&scratch) || e->arena.failed;
    buf_release(&scratch);
    if (failed)
        return err_nomem(err);
    return n == 0 ? 0 : put_gates(e, changed, rows, results, n, err);
}

/* The store has the gate as it is here. */
static void is_saved(struct gate *gate, int64_t now_ms)
{
    gate->saved = gate->breaker;
    gate->saved_holds = holds_jobs(gate);
    gate->saved_ms = now_ms;
    gate->has_unsaved = false;
    gate->unsaved = (struct breaker_window){0};
}

/* The calls of the transaction are to be written later. */
static void keep_unsaved(struct engine *e, struct gate *gate)
{
    const int64_t until_ms = gate->saved_ms + lag_ms(gate);
    breaker_window_add_counts(&gate->unsaved, &gate->breaker_config, gate->transaction, e->now_ms);
    gate->unsaved_generation = gate->breaker.generation;
    gate->has_unsaved = true;
    if (until_ms < e->gates.flush_ms)
        e->gates.flush_ms = until_ms;
}

static void start_clean(struct gate *gate)
{
    gate->marked = gate->is_urgent = gate->is_written = gate->may_go = false;
    if (gate->kind == SHARED_BREAKER) {
        gate->transaction = (struct breaker_counts){0};
    } else {
        gate->add = (struct gate_sums){0};
        gate->parks = gate->starts = false;
        gate->renews = gate->renewed;
    }
}

void gates_commit(struct engine *e)
{
    struct gates *gates = &e->gates;
    if (flush_is_due(e))
        gates->flush_ms = INT64_MAX;
    for (size_t i = 0; i < gates->n_marked; i++) {
        struct gate *gate = gates->marked[i];
        if (gate->may_go) {
            gate_drop(&e->gates, gate);
            continue;
        }
        if (gate->kind == SHARED_BREAKER) {
            if (gate->is_written)
                is_saved(gate, e->now_ms);
            else if (gate->transaction.calls > 0)
                keep_unsaved(e, gate);
        } else {
            gate->renewed = gate->renews;
            if (gate->is_written)
                limit_is_saved(e, gate);
        }
        start_clean(gate);
    }
    gates->n_marked = 0;
    gates->are_fresh = false;
    gates->are_counted |= gates->were_counted;
    gates->were_counted = false;
}

void gates_rollback(struct gates *gates)
{
    gates->n_marked = 0;
    gates->are_fresh = gates->were_counted = false;
}

void gates_distrust(struct gates *gates)
{
    gates->are_counted = false;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Calls of an earlier generation no longer count. */
static void add_unsaved(struct gate *gate)
{
    struct breaker *b = &gate->breaker;
    if (!gate->has_unsaved)
        return;
    if (b->state == REDRIVE_BREAKER_CLOSED && b->generation == gate->unsaved_generation) {
        breaker_window_merge(&b->window, &gate->breaker_config, &gate->unsaved);
        return;
    }
    gate->has_unsaved = false;
    gate->unsaved = (struct breaker_window){0};
}

/* A row that cannot be read must not stop all other gates: the breaker or limit begins anew, lets
 * go what may be parked in it, and is written. */
static int begin_anew(struct engine *e, struct gate *gate, struct redrive_err *err)
{
    log_event(e->options.log, LOG_LEVEL_ERROR, engine_now_ms(e), "gate_damaged",
              LOG_S("gate", gate->key), LOG_S("tenant", gate->tenant));
    gate->has_parked = true;
    gate->candidates = 0;
    gate->candidates_until_ms = 0;
    gate->is_urgent = true;
    gate_reset(gate);
    if (gate->kind != SHARED_BREAKER)
        gates_distrust(&e->gates);
    engine_want(e, e->now_ms);
    return gate_mark(&e->gates, gate, err);
}

static int load_row(struct engine *e, const struct shared_row *row, struct redrive_err *err)
{
    const struct map *map = row->kind == SHARED_BREAKER ? &e->gates.breakers : &e->gates.limits;
    struct gate *gate = gate_find(map, row->tenant, row->key);
    const bool is_new = !gate;
    int rc = is_new ? gate_new(&e->gates, row->kind, row->tenant, row->key, &gate, err) : 0;
    if (rc < 0 || !gate)
        return rc;
    start_clean(gate);
    gate->load = e->gates.loads;
    gate->version = row->version;
    rc = gate_decode(gate, row->value);
    if (rc == REDRIVE_E_CORRUPT)
        rc = begin_anew(e, gate, err);
    else if (rc < 0)
        err_nomem(err);
    if (rc < 0)
        return rc;
    if (gate->kind == SHARED_BREAKER) {
        gate->saved = gate->breaker;
        gate->saved_holds = holds_jobs(gate);
        if (is_new)
            gate->saved_ms = e->now_ms;
        add_unsaved(gate);
    } else {
        limit_is_loaded(gate, row->sums);
    }
    return 0;
}

static int load_kind(struct engine *e, enum shared_kind kind, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    int rc = e->ops->shared_list(e->store, kind, (struct str){0}, &page, err);
    for (size_t i = 0; i < page.n && rc == 0; i++)
        rc = load_row(e, &page.rows[i], err);
    return rc;
}

/* Drops gates that the store does not have: another process has removed them, or the transaction
 * that made them has failed. */
static int drop_unknown(struct engine *e, const struct map *map, struct redrive_err *err)
{
    size_t n = 0;
    if (map->count == 0)
        return 0;
    struct gate **gone = arena_array(&e->arena, map->count, sizeof(struct gate *));
    if (!gone)
        return err_nomem(err);
    MAP_FOREACH (map, slot) {
        struct gate *gate = slot->value;
        if (gate->load != e->gates.loads)
            gone[n++] = gate;
    }
    for (size_t i = 0; i < n; i++)
        gate_drop(&e->gates, gone[i]);
    return 0;
}

int gates_load(struct engine *e, struct redrive_err *err)
{
    e->gates.n_marked = 0;
    e->gates.seen_ms = e->now_ms;
    e->gates.are_unknown = false;
    e->gates.are_fresh = true;
    e->gates.loads++;
    int rc = load_kind(e, SHARED_BREAKER, err);
    if (rc == 0)
        rc = load_kind(e, SHARED_LIMIT, err);
    if (rc == 0)
        rc = drop_unknown(e, &e->gates.breakers, err);
    return rc < 0 ? rc : drop_unknown(e, &e->gates.limits, err);
}

/* ---- Removing -------------------------------------------------------------------------------- */

static int sweep_map(struct engine *e, const struct map *map, size_t limit, size_t *n,
                     struct redrive_err *err)
{
    int rc = 0;
    MAP_FOREACH (map, slot) {
        struct gate *gate = slot->value;
        if (rc < 0 || *n == limit || !gate_is_spent(gate, e->now_ms))
            continue;
        gate->may_go = true;
        rc = gate_mark(&e->gates, gate, err);
        ++*n;
    }
    return rc;
}

int gates_sweep(struct engine *e, size_t limit, size_t *ret_n, struct redrive_err *err)
{
    *ret_n = 0;
    int rc = sweep_map(e, &e->gates.breakers, limit, ret_n, err);
    return rc < 0 ? rc : sweep_map(e, &e->gates.limits, limit, ret_n, err);
}
