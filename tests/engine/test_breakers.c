/* What is told of breakers. */
#include "engine/engine_for_test.h"

#include "base/text/buf.h"
#include "engine/gates/view.h"
#include "engine/state.h"

#define CALL                                                                                      \
    "tasks:\n  call:\n    retry: {strategy: fixed, initial_delay: 1s, max_attempts: 20, jitter: " \
    "false, total_timeout: 0s}\n    breaker: {failure_threshold: 3, failure_rate: 0, "            \
    "recovery_timeout: 30s, recovery_jitter: 0}\n"

static struct buf lines; /* of the log */

static void keep_line(struct str line, void *ctx)
{
    (void)ctx;
    (void)buf_add_str(&lines, line);
}

static const struct log LOG = {.level = LOG_LEVEL_INFO, .sink = keep_line};

static void start(struct test_engine *te)
{
    te_init(te, CALL);
    te->engine->options.log = &LOG;
    buf_init(&lines, 1 << 20);
}

static void stop(struct test_engine *te)
{
    buf_release(&lines);
    te_release(te);
}

static void fail_three(struct test_engine *te)
{
    for (int i = 0; i < 3; i++)
        te_submit(te, "call", NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(te_fail(te, te_claim_one(te), "network"), 0);
}

static void check_logged(const char *words)
{
    if (!strstr(buf_cstr(&lines), words))
        fail_msg("not logged: %s; but: %s", words, buf_cstr(&lines));
    buf_reset(&lines);
}

static void trip(struct test_engine *te, enum breaker_verb verb)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, STR("call"), verb);
    assert_int_equal(engine_apply_one(te->engine, &op.op, NULL), 0);
}

#define STARTED_TEST(test) TEST_OF(test, struct test_engine, te, start(te), stop(te))

STARTED_TEST(breaker_that_changes_is_told_of_and_logged)
{
    const unsigned *told = &te->told[ENGINE_EVENT_BREAKER];
    fail_three(te);
    assert_int_equal(*told, 1);
    check_logged("WARN  breaker breaker=call tenant=default state=open "
                 "previous_state=closed failure_count=3 next_probe_in_ms=30000");
    te_pass(te, 30000);
    struct job probe = *te_claim_one(te);
    assert_int_equal(*told, 2); /* half open */
    assert_int_equal(te_fail(te, &probe, "network"), 0);
    assert_int_equal(*told, 3);
    check_logged("INFO  breaker breaker=call tenant=default state=open previous_state=half_open");
    te_pass(te, 30000);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    assert_int_equal(*told, 5);
    check_logged("INFO  breaker breaker=call tenant=default state=closed previous_state=half_open");
}

STARTED_TEST(breaker_moved_by_hand_is_told_of)
{
    trip(te, BREAKER_TRIP);
    check_logged(
        "WARN  breaker breaker=call tenant=default state=forced_open previous_state=closed");
    trip(te, BREAKER_TRIP);
    assert_int_equal(te->told[ENGINE_EVENT_BREAKER], 1);
    trip(te, BREAKER_RESET);
    check_logged(
        "INFO  breaker breaker=call tenant=default state=closed previous_state=forced_open");
}

/* Both engines tell the same listener. */
STARTED_TEST(change_is_told_once_however_many_processes_there_are)
{
    struct engine *first = te->engine, *second = te_second_engine(te);
    fail_three(te);
    te->engine = second;
    te_submit(te, "call", NULL);
    assert_int_equal(te_claim(te, 10), 0);
    te_pass(te, 1000);
    assert_int_equal(te->told[ENGINE_EVENT_BREAKER], 1);
    trip(te, BREAKER_RESET);
    te->engine = first;
    te_pass(te, 1000);
    te_submit(te, "call", NULL);
    te_tick(te);
    assert_int_equal(te->told[ENGINE_EVENT_BREAKER], 2);
    engine_close(second);
}

static struct breaker_page look(struct test_engine *te)
{
    struct breaker_page page = {0};
    assert_int_equal(
        breakers_read(engine_store(te->engine), (struct str){0}, te->now_ms, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    return page;
}

static void check_idle(struct test_engine *te, bool is_idle)
{
    struct breaker_page page = look(te);
    assert_int_equal(page.breakers[0].is_idle, is_idle);
    assert_int_equal(breakers_open(&page), is_idle ? 0 : 1);
    breaker_page_release(&page);
}

/* Its jobs are gone: nobody will ever ask it, and it must not hold health down for ever. */
STARTED_TEST(open_breaker_without_jobs_is_idle_once_its_time_has_come)
{
    fail_three(te);
    check_idle(te, false);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 10), 0); /* all are parked */
    te_pass(te, 28999);
    check_idle(te, false);
    for (int64_t seq = 1; seq <= 3; seq++)
        assert_int_equal(te_change(te, MOVE_CANCEL, seq), 0);
    te_pass(te, 1);
    te_tick(te);
    check_idle(te, true);
    /* A job that comes is the probe, and then it counts again. */
    te_submit(te, "call", NULL);
    struct job probe = *te_claim_one(te);
    check_idle(te, false);
    assert_int_equal(te_fail(te, &probe, "network"), 0);
    check_idle(te, false);
}

STARTED_TEST(breaker_that_was_tripped_is_never_idle)
{
    trip(te, BREAKER_TRIP);
    te_pass(te, 3600000);
    check_idle(te, false);
}

/* The time of the next probe, as it is shown. */
static int64_t next_probe_ms(struct test_engine *te)
{
    struct breaker_page page = look(te);
    const int64_t at_ms = page.breakers[0].status.next_probe_ms;
    breaker_page_release(&page);
    return at_ms;
}

#define HOUR_MS 3600000

/* It would be closed to all jobs until the old time comes again. */
STARTED_TEST(breaker_of_a_clock_that_was_ahead_recovers_from_now_on)
{
    fail_three(te);
    te->now_ms += 1000;
    te_tick(te);
    assert_int_equal(te_claim(te, 10), 0); /* all are parked */
    te->now_ms -= HOUR_MS;
    assert_int_equal(next_probe_ms(te), te->now_ms + 30000); /* before any process writes it */
    te_tick(te);
    assert_int_equal(next_probe_ms(te), te->now_ms + 30000);
    te_pass(te, 29999);
    assert_int_equal(te_claim(te, 10), 0);
    te_pass(te, 1);
    assert_int_equal(te_succeed(te, te_claim_one(te)), 0);
    te_pass(te, 5000);
    assert_int_equal(te_claim(te, 10), 2);
}

/* No job is parked, and none is expected: the next one is the probe. */
STARTED_TEST(breaker_of_a_clock_that_was_ahead_is_idle_in_time)
{
    fail_three(te);
    for (int64_t seq = 1; seq <= 3; seq++)
        assert_int_equal(te_change(te, MOVE_CANCEL, seq), 0);
    te->now_ms -= HOUR_MS;
    te_tick(te);
    check_idle(te, false);
    te_pass(te, 30000);
    check_idle(te, true);
}

/* Jobs that were sent ahead to probe, and did not arrive. */
STARTED_TEST(candidates_of_a_clock_that_was_ahead_are_replaced)
{
    fail_three(te);
    te_pass(te, 1000);
    assert_int_equal(te_claim(te, 10), 0);
    te_pass(te, 29000); /* one of the three is sent, */
    for (int64_t seq = 1; seq <= 3; seq++)
        if (te_job(te, seq).status.state == REDRIVE_STATE_QUEUED)
            assert_int_equal(te_change(te, MOVE_CANCEL, seq), 0); /* and does not arrive */
    te->now_ms -= HOUR_MS;
    te_tick(te);
    te_pass(te, 31000); /* the recovery has begun anew, and so has the wait for it */
    assert_int_equal(te_claim(te, 10), 1);
}
