/* A handler that cannot run costs its jobs nothing. */
#include "pool_for_test.h"

#include <stdlib.h>
#include <sys/stat.h>

/* The line that a job comes as, its id, and an answer: a stream handler in shell. */
#define ANSWER_ALL                                                \
    "while read -r line; do id=${line#*:\\\"}; id=${id%%\\\"*}; " \
    "printf \"{\\\"id\\\":\\\"%s\\\",\\\"status\\\":\\\"SUCCESS\\\"}\\n\" \"$id\"; done"
#define STREAM(script, more) "tasks: {s: {run: {stream: [sh, -c, '" script "']" more "}}}\n"

static unsigned attempts_of(struct test_pool *tp, int64_t seq)
{
    struct job_page page = {0};
    const unsigned attempts = tp_job(tp, seq, &page)->status.attempts;
    job_page_release(&page);
    return attempts;
}

static bool waits(struct test_pool *tp, int64_t seq)
{
    const enum redrive_state state = tp_state(tp, seq);
    return state == REDRIVE_STATE_QUEUED || state == REDRIVE_STATE_SCHEDULED;
}

TEST(records_of_a_broken_handler_all_wait_and_the_pool_ends)
{
    static const char *const handlers[] = {
        "run: {stream: [sh, -c, 'echo no module >&2; exit 1']}",
        "run: {stream: [sh, -c, 'echo no module >&2; exit 1'], processes: 3}",
        "run: {exec: [/usr/bin/env, no-such-interpreter-here]}",
        "run: {exec: [python3, -c, 'import no_such_module_here']}",
    };
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++) {
        struct test_pool tp;
        struct redrive_err err;
        char yaml[512];
        int64_t seqs[8];
        (void)snprintf(yaml, sizeof yaml, "tasks: {s: {%s, retry: {max_retries: 0}}}\n",
                       handlers[i]);
        tp_init(&tp, yaml);
        for (int n = 0; n < 8; n++)
            seqs[n] = tp_submit(&tp, "s", "{}");
        tp.options.until_idle = true;
        tp_start(&tp);
        tp_until_stopped(&tp);
        assert_int_equal(tp.told[ENGINE_EVENT_DEAD], 0);
        assert_int_equal(tp.told[ENGINE_EVENT_RETRYING], 0);
        for (int n = 0; n < 8; n++) {
            assert_true(waits(&tp, seqs[n]));
            assert_int_equal(attempts_of(&tp, seqs[n]), 0);
        }
        assert_true(pool_fault(tp.pool, &err) < 0);
        assert_int_equal(redrive_err_exit_code(err.code), 1);
        assert_true(tp_logged(&tp, "handler_cannot_run"));
        tp_release(&tp);
    }
}

static bool has_tried_twice(struct test_pool *tp)
{
    return tp_effects(tp, "try") >= 2;
}

static bool is_completed(struct test_pool *tp)
{
    return tp->told[ENGINE_EVENT_COMPLETED] >= 1;
}

/* @/gate is the module that is missing. */
POOL_TEST(mended_handler_runs_again_by_itself,
          STREAM("echo try >> @/effects; test -e @/gate || exit 1; " ANSWER_ALL, ""))
{
    struct redrive_err err;
    const int64_t seq = tp_submit(tp, "s", "{}");
    tp_start(tp);
    tp_until(tp, has_tried_twice);
    tp_open_gate(tp);
    tp_until(tp, is_completed);
    assert_int_equal(attempts_of(tp, seq), 1);
    assert_true(tp_logged(tp, "handler_runs_again"));
    assert_int_equal(pool_fault(tp->pool, &err), 0);
}

static bool has_been_given_back_thrice(struct test_pool *tp)
{
    return tp->told[ENGINE_EVENT_RELEASED] >= 3;
}

/* A run that asks for another one later costs its job nothing, and its handler has worked. */
POOL_TEST(mended_handler_that_snoozes_runs_again,
          "tasks: {s: {run: {stream: [sh, -c, 'test -e @/gate || exit 1; "
          "while read -r line; do id=${line#*:\\\"}; id=${id%%\\\"*}; "
          "printf \"{\\\"id\\\":\\\"%s\\\",\\\"snooze\\\":0.01}\\n\" \"$id\"; "
          "done']}, retry: {max_retries: 0}}}\n")
{
    const int64_t seq = tp_submit(tp, "s", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_RELEASED, 1);
    tp_open_gate(tp);
    tp_until(tp, has_been_given_back_thrice);
    assert_true(tp_logged(tp, "handler_runs_again"));
    pool_stop(tp->pool, 1000);
    tp_until_stopped(tp);
    assert_true(waits(tp, seq));
    assert_int_equal(attempts_of(tp, seq), 0);
    assert_int_equal(pool_status(tp->pool).failed, 0);
}

/* The first job of the queue breaks the handler whenever it is the first of a program's life. */
POOL_TEST(job_that_breaks_the_handler_does_not_hold_up_others_and_is_blamed,
          "tasks: {s: {run: {stream: [sh, -c, 'while read -r line; do case $line in "
          "*poison*) exit 1;; esac; id=${line#*:\\\"}; id=${id%%\\\"*}; printf "
          "\"{\\\"id\\\":\\\"%s\\\",\\\"status\\\":\\\"SUCCESS\\\"}\\n\" \"$id\"; "
          "done']}, retry: {max_retries: 0}}}\n")
{
    const int64_t poison = tp_submit(tp, "s", "{\"is\":\"poison\"}");
    for (int i = 0; i < 5; i++)
        (void)tp_submit(tp, "s", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 5);
    tp_until_told(tp, ENGINE_EVENT_DEAD, 1);
    assert_int_equal(tp_state(tp, poison), REDRIVE_STATE_DEAD_LETTER);
}

/* One task is broken; the other is worked to its end. */
POOL_TEST(broken_task_does_not_keep_others_from_running,
          "tasks: {good: {run: {exec: [\"true\"]}}, "
          "bad: {run: {exec: [/usr/bin/env, no-such-interpreter-here]}}}\n")
{
    struct redrive_err err;
    for (int i = 0; i < 6; i++) {
        (void)tp_submit(tp, "bad", "{}");
        (void)tp_submit(tp, "good", "{}");
    }
    tp->options.until_idle = true;
    tp_start(tp);
    tp_until_stopped(tp);
    assert_int_equal(tp->told[ENGINE_EVENT_COMPLETED], 6);
    assert_int_equal(tp->told[ENGINE_EVENT_DEAD], 0);
    assert_true(pool_fault(tp->pool, &err) < 0);
    assert_non_null(strstr(err.message, "'bad'"));
}
