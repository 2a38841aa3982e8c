#include "kit.h"
#include "scans.h"

#include <stdio.h>
#include <stdlib.h>

#define CALL(kit, slot, ...)                                                       \
    do {                                                                           \
        struct redrive_err err_ = {0};                                             \
        int rc_ = store_ops((kit)->store)->slot((kit)->store, __VA_ARGS__, &err_); \
        if (rc_ < 0)                                                               \
            fail_msg("%s: %s; %s", #slot, redrive_err_name(rc_), err_.message);    \
    } while (0)

/* Commits. A transaction that others were in the way of has not happened, and is tried again:
 * false. */
static bool has_committed(struct kit *kit)
{
    struct redrive_err err = {0};
    int rc = store_ops(kit->store)->commit(kit->store, &err);
    if (rc < 0 && rc != REDRIVE_E_CANCELLED)
        fail_msg("commit: %s", err.message);
    if (rc < 0)
        store_ops(kit->store)->rollback(kit->store);
    kit->in_transaction = false;
    return rc == 0;
}

/* The same of a slot that has failed. */
static bool is_over(struct kit *kit, int rc)
{
    if (rc != REDRIVE_E_CANCELLED)
        return false;
    kit_rollback(kit);
    return true;
}

/* The same in a transaction, of its own if there is none; of a slot, or of a function like one. */
#define IN_TRANSACTION(kit, slot, ...) \
    DO_IN_TRANSACTION(kit, store_ops((kit)->store)->slot, __VA_ARGS__)
#define DO_IN_TRANSACTION(kit, function, ...)                                       \
    do {                                                                            \
        struct redrive_err err_ = {0};                                              \
        bool own_ = !(kit)->in_transaction;                                         \
        if (own_)                                                                   \
            kit_begin(kit);                                                         \
        int rc_ = function((kit)->store, __VA_ARGS__, &err_);                       \
        if (own_ && is_over(kit, rc_))                                              \
            continue;                                                               \
        if (rc_ < 0)                                                                \
            fail_msg("%s: %s; %s", #function, redrive_err_name(rc_), err_.message); \
        if (!own_ || has_committed(kit))                                            \
            break;                                                                  \
    } while (true)

static void open_url(struct kit *kit, bool create)
{
    struct store_options options = {.create = create, .caller_time = true, .busy_wait_ms = 500};
    struct redrive_err err = {0};
    if (store_open(kit->url, &options, &kit->store, &err) < 0)
        fail_msg("cannot open %s: %s; %s", kit->url, err.message, err.detail);
    kit->now_ms = KIT_START_MS;
}

void kit_open(struct kit *kit, const char *store_name)
{
    *kit = (struct kit){.owns_url = true, .next_token = 1};
    stores_empty_url(store_name, kit->url);
    open_url(kit, true);
}

void kit_join(struct kit *kit, const struct kit *other)
{
    *kit = (struct kit){.next_token = UINT64_C(1) << 63, .n_ids = 1000000};
    memcpy(kit->url, other->url, sizeof kit->url);
    open_url(kit, false);
}

void kit_close(struct kit *kit)
{
    job_page_release(&kit->one);
    job_page_release(&kit->page);
    attempt_page_release(&kit->attempts);
    count_page_release(&kit->queues);
    count_page_release(&kit->partitions);
    count_page_release(&kit->gates);
    group_page_release(&kit->groups);
    shared_page_release(&kit->shared);
    counter_page_release(&kit->counters);
    remembered_key_page_release(&kit->held);
    arena_release(&kit->arena);
    store_close(kit->store);
    if (kit->owns_url)
        stores_remove(kit->url);
}

int kit_setup(void **state)
{
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    kit_open(kit, stores_name());
    *state = kit;
    return 0;
}

int kit_setup_new(void **state)
{
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    *kit = (struct kit){.owns_url = true, .next_token = 1};
    stores_new_url(stores_name(), kit->url);
    open_url(kit, true);
    *state = kit;
    return 0;
}

int kit_teardown(void **state)
{
    kit_close(*state);
    free(*state);
    return 0;
}

int kit_try_begin(struct kit *kit)
{
    int64_t now_ms;
    int rc =
        store_ops(kit->store)->begin(kit->store, kit->now_ms, &now_ms, &kit->shared_version, NULL);
    kit->in_transaction = rc == 0;
    return rc;
}

void kit_begin(struct kit *kit)
{
    int64_t now_ms;
    CALL(kit, begin, kit->now_ms, &now_ms, &kit->shared_version);
    kit->in_transaction = true;
}

void kit_commit(struct kit *kit)
{
    struct redrive_err err = {0};
    if (store_ops(kit->store)->commit(kit->store, &err) < 0)
        fail_msg("commit: %s", err.message);
    kit->in_transaction = false;
}

void kit_rollback(struct kit *kit)
{
    store_ops(kit->store)->rollback(kit->store);
    kit->in_transaction = false;
}

static struct str or_default(struct str s, const char *fallback)
{
    return s.ptr ? s : str_of(fallback);
}

struct submit_result kit_try_put(struct kit *kit, const struct job_spec *given)
{
    struct job_spec spec = *given;
    char id[32];
    snprintf(id, sizeof id, "job-%u", kit->n_ids++);
    spec.tenant = or_default(spec.tenant, "acme");
    spec.id = or_default(spec.id, id);
    spec.task = or_default(spec.task, "mail");
    spec.queue = or_default(spec.queue, "main");
    spec.payload = or_default(spec.payload, "{}");
    if (spec.max_attempts == 0)
        spec.max_attempts = 5;
    struct submit_result result;
    IN_TRANSACTION(kit, submit, &spec, 1, &result, &kit->arena);
    return result;
}

int64_t kit_put(struct kit *kit, const struct job_spec *spec)
{
    struct submit_result result = kit_try_put(kit, spec);
    assert_int_equal(result.code, 0);
    return result.seq;
}

struct move_result kit_try_start(struct kit *kit, const struct start_move *move)
{
    struct move_result result;
    IN_TRANSACTION(kit, move, STARTS(move, 1), &result);
    return result;
}

uint64_t kit_start(struct kit *kit, int64_t seq)
{
    uint64_t token = kit->next_token++;
    struct move_result result = kit_try_start(kit, &(struct start_move){
                                                       .seq = seq,
                                                       .token = token,
                                                       .lease_until_ms = kit->now_ms + 30000,
                                                       .worker = STR("w1"),
                                                   });
    check_move(result, 0, REDRIVE_STATE_RUNNING);
    return token;
}

struct move_result kit_settle_with(struct kit *kit, const struct settle_move *move)
{
    struct move_result result;
    IN_TRANSACTION(kit, move, SETTLES(move, 1), &result);
    return result;
}

struct move_result kit_settle(struct kit *kit, int64_t seq, uint64_t token,
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
    return kit_settle_with(kit, &move);
}

struct move_result kit_extend(struct kit *kit, int64_t seq, uint64_t token, int64_t until_ms)
{
    struct move_result result;
    const struct extend_move move = {seq, token, until_ms};
    IN_TRANSACTION(kit, move, EXTENDS(&move, 1), &result);
    return result;
}

struct move_result kit_park(struct kit *kit, int64_t seq, bool by_limit)
{
    struct move_result result;
    IN_TRANSACTION(kit, move, PARKS(&seq, 1, by_limit), &result);
    return result;
}

struct move_result kit_unpark(struct kit *kit, int64_t seq)
{
    struct move_result result;
    IN_TRANSACTION(kit, move, UNPARKS(&seq, 1), &result);
    return result;
}

struct move_result kit_change(struct kit *kit, const struct change_move *move)
{
    struct move_result result;
    IN_TRANSACTION(kit, move, CHANGES(move, 1), &result);
    return result;
}

size_t kit_sweep(struct kit *kit, uint32_t states, int64_t before_ms, size_t limit)
{
    struct scan scan = {.limit = limit, .states = states, .before_ms = before_ms};
    size_t removed = 0;
    bool more;
    DO_IN_TRANSACTION(kit, scan_remove, &scan, (struct str){0}, &removed, &more);
    return removed;
}

size_t kit_promote(struct kit *kit, size_t limit, int64_t *ret_next_ms)
{
    size_t moved = 0;
    DO_IN_TRANSACTION(kit, scan_promote, limit, &moved, ret_next_ms);
    return moved;
}

int kit_shared_put(struct kit *kit, const struct shared_row *row)
{
    struct move_result result;
    IN_TRANSACTION(kit, shared_put, row, 1, &result);
    return result.code;
}

void kit_pause(struct kit *kit, struct str tenant, struct str queue)
{
    const struct shared_row row = {.kind = SHARED_PAUSE, .tenant = tenant, .key = queue};
    assert_int_equal(kit_shared_put(kit, &row), 0);
}

void kit_count(struct kit *kit, struct counter counter)
{
    IN_TRANSACTION(kit, counters_add, &counter, 1);
}

struct move_result kit_import(struct kit *kit, const struct imported_job *job)
{
    struct move_result result;
    IN_TRANSACTION(kit, import, job, 1, &result);
    return result;
}

void kit_import_keys(struct kit *kit, const struct remembered_key *keys, size_t n)
{
    IN_TRANSACTION(kit, import_keys, keys, n);
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

int64_t kit_put_in(struct kit *kit, enum redrive_state state, const struct job_spec *given)
{
    struct job_spec spec = given ? *given : (struct job_spec){0};
    if (state == REDRIVE_STATE_SCHEDULED)
        spec.process_after_ms = kit->now_ms + 60000;
    if (state == REDRIVE_STATE_WAITING)
        spec.parents = spec.open_parents = 1;
    int64_t seq = kit_put(kit, &spec);
    if (state == REDRIVE_STATE_PARKED)
        kit_park(kit, seq, false);
    if (state == REDRIVE_STATE_QUEUED || state == REDRIVE_STATE_SCHEDULED ||
        state == REDRIVE_STATE_PARKED || state == REDRIVE_STATE_WAITING)
        return seq;
    uint64_t token = kit_start(kit, seq);
    if (state != REDRIVE_STATE_RUNNING)
        check_move(kit_settle(kit, seq, token, decision_to(state)), 0, state);
    return seq;
}

/* ---- Tenants --------------------------------------------------------------------------------- */

static void put_some_of(struct kit *kit, struct str tenant)
{
    static const enum redrive_state STATES[] = {REDRIVE_STATE_QUEUED, REDRIVE_STATE_DEAD_LETTER,
                                                REDRIVE_STATE_COMPLETED, REDRIVE_STATE_SCHEDULED};
    for (size_t i = 0; i < sizeof STATES / sizeof STATES[0]; i++) {
        kit->now_ms += 1000;
        kit_put_in(kit, STATES[i], &(struct job_spec){.tenant = tenant});
    }
}

void kit_fill_tenants(struct kit *kit, int others)
{
    for (int part = 0; part < 3; part++) {
        if (kit->in_transaction)
            kit_commit(kit);
        put_some_of(kit, STR("small"));
        for (int i = 0; part < 2 && i < others / 2; i += 50) {
            kit->now_ms += 10;
            kit_begin(kit);
            for (int k = 0; k < 50; k++)
                kit_put_in(kit, k % 2 ? REDRIVE_STATE_DEAD_LETTER : REDRIVE_STATE_RETRYING,
                           &(struct job_spec){.tenant = STR("big")});
            kit_commit(kit);
        }
    }
}

/* Pages of two, one after the other, against all jobs that a list without a tenant gives. */
static void check_pages(struct kit *kit, enum job_order order, uint32_t states)
{
    struct job_filter all = {.order = order, .states = states, .limit = STORE_PAGE_MAX};
    struct job_filter own = {.tenant = STR("small"), .order = order, .states = states, .limit = 2};
    size_t found = 0, given = 0;
    struct job_page *page = kit_list(kit, &own);
    for (bool more = true; more;) {
        struct job_page everything = {0};
        CALL(kit, list, &all, &everything);
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
                page = kit_list(kit, &own);
                given = 0;
            }
        }
        more = everything.more;
        job_page_release(&everything);
    }
    assert_int_equal(given, page->n);
    assert_int_equal(found, states ? 3 : 12);
}

void kit_check_small_tenant(struct kit *kit)
{
    for (enum job_order order = ORDER_OLDEST; order <= ORDER_FINISHED; order++) {
        check_pages(kit, order, 0);
        check_pages(kit, order, 1u << REDRIVE_STATE_DEAD_LETTER);
    }
}

const struct job *kit_job(struct kit *kit, int64_t seq)
{
    CALL(kit, find, &seq, 1, &kit->one);
    return kit->one.n == 1 ? &kit->one.jobs[0] : NULL;
}

enum redrive_state kit_state(struct kit *kit, int64_t seq)
{
    const struct job *job = kit_job(kit, seq);
    assert_non_null(job);
    return job->status.state;
}

struct job_page *kit_list(struct kit *kit, const struct job_filter *given)
{
    struct job_filter filter = *given;
    if (filter.limit == 0)
        filter.limit = 100;
    CALL(kit, list, &filter, &kit->page);
    return &kit->page;
}

struct job_page *kit_ready(struct kit *kit, const struct claim_filter *given)
{
    struct claim_filter filter = *given;
    if (filter.limit == 0)
        filter.limit = 100;
    IN_TRANSACTION(kit, ready, &filter, &kit->page);
    return &kit->page;
}

struct job_page *kit_scan(struct kit *kit, struct scan *scan)
{
    IN_TRANSACTION(kit, scan, scan, &kit->page);
    return &kit->page;
}

struct job_page *kit_parked(struct kit *kit, struct str gate, enum scan_index order, size_t limit)
{
    return kit_scan(
        kit, &(struct scan){.index = order, .limit = limit, .tenant = STR("acme"), .name = gate});
}

static struct job_page *scan_times(struct kit *kit, enum scan_index index, size_t limit,
                                   int64_t *ret_next_ms)
{
    struct scan scan = {.index = index, .limit = limit};
    (void)kit_scan(kit, &scan);
    *ret_next_ms = scan.next_ms;
    return &kit->page;
}

struct job_page *kit_overdue(struct kit *kit, size_t limit, int64_t *ret_next_ms)
{
    return scan_times(kit, SCAN_DEADLINES, limit, ret_next_ms);
}

struct job_page *kit_expired(struct kit *kit, size_t limit, int64_t *ret_next_ms)
{
    return scan_times(kit, SCAN_LEASES, limit, ret_next_ms);
}

struct attempt_page *kit_history(struct kit *kit, int64_t seq)
{
    CALL(kit, history, &seq, 1, &kit->attempts);
    return &kit->attempts;
}

struct count_page *kit_queues(struct kit *kit, struct str tenant)
{
    CALL(kit, counts, COUNT_QUEUES, tenant, &kit->queues);
    return &kit->queues;
}

struct count_page *kit_partitions(struct kit *kit, struct str tenant)
{
    CALL(kit, counts, COUNT_PARTITIONS, tenant, &kit->partitions);
    return &kit->partitions;
}

struct count_page *kit_gates(struct kit *kit, struct str tenant)
{
    CALL(kit, counts, COUNT_PARKED, tenant, &kit->gates);
    return &kit->gates;
}

struct count_page *kit_running(struct kit *kit, struct str tenant)
{
    CALL(kit, counts, COUNT_RUNNING, tenant, &kit->gates);
    return &kit->gates;
}

struct remembered_key_page *kit_held(struct kit *kit, struct str after_tenant, struct str after_key,
                                     size_t limit)
{
    CALL(kit, remembered_keys, after_tenant, after_key, limit, &kit->held);
    return &kit->held;
}

struct shared_page *kit_shared(struct kit *kit, enum shared_kind kind, struct str tenant)
{
    CALL(kit, shared_list, kind, tenant, &kit->shared);
    return &kit->shared;
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

static void fail_once(struct kit *kit, int64_t seq, struct decision d)
{
    const struct settle_move move = {
        .seq = seq,
        .token = kit_start(kit, seq),
        .decision = &d,
        .error = {REDRIVE_CLASS_NETWORK, STR("ConnectError"), STR("refused"), STR("at f()"), 111},
        .fingerprint = 0xfeed,
    };
    check_move(kit_settle_with(kit, &move), 0, d.state);
}

void kit_fill_views(struct kit *kit)
{
    int64_t a = PUT(kit, .id = STR("waits"), .task = STR("thumbnail"), .payload = STR("[1]"));
    fail_once(kit, a, decision_retrying(60000));
    int64_t b = PUT(kit, .id = STR("dies"), .task = STR("thumbnail"), .payload = STR("[2]"));
    fail_once(kit, b, decision_retrying(0));
    kit_promote(kit, 1, &(int64_t){0});
    kit->now_ms += 1500;
    fail_once(kit, b, decision_ended(REDRIVE_STATE_DEAD_LETTER, REDRIVE_REASON_EXHAUSTED));
    int64_t c = PUT(kit, .id = STR("works"), .payload = STR("[3]"));
    const struct decision done = decision_completed();
    const struct settle_move move = {
        .seq = c, .token = kit_start(kit, c), .decision = &done, .result = STR("{\"ok\":1}")};
    check_move(kit_settle_with(kit, &move), 0, REDRIVE_STATE_COMPLETED);
    int64_t d = PUT(kit, .id = STR("runs"), .payload = STR("[4]"));
    kit_start(kit, d);
    int64_t e = PUT(kit, .id = STR("fails"), .payload = STR("[5]"));
    fail_once(kit, e, decision_ended(REDRIVE_STATE_FAILED, REDRIVE_REASON_NOT_RETRIABLE));
}
