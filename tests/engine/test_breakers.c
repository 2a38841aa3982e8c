/* What is told of breakers. */
#include "engine/bed.h"

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

static void start(struct bed *bed)
{
    bed_init(bed, CALL);
    bed->engine->options.log = &LOG;
    buf_init(&lines, 1 << 20);
}

static void stop(struct bed *bed)
{
    buf_release(&lines);
    bed_release(bed);
}

static void fail_three(struct bed *bed)
{
    for (int i = 0; i < 3; i++)
        bed_submit(bed, "call", NULL);
    for (int i = 0; i < 3; i++)
        assert_int_equal(bed_fail(bed, bed_claim_one(bed), "network"), 0);
}

static void check_logged(const char *words)
{
    if (!strstr(buf_cstr(&lines), words))
        fail_msg("not logged: %s; but: %s", words, buf_cstr(&lines));
    buf_reset(&lines);
}

static void trip(struct bed *bed, enum breaker_verb verb)
{
    struct breaker_op op;
    breaker_op_init(&op, (struct str){0}, STR("call"), verb);
    assert_int_equal(engine_apply_one(bed->engine, &op.op, NULL), 0);
}

#define STARTED_TEST(test) TEST_OF(test, struct bed, bed, start(bed), stop(bed))

STARTED_TEST(breaker_that_changes_is_told_of_and_logged)
{
    const unsigned *told = &bed->told[ENGINE_EVENT_BREAKER];
    fail_three(bed);
    assert_int_equal(*told, 1);
    check_logged("WARN  breaker breaker=call tenant=default state=open "
                 "previous_state=closed failure_count=3 next_probe_in_ms=30000");
    bed_pass(bed, 30000);
    struct job probe = *bed_claim_one(bed);
    assert_int_equal(*told, 2); /* half open */
    assert_int_equal(bed_fail(bed, &probe, "network"), 0);
    assert_int_equal(*told, 3);
    check_logged("INFO  breaker breaker=call tenant=default state=open previous_state=half_open");
    bed_pass(bed, 30000);
    assert_int_equal(bed_succeed(bed, bed_claim_one(bed)), 0);
    assert_int_equal(*told, 5);
    check_logged("INFO  breaker breaker=call tenant=default state=closed previous_state=half_open");
}

STARTED_TEST(breaker_moved_by_hand_is_told_of)
{
    trip(bed, BREAKER_TRIP);
    check_logged(
        "WARN  breaker breaker=call tenant=default state=forced_open previous_state=closed");
    trip(bed, BREAKER_TRIP);
    assert_int_equal(bed->told[ENGINE_EVENT_BREAKER], 1);
    trip(bed, BREAKER_RESET);
    check_logged(
        "INFO  breaker breaker=call tenant=default state=closed previous_state=forced_open");
}

/* Both engines tell the same listener. */
STARTED_TEST(change_is_told_once_however_many_processes_there_are)
{
    struct engine *first = bed->engine, *second = bed_second_engine(bed);
    fail_three(bed);
    bed->engine = second;
    bed_submit(bed, "call", NULL);
    assert_int_equal(bed_claim(bed, 10), 0);
    bed_pass(bed, 1000);
    assert_int_equal(bed->told[ENGINE_EVENT_BREAKER], 1);
    trip(bed, BREAKER_RESET);
    bed->engine = first;
    bed_pass(bed, 1000);
    bed_submit(bed, "call", NULL);
    bed_tick(bed);
    assert_int_equal(bed->told[ENGINE_EVENT_BREAKER], 2);
    engine_close(second);
}

static struct breaker_page look(struct bed *bed)
{
    struct breaker_page page = {0};
    assert_int_equal(
        breakers_read(engine_store(bed->engine), (struct str){0}, bed->now_ms, &page, NULL), 0);
    assert_int_equal(page.n, 1);
    return page;
}

static void check_idle(struct bed *bed, bool is_idle)
{
    struct breaker_page page = look(bed);
    assert_int_equal(page.breakers[0].is_idle, is_idle);
    assert_int_equal(breakers_open(&page), is_idle ? 0 : 1);
    breaker_page_release(&page);
}

/* Its jobs are gone: nobody will ever ask it, and it must not hold health down for ever. */
STARTED_TEST(open_breaker_without_jobs_is_idle_once_its_time_has_come)
{
    fail_three(bed);
    check_idle(bed, false);
    bed_pass(bed, 1000);
    assert_int_equal(bed_claim(bed, 10), 0); /* all are parked */
    bed_pass(bed, 28999);
    check_idle(bed, false);
    for (int64_t seq = 1; seq <= 3; seq++)
        assert_int_equal(bed_change(bed, MOVE_CANCEL, seq), 0);
    bed_pass(bed, 1);
    bed_tick(bed);
    check_idle(bed, true);
    /* A job that comes is the probe, and then it counts again. */
    bed_submit(bed, "call", NULL);
    struct job probe = *bed_claim_one(bed);
    check_idle(bed, false);
    assert_int_equal(bed_fail(bed, &probe, "network"), 0);
    check_idle(bed, false);
}

STARTED_TEST(breaker_that_was_tripped_is_never_idle)
{
    trip(bed, BREAKER_TRIP);
    bed_pass(bed, 3600000);
    check_idle(bed, false);
}

/* The time of the next probe, as it is shown. */
static int64_t next_probe_ms(struct bed *bed)
{
    struct breaker_page page = look(bed);
    const int64_t at_ms = page.breakers[0].status.next_probe_ms;
    breaker_page_release(&page);
    return at_ms;
}

#define HOUR_MS 3600000

/* It would be closed to all jobs until the old time comes again. */
STARTED_TEST(breaker_of_a_clock_that_was_ahead_recovers_from_now_on)
{
    fail_three(bed);
    bed->now_ms += 1000;
    bed_tick(bed);
    assert_int_equal(bed_claim(bed, 10), 0); /* all are parked */
    bed->now_ms -= HOUR_MS;
    assert_int_equal(next_probe_ms(bed), bed->now_ms + 30000); /* before any process writes it */
    bed_tick(bed);
    assert_int_equal(next_probe_ms(bed), bed->now_ms + 30000);
    bed_pass(bed, 29999);
    assert_int_equal(bed_claim(bed, 10), 0);
    bed_pass(bed, 1);
    assert_int_equal(bed_succeed(bed, bed_claim_one(bed)), 0);
    bed_pass(bed, 5000);
    assert_int_equal(bed_claim(bed, 10), 2);
}

/* No job is parked, and none is expected: the next one is the probe. */
STARTED_TEST(breaker_of_a_clock_that_was_ahead_is_idle_in_time)
{
    fail_three(bed);
    for (int64_t seq = 1; seq <= 3; seq++)
        assert_int_equal(bed_change(bed, MOVE_CANCEL, seq), 0);
    bed->now_ms -= HOUR_MS;
    bed_tick(bed);
    check_idle(bed, false);
    bed_pass(bed, 30000);
    check_idle(bed, true);
}

/* Jobs that were sent ahead to probe, and did not arrive. */
STARTED_TEST(candidates_of_a_clock_that_was_ahead_are_replaced)
{
    fail_three(bed);
    bed_pass(bed, 1000);
    assert_int_equal(bed_claim(bed, 10), 0);
    bed_pass(bed, 29000); /* one of the three is sent, */
    for (int64_t seq = 1; seq <= 3; seq++)
        if (bed_job(bed, seq).status.state == REDRIVE_STATE_QUEUED)
            assert_int_equal(bed_change(bed, MOVE_CANCEL, seq), 0); /* and does not arrive */
    bed->now_ms -= HOUR_MS;
    bed_tick(bed);
    bed_pass(bed, 31000); /* the recovery has begun anew, and so has the wait for it */
    assert_int_equal(bed_claim(bed, 10), 1);
}
