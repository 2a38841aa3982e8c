/* A pool takes jobs, has them run, and tells the store how they ended. */
#include "pool_for_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *here; /* the directory of the tests */

#define NOTE(word)   "echo " word " $REDRIVE_JOB_ID $REDRIVE_ATTEMPT >> @/effects; "
#define TASK(script) "run: {exec: [sh, -c, '" script "']"

/* ---- Kinds of runs --------------------------------------------------------------------------- */

POOL_TEST(program_is_given_the_payload_and_its_output_is_the_result,
          "tasks: {t: {" TASK(NOTE("start") "cat") "}}}\n")
{
    struct job_page page = {0};
    int64_t seq = tp_submit(tp, "t", "{\"n\":1}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    const struct job *job = tp_job(tp, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_COMPLETED);
    check_str(job->status.result, "{\"n\":1}");
    check_str(job->status.worker, "w");
    assert_int_equal(tp_effects(tp, "start"), 1);
    assert_int_equal(pool_status(tp->pool).ended, 1);
    assert_int_equal(pool_status(tp->pool).failed, 0);
    job_page_release(&page);
}

TEST(stream_takes_many_jobs)
{
    struct test_pool tp;
    char yaml[4400];
    enum {
        N = 30
    };
    (void)snprintf(yaml, sizeof yaml,
                   "tasks: {s: {run: {stream: [python3, %s/worker.py], processes: 2}}}\n", here);
    tp_init(&tp, yaml);
    tp_start(&tp);
    int64_t failing =
        tp_submit(&tp, "s", "{\"do\":\"answer\",\"answer\":{\"status\":\"PERMANENT_FAIL\"}}");
    for (int i = 0; i < N; i++)
        (void)tp_submit(&tp, "s", "{}");
    tp_until_told(&tp, ENGINE_EVENT_COMPLETED, N);
    tp_until_told(&tp, ENGINE_EVENT_DEAD, 1);
    assert_int_equal(tp_state(&tp, failing), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(pool_status(tp.pool).ended, N + 1);
    assert_int_equal(pool_status(tp.pool).failed, 1);
    assert_int_equal(pool_status(tp.pool).slots, 2);
    tp_release(&tp);
}

static pid_t start_server(int *ret_in, int *ret_port)
{
    int in[2], out[2];
    char path[4200], text[16] = "";
    (void)snprintf(path, sizeof path, "%s/server.py", here);
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    pid_t server = fork();
    if (server == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        execlp("python3", "python3", path, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    assert_true(read(out[0], text, sizeof text - 1) > 0);
    close(out[0]);
    *ret_in = in[1];
    *ret_port = atoi(text);
    return server;
}

TEST(request_is_made_for_each_job)
{
    struct test_pool tp;
    struct job_page page = {0};
    char yaml[512];
    int in, port;
    pid_t server = start_server(&in, &port);
    (void)snprintf(yaml, sizeof yaml,
                   "tasks:\n"
                   "  h: {run: {http: \"http://127.0.0.1:%d/echo\"}}\n"
                   "  bad: {run: {http: \"http://127.0.0.1:%d/status/404\"}}\n",
                   port, port);
    tp_init(&tp, yaml);
    tp_start(&tp);
    int64_t seq = tp_submit(&tp, "h", "[1,2]");
    int64_t bad = tp_submit(&tp, "bad", "{}");
    tp_until_told(&tp, ENGINE_EVENT_COMPLETED, 1);
    tp_until_told(&tp, ENGINE_EVENT_DEAD, 1);
    check_str(tp_job(&tp, seq, &page)->status.result, "[1,2]");
    const struct job *job = tp_job(&tp, bad, &page);
    assert_int_equal(job->status.error.code, 404);
    assert_null(job->status.result.ptr);
    job_page_release(&page);
    tp_release(&tp);
    close(in);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

/* Submits a job that waits for another. */
static int64_t submit_after(struct test_pool *tp, const char *task, const char *id,
                            const char *parent)
{
    const struct job_after after = {str_of(parent), {AFTER_SUCCESS, AFTER_DEAD_WAIT}};
    const struct job_spec spec = {
        .task = str_of(task), .id = str_of(id), .after = &after, .n_after = parent[0] ? 1 : 0};
    return tp_submit_spec(tp, &spec);
}

/* What a job of each kind of runner is given of the job that it has waited for. */
TEST(handlers_are_given_the_results_of_parents)
{
    struct test_pool tp;
    struct job_page page = {0};
    char yaml[4700];
    int in, port;
    pid_t server = start_server(&in, &port);
    (void)snprintf(yaml, sizeof yaml,
                   "tasks:\n"
                   "  first: {run: {exec: [echo, '{\"n\": 7}']}}\n"
                   "  x: {run: {exec: [sh, -c, 'printf %%s \"$REDRIVE_PARENTS\"']}}\n"
                   "  s: {run: {stream: [python3, %s/worker.py]}}\n"
                   "  h: {run: {http: \"http://127.0.0.1:%d/echo\"}}\n",
                   here, port);
    tp_init(&tp, yaml);
    (void)submit_after(&tp, "first", "p", "");
    const int64_t x = submit_after(&tp, "x", "x", "p"), s = submit_after(&tp, "s", "s", "p");
    const int64_t h = submit_after(&tp, "h", "h", "p");
    const int64_t plain = submit_after(&tp, "x", "plain", "");
    tp_start(&tp);
    tp_until_told(&tp, ENGINE_EVENT_COMPLETED, 5);
    const char *const given = "[{\"id\":\"p\",\"state\":\"completed\",\"result\":{\"n\": 7}}]";
    check_str(tp_job(&tp, x, &page)->status.result, given);
    const struct str result = tp_job(&tp, s, &page)->status.result;
    static const char line[] = "\"parents\": [{\"id\": \"p\", \"state\": \"completed\", "
                               "\"result\": {\"n\": 7}}]";
    assert_non_null(memmem(result.ptr, result.len, line, sizeof line - 1));
    assert_int_equal(tp_job(&tp, h, &page)->status.result.len, 0); /* the payload alone */
    assert_int_equal(tp_job(&tp, plain, &page)->status.result.len, 0);
    job_page_release(&page);
    tp_release(&tp);
    close(in);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

POOL_TEST(no_more_run_than_there_are_places,
          "tasks: {t: {" TASK(NOTE("start") "sleep 0.05; " NOTE("end")) ", concurrency: 2}}}\n")
{
    tp_start(tp);
    for (int i = 0; i < 12; i++)
        (void)tp_submit(tp, "t", "{}");
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 12);
    assert_int_equal(tp_most_at_once(tp), 2);
    assert_int_equal(tp_effects(tp, "start"), 12);
}

/* Whether the handlers have written this and nothing else. */
static void check_effects(const struct test_pool *tp, const char *expected)
{
    char text[256] = "";
    FILE *file = fopen(tp->effects, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(text, expected);
}

POOL_TEST(one_place_goes_to_the_highest_priority_of_all_tasks,
          "tasks:\n"
          "  a: {" TASK("printf a >> @/effects") "}}\n"
                                                 "  b: {" TASK("printf b >> @/effects") "}}\n")
{
    for (int i = 0; i < 6; i++)
        (void)tp_submit_prior(tp, i % 2 ? "b" : "a", 0);
    for (int i = 0; i < 6; i++)
        (void)tp_submit_prior(tp, i % 3 ? "a" : "b", i % 3 ? 10 : 20);
    tp->options.max_jobs = 1;
    tp->options.until_idle = true;
    tp_start(tp);
    assert_int_equal(pool_status(tp->pool).slots, 1);
    tp_until_stopped(tp);
    check_effects(tp, "bbaaaaababab");
}

static bool has_run_quick(struct test_pool *tp)
{
    return tp_effects(tp, "quick") == 20;
}

POOL_TEST(a_full_task_does_not_hold_others_up,
          "tasks:\n"
          "  slow: {" TASK(NOTE("start") "while [ ! -e @/gate ]; do sleep 0.02; done; " NOTE(
              "end")) ", concurrency: 1}}\n"
                      "  quick: {" TASK(NOTE("quick")) ", concurrency: 2}}\n")
{
    for (int i = 0; i < 3; i++)
        (void)tp_submit_prior(tp, "slow", 100);
    for (int i = 0; i < 20; i++)
        (void)tp_submit(tp, "quick", "{}");
    tp_start(tp);
    tp_until(tp, has_run_quick);
    assert_int_equal(tp_effects(tp, "start"), 1);
    tp_open_gate(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 23);
    assert_int_equal(tp_most_at_once(tp), 1);
}

POOL_TEST(only_what_was_asked_for_is_taken,
          "tasks:\n"
          "  a: {queue: red, " TASK("true") "}}\n"
                                            "  b: {queue: red, " TASK("true") "}}\n")
{
    const struct str task = STR("a"), queue = STR("red");
    tp->options.tasks = &task;
    tp->options.queues = &queue;
    tp->options.n_tasks = tp->options.n_queues = 1;
    tp->options.until_idle = true;
    int64_t mine = tp_submit(tp, "a", "{}");
    int64_t of_b = tp_submit(tp, "b", "{}");
    tp_start(tp);
    tp_until_stopped(tp);
    assert_int_equal(tp_state(tp, mine), REDRIVE_STATE_COMPLETED);
    assert_int_equal(tp_state(tp, of_b), REDRIVE_STATE_QUEUED);
}

/* ---- How runs end ---------------------------------------------------------------------------- */

POOL_TEST(failure_is_retried_until_the_policy_has_enough,
          "tasks: {t: {" TASK(
              NOTE("start") "echo no good >&2; exit 75") "},\n"
                                                         "  retry: {strategy: fixed, "
                                                         "initial_delay: 30ms, jitter: none,\n"
                                                         "          max_retries: 2}}}\n")
{
    struct job_page page = {0};
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_DEAD, 1);
    const struct job *job = tp_job(tp, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job->status.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job->status.attempts, 3);
    check_str(job->status.error.message, "no good");
    assert_int_equal(tp_effects(tp, "start"), 3);
    assert_int_equal(tp->told[ENGINE_EVENT_RETRYING], 2);
    assert_int_equal(pool_status(tp->pool).failed, 3);
    job_page_release(&page);
}

POOL_TEST(output_of_a_failed_run_is_no_result, "tasks: {t: {" TASK("echo half; exit 64") "}}}\n")
{
    struct job_page page = {0};
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_DEAD, 1);
    assert_int_equal(tp_job(tp, seq, &page)->status.result.len, 0);
    job_page_release(&page);
}

POOL_TEST(run_ends_at_its_time_out,
          "tasks: {t: {" TASK("exec sleep 60") ", timeout: 200ms},\n"
                                               "            retry: {max_retries: 0}}}\n")
{
    struct job_page page = {0};
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_DEAD, 1);
    check_str(tp_job(tp, seq, &page)->status.error.type, "TimeoutError");
    job_page_release(&page);
}

/* So that there is no text of a handler that a store does not take. */
TEST(words_of_a_failure_are_cut)
{
    enum {
        N = 100000
    };
    struct test_pool tp;
    struct job_page page = {0};
    char yaml[4400];
    char *payload = malloc(4 * N), *text = malloc(N + 1);
    assert_true(payload && text);
    memset(text, 'x', N);
    text[N] = '\0';
    (void)snprintf(payload, 4 * N,
                   "{\"do\":\"answer\",\"answer\":{\"status\":\"PERMANENT_FAIL\","
                   "\"error_type\":\"%s\",\"message\":\"%s\",\"stacktrace\":\"%s\"}}",
                   text, text, text);
    (void)snprintf(yaml, sizeof yaml, "tasks: {s: {run: {stream: [python3, %s/worker.py]}}}\n",
                   here);
    tp_init(&tp, yaml);
    const int64_t seq = tp_submit(&tp, "s", payload);
    tp_start(&tp);
    tp_until_told(&tp, ENGINE_EVENT_DEAD, 1);
    const struct job *job = tp_job(&tp, seq, &page);
    assert_int_equal(job->status.error.type.len, 255);
    assert_int_equal(job->status.error.message.len, 64 * 1024);
    assert_int_equal(job->status.error.stacktrace.len, 64 * 1024);
    job_page_release(&page);
    tp_release(&tp);
    free(payload);
    free(text);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void set_lease(struct test_pool *tp, int64_t lease_ms, int64_t heartbeat_ms)
{
    tp->config->tasks[0].lease_ms = lease_ms;
    tp->config->tasks[0].heartbeat_ms = heartbeat_ms;
}

static int64_t lease_until_ms(struct test_pool *tp, int64_t seq)
{
    struct job_page page = {0};
    const int64_t until_ms = tp_job(tp, seq, &page)->status.lease_until_ms;
    job_page_release(&page);
    return until_ms;
}

/* It ends when it has been kept twice; its lease does not end on a busy machine. */
POOL_TEST(heartbeats_keep_a_long_job,
          "tasks: {t: {" TASK(NOTE("start") "until [ -e @/gate ]; do sleep 0.01; done") "}}}\n")
{
    set_lease(tp, 20000, 100);
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until_told(tp, ENGINE_EVENT_STARTED, 1);
    for (int i = 0; i < 2; i++) {
        const int64_t before_ms = lease_until_ms(tp, seq);
        WAIT_RUNNING(lease_until_ms(tp, seq) > before_ms, uv_run(&tp->loop, UV_RUN_ONCE));
    }
    tp_open_gate(tp);
    tp_until_told(tp, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(tp_state(tp, seq), REDRIVE_STATE_COMPLETED);
    assert_int_equal(tp_effects(tp, "start"), 1);
    assert_int_equal(tp->told[ENGINE_EVENT_STARTED], 1);
}

static bool is_at_work(struct test_pool *tp)
{
    return tp_effects(tp, "start") > 0;
}

static bool has_nothing_in_hand(struct test_pool *tp)
{
    return pool_status(tp->pool).running == 0;
}

POOL_TEST(job_cancelled_by_hand_is_made_to_end,
          "tasks: {t: {" TASK(NOTE("start") "exec sleep 60") "}}}\n")
{
    set_lease(tp, 10000, 100);
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    assert_int_equal(tp_change(tp, MOVE_CANCEL, seq), 0);
    tp_until(tp, has_nothing_in_hand);
    assert_int_equal(tp_state(tp, seq), REDRIVE_STATE_CANCELLED);
    assert_true(tp_logged(tp, "cancelled_elsewhere"));
    assert_false(tp_logged(tp, "lease_lost"));
    assert_int_equal(tp->told[ENGINE_EVENT_COMPLETED], 0);
}

POOL_TEST(job_cancelled_by_this_process_ends_without_a_heartbeat,
          "tasks: {t: {" TASK(NOTE("start") "exec sleep 60") "}}}\n")
{
    set_lease(tp, 7200000, 3600000);
    tp->tells_of_cancels = true;
    int64_t seq = tp_submit(tp, "t", "{}");
    tp_start(tp);
    tp_until(tp, is_at_work);
    assert_int_equal(tp_change(tp, MOVE_CANCEL, seq), 0);
    tp_until(tp, has_nothing_in_hand);
    assert_int_equal(tp_state(tp, seq), REDRIVE_STATE_CANCELLED);
    assert_true(tp_logged(tp, " cancelled "));
    assert_false(tp_logged(tp, "cancelled_elsewhere"));
    assert_false(tp_logged(tp, "lease_lost"));
}

/* ---- What cannot be run ---------------------------------------------------------------------- */

static void check_refused(const char *yaml, const char *task, const char *message, const char *hint)
{
    struct test_pool tp;
    struct redrive_err err = {0};
    const struct str name = str_of(task);
    tp_init(&tp, yaml);
    tp.options.tasks = &name;
    tp.options.n_tasks = task != NULL;
    assert_int_equal(tp_try(&tp, &err), REDRIVE_E_CONFIG);
    assert_null(tp.pool);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    tp_release(&tp);
}

TEST(what_cannot_be_run_is_refused_at_the_start)
{
    check_refused("tasks: {mail: {run: {exec: [no-such-program]}}}\n", NULL,
                  "task 'mail': there is no program 'no-such-program'",
                  "correct run.exec of the task, or install the program");
    check_refused("tasks: {mail: {run: {stream: [/no/such]}}}\n", NULL,
                  "task 'mail': there is no program '/no/such'",
                  "correct run.stream of the task, or install the program");
    check_refused("tasks: {mail: {run: {exec: [/etc/passwd]}}}\n", NULL,
                  "task 'mail': cannot execute '/etc/passwd': Permission denied",
                  "chmod +x makes a script executable");
    check_refused("tasks: {mail: {run: {exec: [/tmp]}}}\n", NULL,
                  "task 'mail': cannot execute '/tmp': Is a directory",
                  "correct run.exec of the task, or install the program");
    check_refused("tasks: {mail: {run: {exec: [sh]}}, other: }\n", "mial",
                  "no task 'mial' in the configuration", "did you mean 'mail'?");
    check_refused("tasks: {mail: {run: {exec: [sh]}}, other: }\n", "other",
                  "task 'other' does not say how it is run",
                  "add run: {exec: [PROGRAM]} to the task, or stream or http");
    check_refused("tasks: {other: }\n", NULL, "there is nothing to run",
                  "give a task run: {exec: [PROGRAM]}, or stream or http");
}

TEST_MAIN(argc, argv)
{
    here = argc > 1 ? argv[1] : ".";
    return check_run(NULL, NULL);
}
