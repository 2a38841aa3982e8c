#include "store_for_test.h"
#include "scans.h"

#include <stdio.h>
#include <stdlib.h>

#define CALL(ts, slot, ...)                                                      \
    do {                                                                         \
        struct redrive_err err_ = {0};                                           \
        int rc_ = store_ops((ts)->store)->slot((ts)->store, __VA_ARGS__, &err_); \
        if (rc_ < 0)                                                             \
            fail_msg("%s: %s; %s", #slot, redrive_err_name(rc_), err_.message);  \
    } while (0)

/* Commits. A transaction that others were in the way of has not happened, and is tried again:
 * false. */
static bool has_committed(struct test_store *ts)
{
    struct redrive_err err = {0};
    int rc = store_ops(ts->store)->commit(ts->store, &err);
    if (rc < 0 && rc != REDRIVE_E_CANCELLED)
        fail_msg("commit: %s", err.message);
    if (rc < 0)
        store_ops(ts->store)->rollback(ts->store);
    ts->in_transaction = false;
    return rc == 0;
}

/* The same of a slot that has failed. */
static bool is_over(struct test_store *ts, int rc)
{
    if (rc != REDRIVE_E_CANCELLED)
        return false;
    ts_rollback(ts);
    return true;
}

/* The same in a transaction, of its own if there is none; of a slot, or of a function like one. */
#define IN_TRANSACTION(ts, slot, ...) \
    DO_IN_TRANSACTION(ts, store_ops((ts)->store)->slot, __VA_ARGS__)
#define DO_IN_TRANSACTION(ts, function, ...)                                        \
    do {                                                                            \
        struct redrive_err err_ = {0};                                              \
        bool own_ = !(ts)->in_transaction;                                          \
        if (own_)                                                                   \
            ts_begin(ts);                                                           \
        int rc_ = function((ts)->store, __VA_ARGS__, &err_);                        \
        if (own_ && is_over(ts, rc_))                                               \
            continue;                                                               \
        if (rc_ < 0)                                                                \
            fail_msg("%s: %s; %s", #function, redrive_err_name(rc_), err_.message); \
        if (!own_ || has_committed(ts))                                             \
            break;                                                                  \
    } while (true)

static void open_url(struct test_store *ts, bool create)
{
    struct store_options options = {.create = create, .caller_time = true, .busy_wait_ms = 500};
    struct redrive_err err = {0};
    if (store_open(ts->url, &options, &ts->store, &err) < 0)
        fail_msg("cannot open %s: %s; %s", ts->url, err.message, err.detail);
    ts->now_ms = TS_START_MS;
}

void ts_open(struct test_store *ts, const char *store_name)
{
    *ts = (struct test_store){.owns_url = true, .next_token = 1};
    stores_empty_url(store_name, ts->url);
    open_url(ts, true);
}

void ts_join(struct test_store *ts, const struct test_store *other)
{
    *ts = (struct test_store){.next_token = UINT64_C(1) << 63, .n_ids = 1000000};
    memcpy(ts->url, other->url, sizeof ts->url);
    open_url(ts, false);
}

void ts_close(struct test_store *ts)
{
    job_page_release(&ts->one);
    job_page_release(&ts->page);
    attempt_page_release(&ts->attempts);
    count_page_release(&ts->queues);
    count_page_release(&ts->partitions);
    count_page_release(&ts->gates);
    group_page_release(&ts->groups);
    shared_page_release(&ts->shared);
    counter_page_release(&ts->counters);
    remembered_key_page_release(&ts->held);
    arena_release(&ts->arena);
    store_close(ts->store);
    if (ts->owns_url)
        stores_remove(ts->url);
}

int ts_setup(void **state)
{
    struct test_store *ts = calloc(1, sizeof *ts);
    assert_non_null(ts);
    ts_open(ts, stores_name());
    *state = ts;
    return 0;
}

int ts_setup_new(void **state)
{
    struct test_store *ts = calloc(1, sizeof *ts);
    assert_non_null(ts);
    *ts = (struct test_store){.owns_url = true, .next_token = 1};
    stores_new_url(stores_name(), ts->url);
    open_url(ts, true);
    *state = ts;
    return 0;
}

int ts_teardown(void **state)
{
    ts_close(*state);
    free(*state);
    return 0;
}

int ts_try_begin(struct test_store *ts)
{
    int64_t now_ms;
    int rc = store_ops(ts->store)->begin(ts->store, ts->now_ms, &now_ms, &ts->shared_version, NULL);
    ts->in_transaction = rc == 0;
    return rc;
}

void ts_begin(struct test_store *ts)
{
    int64_t now_ms;
    CALL(ts, begin, ts->now_ms, &now_ms, &ts->shared_version);
    ts->in_transaction = true;
}

void ts_commit(struct test_store *ts)
{
    struct redrive_err err = {0};
    if (store_ops(ts->store)->commit(ts->store, &err) < 0)
        fail_msg("commit: %s", err.message);
    ts->in_transaction = false;
}

void ts_rollback(struct test_store *ts)
{
    store_ops(ts->store)->rollback(ts->store);
    ts->in_transaction = false;
}

static struct str or_default(struct str s, const char *fallback)
{
    return s.ptr ? s : str_of(fallback);
}

struct submit_result ts_try_put(struct test_store *ts, const struct job_spec *given)
{
    struct job_spec spec = *given;
    char id[32];
    snprintf(id, sizeof id, "job-%u", ts->n_ids++);
    spec.tenant = or_default(spec.tenant, "acme");
    spec.id = or_default(spec.id, id);
    spec.task = or_default(spec.task, "mail");
    spec.queue = or_default(spec.queue, "main");
    spec.payload = or_default(spec.payload, "{}");
    if (spec.max_attempts == 0)
        spec.max_attempts = 5;
    struct submit_result result;
    IN_TRANSACTION(ts, submit, &spec, 1, &result, &ts->arena);
    return result;
}

int64_t ts_put(struct test_store *ts, const struct job_spec *spec)
{
    struct submit_result result = ts_try_put(ts, spec);
    assert_int_equal(result.code, 0);
    return result.seq;
}

struct move_result ts_try_start(struct test_store *ts, const struct start_move *move)
{
    struct move_result result;
    IN_TRANSACTION(ts, move, STARTS(move, 1), &result);
    return result;
}

uint64_t ts_start(struct test_store *ts, int64_t seq)
{
    uint64_t token = ts->next_token++;
    struct move_result result = ts_try_start(ts, &(struct start_move){
                                                     .seq = seq,
                                                     .token = token,
                                                     .lease_until_ms = ts->now_ms + 30000,
                                                     .worker = STR("w1"),
                                                 });
    check_move(result, 0, REDRIVE_STATE_RUNNING);
    return token;
}

struct move_result ts_settle_with(struct test_store *ts, const struct settle_move *move)
{
    struct move_result result;
    IN_TRANSACTION(ts, move, SETTLES(move, 1), &result);
    return result;
}

struct move_result ts_settle(struct test_store *ts, int64_t seq, uint64_t token,
                             struct decision decision)
{
    struct settle_move move = {.seq = seq, .token = token, .decision = &decision};
    if (decision.class_ != REDRIVE_CLASS_SUCCESS) {
        move.error = (struct job_error){.class_ = decision.class_,
                                        .type = STR("Timeout"),
                                        .message = STR("no answer"),
                                        .code = 504};
        move.fingerprint = 77;
    }
    return ts_settle_with(ts, &move);
}

struct move_result ts_extend(struct test_store *ts, int64_t seq, uint64_t token, int64_t until_ms)
{
    struct move_result result;
    const struct extend_move move = {seq, token, until_ms};
    IN_TRANSACTION(ts, move, EXTENDS(&move, 1), &result);
    return result;
}

struct move_result ts_park(struct test_store *ts, int64_t seq, bool by_limit)
{
    struct move_result result;
    IN_TRANSACTION(ts, move, PARKS(&seq, 1, by_limit), &result);
    return result;
}

struct move_result ts_unpark(struct test_store *ts, int64_t seq)
{
    struct move_result result;
    IN_TRANSACTION(ts, move, UNPARKS(&seq, 1), &result);
    return result;
}

struct move_result ts_change(struct test_store *ts, const struct change_move *move)
{
    struct move_result result;
    IN_TRANSACTION(ts, move, CHANGES(move, 1), &result);
    return result;
}

size_t ts_sweep(struct test_store *ts, uint32_t states, int64_t before_ms, size_t limit)
{
    struct scan scan = {.limit = limit, .states = states, .before_ms = before_ms};
    size_t removed = 0;
    bool more;
    DO_IN_TRANSACTION(ts, scan_remove, &scan, (struct str){0}, &removed, &more);
    return removed;
}

size_t ts_promote(struct test_store *ts, size_t limit, int64_t *ret_next_ms)
{
    size_t moved = 0;
    DO_IN_TRANSACTION(ts, scan_promote, limit, &moved, ret_next_ms);
    return moved;
}

int ts_shared_put(struct test_store *ts, const struct shared_row *row)
{
    struct move_result result;
    IN_TRANSACTION(ts, shared_put, row, 1, &result);
    return result.code;
}

void ts_pause(struct test_store *ts, struct str tenant, struct str queue)
{
    const struct shared_row row = {.kind = SHARED_PAUSE, .tenant = tenant, .key = queue};
    assert_int_equal(ts_shared_put(ts, &row), 0);
}

void ts_count(struct test_store *ts, struct counter counter)
{
    IN_TRANSACTION(ts, counters_add, &counter, 1);
}

struct move_result ts_import(struct test_store *ts, const struct imported_job *job)
{
    struct move_result result;
    IN_TRANSACTION(ts, import, job, 1, &result);
    return result;
}

void ts_import_keys(struct test_store *ts, const struct remembered_key *keys, size_t n)
{
    IN_TRANSACTION(ts, import_keys, keys, n);
}

struct decision decision_completed(void)
{
    return (struct decision){.state = REDRIVE_STATE_COMPLETED, .uses_attempt = true};
}

struct decision decision_retrying(int64_t delay_ms)
{
    return (struct decision){.state = REDRIVE_STATE_RETRYING,
                             .delay_ms = delay_ms,
                             .why = DELAY_BACKOFF,
                             .class_ = REDRIVE_CLASS_NETWORK,
                             .uses_attempt = true};
}

struct decision decision_ended(enum redrive_state state, enum redrive_reason reason)
{
    return (struct decision){
        .state = state, .reason = reason, .class_ = REDRIVE_CLASS_PERMANENT, .uses_attempt = true};
}

struct decision decision_released(void)
{
    return (struct decision){.state = REDRIVE_STATE_QUEUED};
}

struct decision decision_snoozed(int64_t delay_ms)
{
    return (struct decision){
        .state = REDRIVE_STATE_SCHEDULED, .delay_ms = delay_ms, .why = DELAY_SNOOZE};
}

struct decision decision_cancelled(void)
{
    return (struct decision){.state = REDRIVE_STATE_CANCELLED, .uses_attempt = true};
}

static struct decision decision_to(enum redrive_state state)
{
    switch (state) {
    case REDRIVE_STATE_RETRYING: return decision_retrying(60000);
    case REDRIVE_STATE_FAILED:
    case REDRIVE_STATE_DEAD_LETTER: return decision_ended(state, REDRIVE_REASON_EXHAUSTED);
    case REDRIVE_STATE_CANCELLED: return decision_cancelled();
    default: return decision_completed();
    }
}

int64_t ts_put_in(struct test_store *ts, enum redrive_state state, const struct job_spec *given)
{
    struct job_spec spec = given ? *given : (struct job_spec){0};
    if (state == REDRIVE_STATE_SCHEDULED)
        spec.process_after_ms = ts->now_ms + 60000;
    if (state == REDRIVE_STATE_WAITING)
        spec.parents = spec.open_parents = 1;
    int64_t seq = ts_put(ts, &spec);
    if (state == REDRIVE_STATE_PARKED)
        ts_park(ts, seq, false);
    if (state == REDRIVE_STATE_QUEUED || state == REDRIVE_STATE_SCHEDULED ||
        state == REDRIVE_STATE_PARKED || state == REDRIVE_STATE_WAITING)
        return seq;
    uint64_t token = ts_start(ts, seq);
    if (state != REDRIVE_STATE_RUNNING)
        check_move(ts_settle(ts, seq, token, decision_to(state)), 0, state);
    return seq;
}

/* ---- Tenants --------------------------------------------------------------------------------- */

static void put_some_of(struct test_store *ts, struct str tenant)
{
    static const enum redrive_state STATES[] = {REDRIVE_STATE_QUEUED, REDRIVE_STATE_DEAD_LETTER,
                                                REDRIVE_STATE_COMPLETED, REDRIVE_STATE_SCHEDULED};
    for (size_t i = 0; i < sizeof STATES / sizeof STATES[0]; i++) {
        ts->now_ms += 1000;
        ts_put_in(ts, STATES[i], &(struct job_spec){.tenant = tenant});
    }
}

void ts_fill_tenants(struct test_store *ts, int others)
{
    for (int part = 0; part < 3; part++) {
        if (ts->in_transaction)
            ts_commit(ts);
        put_some_of(ts, STR("small"));
        for (int i = 0; part < 2 && i < others / 2; i += 50) {
            ts->now_ms += 10;
            ts_begin(ts);
            for (int k = 0; k < 50; k++)
                ts_put_in(ts, k % 2 ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_RETRYING,
                          &(struct job_spec){.tenant = STR("big")});
            ts_commit(ts);
        }
    }
}

/* Pages of two, one after the other, against all jobs that a list without a tenant gives. */
static void check_pages(struct test_store *ts, enum job_order order, uint32_t states)
{
    struct job_filter all = {.order = order, .states = states, .limit = STORE_PAGE_MAX};
    struct job_filter own = {.tenant = STR("small"), .order = order, .states = states, .limit = 2};
    size_t found = 0, given = 0;
    struct job_page *page = ts_list(ts, &own);
    for (bool more = true; more;) {
        struct job_page everything = {0};
        CALL(ts, list, &all, &everything);
        for (size_t i = 0; i < everything.n; i++) {
            const struct job *job = &everything.jobs[i];
            all.after_seq = job->status.seq;
            all.after_ms = job->status.finished_ms;
            if (!str_is(job->spec.tenant, "small"))
                continue;
            found++;
            assert_true(given < page->n);
            assert_int_equal(page->jobs[given].status.seq, job->status.seq);
            if (++given == page->n && page->more) {
                own.after_seq = job->status.seq;
                own.after_ms = job->status.finished_ms;
                page = ts_list(ts, &own);
                given = 0;
            }
        }
        more = everything.more;
        job_page_release(&everything);
    }
    assert_int_equal(given, page->n);
    assert_int_equal(found, states ? 3 : 12);
}

void ts_check_small_tenant(struct test_store *ts)
{
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++) {
        check_pages(ts, order, 0);
        check_pages(ts, order, 1u << REDRIVE_STATE_DEAD_LETTER);
    }
}

const struct job *ts_job(struct test_store *ts, int64_t seq)
{
    CALL(ts, find, &seq, 1, &ts->one);
    return ts->one.n == 1 ? &ts->one.jobs[0] : NULL;
}

enum redrive_state ts_state(struct test_store *ts, int64_t seq)
{
    const struct job *job = ts_job(ts, seq);
    assert_non_null(job);
    return job->status.state;
}

struct job_page *ts_list(struct test_store *ts, const struct job_filter *given)
{
    struct job_filter filter = *given;
    if (filter.limit == 0)
        filter.limit = 100;
    CALL(ts, list, &filter, &ts->page);
    return &ts->page;
}

struct job_page *ts_ready(struct test_store *ts, const struct claim_filter *given)
{
    struct claim_filter filter = *given;
    if (filter.limit == 0)
        filter.limit = 100;
    IN_TRANSACTION(ts, ready, &filter, &ts->page);
    return &ts->page;
}

struct job_page *ts_scan(struct test_store *ts, struct scan *scan)
{
    IN_TRANSACTION(ts, scan, scan, &ts->page);
    return &ts->page;
}

struct job_page *ts_parked(struct test_store *ts, struct str gate, enum scan_index order,
                           size_t limit)
{
    return ts_scan(
        ts, &(struct scan){.index = order, .limit = limit, .tenant = STR("acme"), .name = gate});
}

static struct job_page *scan_times(struct test_store *ts, enum scan_index index, size_t limit,
                                   int64_t *ret_next_ms)
{
    struct scan scan = {.index = index, .limit = limit};
    (void)ts_scan(ts, &scan);
    *ret_next_ms = scan.next_ms;
    return &ts->page;
}

struct job_page *ts_overdue(struct test_store *ts, size_t limit, int64_t *ret_next_ms)
{
    return scan_times(ts, SCAN_DEADLINES, limit, ret_next_ms);
}

struct job_page *ts_expired(struct test_store *ts, size_t limit, int64_t *ret_next_ms)
{
    return scan_times(ts, SCAN_LEASES, limit, ret_next_ms);
}

struct attempt_page *ts_history(struct test_store *ts, int64_t seq)
{
    CALL(ts, history, &seq, 1, &ts->attempts);
    return &ts->attempts;
}

struct count_page *ts_queues(struct test_store *ts, struct str tenant)
{
    CALL(ts, counts, COUNT_QUEUES, tenant, &ts->queues);
    return &ts->queues;
}

struct count_page *ts_partitions(struct test_store *ts, struct str tenant)
{
    CALL(ts, counts, COUNT_PARTITIONS, tenant, &ts->partitions);
    return &ts->partitions;
}

struct count_page *ts_gates(struct test_store *ts, struct str tenant)
{
    CALL(ts, counts, COUNT_PARKED, tenant, &ts->gates);
    return &ts->gates;
}

struct count_page *ts_running(struct test_store *ts, struct str tenant)
{
    CALL(ts, counts, COUNT_RUNNING, tenant, &ts->gates);
    return &ts->gates;
}

struct remembered_key_page *ts_held(struct test_store *ts, struct str after_tenant,
                                    struct str after_key, size_t limit)
{
    CALL(ts, remembered_keys, after_tenant, after_key, limit, &ts->held);
    return &ts->held;
}

struct shared_page *ts_shared(struct test_store *ts, enum shared_kind kind, struct str tenant)
{
    CALL(ts, shared_list, kind, tenant, &ts->shared);
    return &ts->shared;
}

void check_seqs_(const struct job_page *page, const int64_t *seqs, const char *file, int line)
{
    size_t n = 0;
    while (seqs[n] != 0)
        n++;
    bool equal = page->n == n;
    for (size_t i = 0; equal && i < n; i++)
        equal = page->jobs[i].status.seq == seqs[i];
    if (equal)
        return;
    print_error("expected:");
    for (size_t i = 0; i < n; i++)
        print_error(" %lld", (long long)seqs[i]);
    print_error("\nis:      ");
    for (size_t i = 0; i < page->n; i++)
        print_error(" %lld", (long long)page->jobs[i].status.seq);
    print_error("\n");
    _assert_true(0, "these jobs in this order", file, line);
}

/* ---- Views ----------------------------------------------------------------------------------- */

static void fail_once(struct test_store *ts, int64_t seq, struct decision d)
{
    const struct settle_move move = {
        .seq = seq,
        .token = ts_start(ts, seq),
        .decision = &d,
        .error = {REDRIVE_CLASS_NETWORK, STR("ConnectError"), STR("refused"), STR("at f()"), 111},
        .fingerprint = 0xfeed,
    };
    check_move(ts_settle_with(ts, &move), 0, d.state);
}

void ts_fill_views(struct test_store *ts)
{
    int64_t a = PUT(ts, .id = STR("waits"), .task = STR("thumbnail"), .payload = STR("[1]"));
    fail_once(ts, a, decision_retrying(60000));
    int64_t b = PUT(ts, .id = STR("dies"), .task = STR("thumbnail"), .payload = STR("[2]"));
    fail_once(ts, b, decision_retrying(0));
    ts_promote(ts, 1, &(int64_t){0});
    ts->now_ms += 1500;
    fail_once(ts, b, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    int64_t c = PUT(ts, .id = STR("works"), .payload = STR("[3]"));
    const struct decision done = decision_completed();
    const struct settle_move move = {
        .seq = c, .token = ts_start(ts, c), .decision = &done, .result = STR("{\"ok\":1}")};
    check_move(ts_settle_with(ts, &move), 0, REDRIVE_STATE_COMPLETED);
    int64_t d = PUT(ts, .id = STR("runs"), .payload = STR("[4]"));
    ts_start(ts, d);
    int64_t e = PUT(ts, .id = STR("fails"), .payload = STR("[5]"));
    fail_once(ts, e, decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_NOT_RETRIABLE));
}
