/* A handler that cannot run costs its jobs nothing. */
#include "rig.h"

#include <stdlib.h>
#include <sys/stat.h>

/* The line that a job comes as, its id, and an answer: a stream handler in shell. */
#define ANSWER_ALL                                                \
    "while read -r line; do id=${line#*:\\\"}; id=${id%%\\\"*}; " \
    "printf \"{\\\"id\\\":\\\"%s\\\",\\\"status\\\":\\\"SUCCESS\\\"}\\n\" \"$id\"; done"
#define STREAM(script, more) "tasks: {s: {run: {stream: [sh, -c, '" script "']" more "}}}\n"

static unsigned attempts_of(struct rig *rig, int64_t seq)
{
    struct job_page page = {0};
    const unsigned attempts = rig_job(rig, seq, &page)->status.attempts;
    job_page_release(&page);
    return attempts;
}

static bool waits(struct rig *rig, int64_t seq)
{
    const enum redrive_state state = rig_state(rig, seq);
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
        struct rig rig;
        struct redrive_err err;
        char yaml[512];
        int64_t seqs[8];
        (void)snprintf(yaml, sizeof yaml, "tasks: {s: {%s, retry: {max_retries: 0}}}\n",
                       handlers[i]);
        rig_init(&rig, yaml);
        for (int n = 0; n < 8; n++)
            seqs[n] = rig_submit(&rig, "s", "{}");
        rig.options.until_idle = true;
        rig_start(&rig);
        rig_until_stopped(&rig);
        assert_int_equal(rig.told[ENGINE_EVENT_DEAD], 0);
        assert_int_equal(rig.told[ENGINE_EVENT_RETRYING], 0);
        for (int n = 0; n < 8; n++) {
            assert_true(waits(&rig, seqs[n]));
            assert_int_equal(attempts_of(&rig, seqs[n]), 0);
        }
        assert_true(pool_fault(rig.pool, &err) < 0);
        assert_int_equal(redrive_err_exit_code(err.code), 1);
        assert_true(rig_logged(&rig, "handler_cannot_run"));
        rig_release(&rig);
    }
}

static bool has_tried_twice(struct rig *rig)
{
    return rig_effects(rig, "try") >= 2;
}

static bool is_completed(struct rig *rig)
{
    return rig->told[ENGINE_EVENT_COMPLETED] >= 1;
}

/* @/gate is the module that is missing. */
RIG_TEST(mended_handler_runs_again_by_itself,
         STREAM("echo try >> @/effects; test -e @/gate || exit 1; " ANSWER_ALL, ""))
{
    struct redrive_err err;
    const int64_t seq = rig_submit(rig, "s", "{}");
    rig_start(rig);
    rig_until(rig, has_tried_twice);
    rig_open_gate(rig);
    rig_until(rig, is_completed);
    assert_int_equal(attempts_of(rig, seq), 1);
    assert_true(rig_logged(rig, "handler_runs_again"));
    assert_int_equal(pool_fault(rig->pool, &err), 0);
}

static bool has_been_given_back_thrice(struct rig *rig)
{
    return rig->told[ENGINE_EVENT_RELEASED] >= 3;
}

/* A run that asks for another one later costs its job nothing, and its handler has worked. */
RIG_TEST(mended_handler_that_snoozes_runs_again,
         "tasks: {s: {run: {stream: [sh, -c, 'test -e @/gate || exit 1; "
         "while read -r line; do id=${line#*:\\\"}; id=${id%%\\\"*}; "
         "printf \"{\\\"id\\\":\\\"%s\\\",\\\"snooze\\\":0.01}\\n\" \"$id\"; "
         "done']}, retry: {max_retries: 0}}}\n")
{
    const int64_t seq = rig_submit(rig, "s", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_RELEASED, 1);
    rig_open_gate(rig);
    rig_until(rig, has_been_given_back_thrice);
    assert_true(rig_logged(rig, "handler_runs_again"));
    pool_stop(rig->pool, 1000);
    rig_until_stopped(rig);
    assert_true(waits(rig, seq));
    assert_int_equal(attempts_of(rig, seq), 0);
    assert_int_equal(pool_status(rig->pool).failed, 0);
}

/* The first job of the queue breaks the handler whenever it is the first of a program's life. */
RIG_TEST(job_that_breaks_the_handler_does_not_hold_up_others_and_is_blamed,
         "tasks: {s: {run: {stream: [sh, -c, 'while read -r line; do case $line in "
         "*poison*) exit 1;; esac; id=${line#*:\\\"}; id=${id%%\\\"*}; printf "
         "\"{\\\"id\\\":\\\"%s\\\",\\\"status\\\":\\\"SUCCESS\\\"}\\n\" \"$id\"; "
         "done']}, retry: {max_retries: 0}}}\n")
{
    const int64_t poison = rig_submit(rig, "s", "{\"is\":\"poison\"}");
    for (int i = 0; i < 5; i++)
        (void)rig_submit(rig, "s", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 5);
    rig_until_told(rig, ENGINE_EVENT_DEAD, 1);
    assert_int_equal(rig_state(rig, poison), REDRIVE_STATE_DEAD_LETTER);
}

/* One task is broken; the other is worked to its end. */
RIG_TEST(broken_task_does_not_keep_others_from_running,
         "tasks: {good: {run: {exec: [\"true\"]}}, "
         "bad: {run: {exec: [/usr/bin/env, no-such-interpreter-here]}}}\n")
{
    struct redrive_err err;
    for (int i = 0; i < 6; i++) {
        (void)rig_submit(rig, "bad", "{}");
        (void)rig_submit(rig, "good", "{}");
    }
    rig->options.until_idle = true;
    rig_start(rig);
    rig_until_stopped(rig);
    assert_int_equal(rig->told[ENGINE_EVENT_COMPLETED], 6);
    assert_int_equal(rig->told[ENGINE_EVENT_DEAD], 0);
    assert_true(pool_fault(rig->pool, &err) < 0);
    assert_non_null(strstr(err.message, "'bad'"));
}
