/* How breakers and limits are kept, and how well the work goes. */
#include "engine/engine_for_test.h"

#include <stdio.h>

#include "engine/gates/gates.h"
#include "engine/report/stats.h"
#include "engine/state.h"

static bool is_out_of_memory;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    return is_out_of_memory ? NULL : __real_calloc(n, size);
}

TEST(breaker_row_reads_back_as_it_was)
{
    struct gate gate = {.kind = SHARED_BREAKER, .has_parked = true, .candidates = 2};
    struct gate read = {.kind = SHARED_BREAKER};
    struct buf bytes;
    redrive_breaker_config_init(&gate.breaker_config);
    breaker_init(&gate.breaker, 99);
    gate.breaker_config.window_calls = 100;
    gate.breaker_config.slow_call_ms = 2000;
    gate.breaker_config.half_open_rate = 0.25;
    for (int i = 0; i < 70; i++)
        breaker_window_add(&gate.breaker.window, &gate.breaker_config, i % 7 == 0, i % 3 == 0,
                           1000 + i);
    for (int i = 0; i < 5; i++)
        breaker_simulate_failure(&gate.breaker, &gate.breaker_config, 1000 + i);
    release_start(&gate.release, &gate.breaker_config, 5000);
    buf_init(&bytes, 1 << 16);
    gate_encode(&gate, &bytes);
    assert_int_equal(gate_decode(&read, buf_str(&bytes)), 0);
    assert_true(read.has_parked);
    assert_int_equal(read.candidates, 2);
    assert_int_equal(read.breaker.state, REDRIVE_BREAKER_OPEN);
    assert_memory_equal(&read.breaker, &gate.breaker, sizeof gate.breaker);
    assert_int_equal(read.breaker_config.window_ms, gate.breaker_config.window_ms);
    assert_int_equal(read.breaker_config.window_calls, 100);
    assert_int_equal(read.breaker_config.slow_call_ms, 2000);
    assert_true(read.breaker_config.half_open_rate == 0.25);
    assert_true(read.release.rate == gate.release.rate);
    buf_release(&bytes);
}

TEST(damaged_row_is_refused)
{
    struct gate gate = {.kind = SHARED_BREAKER}, read = {.kind = SHARED_BREAKER};
    struct buf bytes;
    redrive_breaker_config_init(&gate.breaker_config);
    breaker_init(&gate.breaker, 1);
    buf_init(&bytes, 1 << 16);
    gate_encode(&gate, &bytes);
    for (size_t len = 0; len < bytes.len; len++)
        assert_int_equal(gate_decode(&read, (struct str){bytes.data, len}), REDRIVE_E_CORRUPT);
    bytes.data[0] = 9;
    assert_int_equal(gate_decode(&read, buf_str(&bytes)), REDRIVE_E_CORRUPT);
    buf_release(&bytes);
}

/* Else an open breaker would begin anew, and let calls through. */
TEST(row_for_which_there_is_no_memory_is_not_damaged)
{
    struct gate gate = {.kind = SHARED_BREAKER}, read = {.kind = SHARED_BREAKER};
    struct buf bytes;
    redrive_breaker_config_init(&gate.breaker_config);
    breaker_init(&gate.breaker, 1);
    buf_init(&bytes, 1 << 16);
    gate_encode(&gate, &bytes);
    is_out_of_memory = true;
    assert_int_equal(gate_decode(&read, buf_str(&bytes)), REDRIVE_E_NOMEM);
    is_out_of_memory = false;
    assert_int_equal(gate_decode(&read, buf_str(&bytes)), 0);
    buf_release(&bytes);
}

/* As the row of the worker tells it. */
static double health_score(struct test_engine *te, double *ret_run_ms)
{
    struct redrive_health health;
    struct worker_page workers = {0};
    struct worker_op op;
    worker_op_init(&op, STR("w"), (struct str){0});
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    assert_int_equal(stats_health(engine_store(te->engine), NULL, engine_now_ms(te->engine),
                                  &health, &workers, NULL),
                     0);
    *ret_run_ms = quantile_get(&workers.run_time, 0.5);
    worker_page_release(&workers);
    return health.health_score;
}

ENGINE_TEST(health_falls_with_failures_and_run_time_is_measured, NULL)
{
    double run_ms;
    assert_true(health_score(te, &run_ms) > 0.99);
    for (int i = 0; i < 10; i++)
        te_submit(te, i < 5 ? "a" : "b", NULL);
    assert_int_equal(te_claim(te, 10), 10);
    te->now_ms += 200;
    for (int i = 0; i < 10; i++)
        assert_int_equal(i < 5 ? te_fail(te, &te->claim.jobs[i], "network")
                               : te_succeed(te, &te->claim.jobs[i]),
                         0);
    assert_true(health_score(te, &run_ms) < 0.5);
    assert_true(run_ms > 185 && run_ms < 215);
}

/* ---- Gates that say nothing any more --------------------------------------------------------- */

#define MINUTE_MS INT64_C(60000)
#define DAY_MS    (1440 * MINUTE_MS)

/* No breaker opens by itself but that of `weak`. */
#define BY_HOST                                                                            \
    "tasks:\n"                                                                             \
    "  crawl: {breaker: {key: \"{payload.host}\"}, retry: {max_retries: 0},\n"             \
    "          limits: {rate: 10/h, concurrency: 5, per: key, key: \"{payload.host}\"}}\n" \
    "  slots: {breaker: {key: s}, limits: {concurrency: 1, per: key, key: s}}\n"           \
    "  weak: {breaker: {key: weak, failure_threshold: 1, recovery_timeout: 30s},\n"        \
    "         retry: {max_retries: 0}}\n"

static size_t rows_of(struct test_engine *te, enum shared_kind kind)
{
    struct shared_page page = {0};
    struct store *store = engine_store(te->engine);
    assert_int_equal(store_ops(store)->shared_list(store, kind, (struct str){0}, &page, NULL), 0);
    const size_t n = page.n;
    shared_page_release(&page);
    return n;
}

static void crawl(struct test_engine *te, int host, const char *status)
{
    char payload[32];
    (void)snprintf(payload, sizeof payload, "{\"host\":\"h%d\"}", host);
    te_submit(te, "crawl", payload);
    const struct job *job = te_claim_one(te);
    assert_int_equal(status ? te_fail(te, job, status) : te_succeed(te, job), 0);
}

/* A tick each minute, as it would be. */
static void pass_minutes(struct test_engine *te, int n)
{
    for (int i = 0; i < n; i++)
        te_pass(te, MINUTE_MS);
}

ENGINE_TEST(gates_of_keys_that_nobody_uses_go, BY_HOST)
{
    for (int i = 0; i < 40; i++)
        crawl(te, i, NULL);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 40);
    assert_int_equal(rows_of(te, SHARED_LIMIT), 40);
    pass_minutes(te, 30);
    crawl(te, 7, NULL);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 40);
    pass_minutes(te, 32);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 1);
    assert_int_equal(rows_of(te, SHARED_LIMIT), 1);
    struct engine *other = te_second_engine(te);
    struct engine *first = te->engine;
    te->engine = other; /* knows what is left, and goes on with it */
    crawl(te, 7, NULL);
    crawl(te, 8, NULL);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 2);
    te->engine = first;
    crawl(te, 8, NULL);
    pass_minutes(te, 62);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 0);
    assert_int_equal(rows_of(te, SHARED_LIMIT), 0);
    crawl(te, 8, NULL);
    engine_close(other);
}

ENGINE_TEST(a_breaker_with_failures_stays_for_a_day, BY_HOST)
{
    crawl(te, 1, "network");
    crawl(te, 1, "network");
    te_pass(te, DAY_MS - 10 * MINUTE_MS);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 1);
    crawl(te, 1, "network");
    crawl(te, 1, "network");
    crawl(te, 1, "network");
    assert_int_equal(te_breaker(te, "h1"), REDRIVE_BREAKER_OPEN); /* the fifth in a row */
}

static void by_hand(struct test_engine *te, const char *key, enum breaker_verb verb)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, str_of(key), verb);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
}

ENGINE_TEST(what_was_done_by_hand_stays, BY_HOST)
{
    by_hand(te, "tripped", BREAKER_TRIP);
    by_hand(te, "disabled", BREAKER_DISABLE);
    by_hand(te, "closed", BREAKER_TRIP);
    by_hand(te, "closed", BREAKER_RESET);
    te_pass(te, DAY_MS - 10 * MINUTE_MS);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 3);
    te_pass(te, 30 * DAY_MS);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 2);
    assert_int_equal(te_breaker(te, "tripped"), REDRIVE_BREAKER_FORCED_OPEN);
    assert_int_equal(te_breaker(te, "disabled"), REDRIVE_BREAKER_DISABLED);
}

/* Runs that were let through since it closed count in this breaker, and not in a new one. */
ENGINE_TEST(a_breaker_that_has_just_closed_stays, BY_HOST)
{
    te_submit(te, "weak", NULL);
    assert_int_equal(te_fail(te, te_claim_one(te), "network"), 0);
    by_hand(te, "hand", BREAKER_TRIP);
    te_pass(te, 2 * DAY_MS);
    te_submit(te, "weak", NULL);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_int_equal(te_breaker(te, "weak"), REDRIVE_BREAKER_CLOSED);
    by_hand(te, "hand", BREAKER_RESET);
    pass_minutes(te, 90);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 2);
    te_pass(te, DAY_MS);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 0);
}

ENGINE_TEST(an_open_breaker_goes_when_nobody_came_for_a_week, BY_HOST)
{
    te_submit(te, "weak", NULL);
    assert_int_equal(te_fail(te, te_claim_one(te), "network"), 0);
    te_pass(te, 7 * DAY_MS - MINUTE_MS);
    assert_int_equal(te_breaker(te, "weak"), REDRIVE_BREAKER_OPEN);
    te_pass(te, 10 * MINUTE_MS);
    assert_int_equal(rows_of(te, SHARED_BREAKER), 0);
}

ENGINE_TEST(gates_with_jobs_stay, BY_HOST)
{
    te_submit(te, "slots", NULL);
    int64_t waiting = te_submit(te, "slots", NULL);
    const struct job running = *te_claim_one(te);
    struct extension x = {
        .seq = running.status.seq, .token = running.status.token, .lease_ms = 9 * DAY_MS};
    struct extend_op op;
    extend_op_init(&op, &x, 1);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
    struct claim_op none;
    const struct claim_filter filter = {.limit = 1};
    claim_op_init(&none, &filter, STR("w"), 0);
    assert_int_equal(engine_apply_one(te->engine, &none.op, NULL), 0);
    assert_int_equal(none.n, 0);
    claim_op_release(&none);
    assert_int_equal(te_state(te, waiting), REDRIVE_STATE_PARKED);
    pass_minutes(te, 70);
    assert_int_equal(rows_of(te, SHARED_LIMIT), 1);
    assert_int_equal(te_succeed(te, &running), 0);
    te_tick(te);
    assert_int_equal(te_state(te, waiting), REDRIVE_STATE_QUEUED);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    pass_minutes(te, 62);
    assert_int_equal(rows_of(te, SHARED_LIMIT), 0);
}

/* ---- Slots in use ---------------------------------------------------------------------------- */

/* Says that so many slots of the limit `s` are in use, as a lost transaction might leave it. */
static void set_used(struct test_engine *te, uint32_t used)
{
    struct store *store = engine_store(te->engine);
    const struct store_ops *ops = store_ops(store);
    struct shared_page page = {0};
    struct move_result result = {0};
    int64_t now_ms, version;
    assert_int_equal(ops->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(ops->shared_list(store, SHARED_LIMIT, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    page.rows[0].add.used = used - page.rows[0].sums.used;
    assert_int_equal(ops->shared_put(store, &page.rows[0], 1, &result, NULL), 0);
    assert_int_equal(result.code, 0);
    assert_int_equal(ops->commit(store, NULL), 0);
    shared_page_release(&page);
}

#define TWO_SLOTS \
    "tasks: {slots: {breaker: {key: s}, limits: {concurrency: 2, per: key, key: s}}}\n"

ENGINE_TEST(slots_that_no_job_has_are_found_by_a_new_process, TWO_SLOTS)
{
    for (int i = 0; i < 3; i++)
        te_submit(te, "slots", NULL);
    assert_int_equal(te_claim(te, 1), 1);
    set_used(te, 2);
    struct engine *first = te->engine, *other = te_second_engine(te);
    const struct job running = te->claim.jobs[0];
    struct claim_op held = te->claim;
    te->claim = (struct claim_op){0};
    te->engine = other;
    assert_int_equal(te_claim(te, 3), 1); /* one runs, so there is room for one */
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 1);
    assert_int_equal(te_succeed(te, &te->claim.jobs[0]), 0);
    te_tick(te);
    assert_int_equal(te_claim(te, 3), 1);
    assert_int_equal(te_succeed(te, &te->claim.jobs[0]), 0);
    te->engine = first;
    assert_int_equal(te_succeed(te, &running), 0);
    claim_op_release(&held);
    engine_close(other);
}

/* ---- A row that cannot be read --------------------------------------------------------------- */

static void damage(struct test_engine *te, enum shared_kind kind)
{
    struct store *store = engine_store(te->engine);
    const struct store_ops *ops = store_ops(store);
    struct shared_page page = {0};
    struct move_result result = {0};
    int64_t now_ms, version;
    assert_int_equal(ops->begin(store, te->now_ms, &now_ms, &version, NULL), 0);
    assert_int_equal(ops->shared_list(store, kind, (struct str){0}, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    page.rows[0].value = STR("{\"format\":3,\"state\":\"op");
    assert_int_equal(ops->shared_put(store, &page.rows[0], 1, &result, NULL), 0);
    assert_int_equal(ops->commit(store, NULL), 0);
    shared_page_release(&page);
}

static bool can_be_read(struct test_engine *te, enum shared_kind kind)
{
    struct store *store = engine_store(te->engine);
    struct shared_page page = {0};
    struct gate gate = {.kind = kind};
    assert_int_equal(store_ops(store)->shared_list(store, kind, (struct str){0}, &page, NULL), 0);
    const bool can = page.n == 1 && gate_decode(&gate, page.rows[0].value) == 0;
    shared_page_release(&page);
    return can;
}

/* Two slots, one job runs and one is parked: neither is forgotten. */
TEST(what_cannot_be_read_begins_anew)
{
    static const enum shared_kind KINDS[] = {SHARED_BREAKER, SHARED_LIMIT};
    for (size_t i = 0; i < 2; i++) {
        struct test_engine te;
        te_init(&te, TWO_SLOTS);
        for (int k = 0; k < 3; k++)
            te_submit(&te, "slots", NULL);
        assert_int_equal(te_claim(&te, 3), 2);
        assert_int_equal(te_count(&te, REDRIVE_STATE_PARKED), 1);
        assert_int_equal(te_succeed(&te, &te.claim.jobs[0]), 0);
        damage(&te, KINDS[i]);
        te_tick(&te);
        assert_true(can_be_read(&te, KINDS[i]));
        assert_int_equal(te_claim(&te, 3), 1);
        te_release(&te);
    }
}

/* ---- A connection that was made anew --------------------------------------------------------- */

static struct store_ops renewed_ops;
static const struct store_ops *real_ops;
static bool is_renewed;

static int begin_renewed(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                         int64_t *ret_shared_version, struct redrive_err *err)
{
    int rc = real_ops->begin(store, now_ms, ret_now_ms, ret_shared_version, err);
    if (is_renewed)
        *ret_shared_version = STORE_VERSION_UNKNOWN;
    return rc;
}

/* From now on its store says of each transaction that nothing may be relied upon. */
static void renew(struct test_engine *te)
{
    real_ops = te->engine->ops;
    renewed_ops = *real_ops;
    renewed_ops.begin = begin_renewed;
    te->engine->ops = &renewed_ops;
    is_renewed = true;
}

ENGINE_TEST(slots_are_counted_again_after_a_reconnect, TWO_SLOTS)
{
    for (int i = 0; i < 4; i++)
        te_submit(te, "slots", NULL);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    set_used(te, 2);
    assert_int_equal(te_claim(te, 1), 0); /* it has counted before, and believes it */
    assert_int_equal(te_count(te, REDRIVE_STATE_PARKED), 3);
    renew(te);
    te_submit(te, "slots", NULL);
    assert_int_equal(te_claim(te, 1), 1);
    is_renewed = false;
    te_tick(te); /* those that were parked for nothing come back */
    struct claim_op held = te->claim;
    te->claim = (struct claim_op){0};
    assert_int_equal(te_claim(te, 4), 1);
    claim_op_release(&held);
}

ENGINE_TEST(nothing_that_was_seen_before_a_reconnect_is_relied_upon, BY_HOST)
{
    struct engine *first = te->engine, *other = te_second_engine(te);
    by_hand(te, "weak", BREAKER_TRIP);
    renew(te);
    assert_int_equal(te_breaker(te, "weak"), REDRIVE_BREAKER_FORCED_OPEN);
    te->engine = other;
    by_hand(te, "weak", BREAKER_DISABLE);
    te->engine = first; /* and once more, with the same word for a version */
    assert_int_equal(te_breaker(te, "weak"), REDRIVE_BREAKER_DISABLED);
    is_renewed = false;
    engine_close(other);
}
