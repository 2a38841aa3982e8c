/* A pool takes jobs, has them run, and tells the store how they ended. */
#include "rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *here; /* the directory of the tests */

#define NOTE(word)   "echo " word " $REDRIVE_JOB_ID $REDRIVE_ATTEMPT >> @/effects; "
#define TASK(script) "run: {exec: [sh, -c, '" script "']"

/* ---- Kinds of runs --------------------------------------------------------------------------- */

RIG_TEST(program_is_given_the_payload_and_its_output_is_the_result,
         "tasks: {t: {" TASK(NOTE("start") "cat") "}}}\n")
{
    struct job_page page = {0};
    int64_t seq = rig_submit(rig, "t", "{\"n\":1}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    const struct job *job = rig_job(rig, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_COMPLETED);
    check_str(job->status.result, "{\"n\":1}");
    check_str(job->status.worker, "w");
    assert_int_equal(rig_effects(rig, "start"), 1);
    assert_int_equal(pool_status(rig->pool).ended, 1);
    assert_int_equal(pool_status(rig->pool).failed, 0);
    job_page_release(&page);
}

TEST(stream_takes_many_jobs)
{
    struct rig rig;
    char yaml[4400];
    enum {
        N = 30
    };
    (void)snprintf(yaml, sizeof yaml,
                   "tasks: {s: {run: {stream: [python3, %s/worker.py], processes: 2}}}\n", here);
    rig_init(&rig, yaml);
    rig_start(&rig);
    int64_t failing =
        rig_submit(&rig, "s", "{\"do\":\"answer\",\"answer\":{\"status\":\"PERMANENT_FAIL\"}}");
    for (int i = 0; i < N; i++)
        (void)rig_submit(&rig, "s", "{}");
    rig_until_told(&rig, ENGINE_EVENT_COMPLETED, N);
    rig_until_told(&rig, ENGINE_EVENT_DEAD, 1);
    assert_int_equal(rig_state(&rig, failing), REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(pool_status(rig.pool).ended, N + 1);
    assert_int_equal(pool_status(rig.pool).failed, 1);
    assert_int_equal(pool_status(rig.pool).slots, 2);
    rig_release(&rig);
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
    struct rig rig;
    struct job_page page = {0};
    char yaml[512];
    int in, port;
    pid_t server = start_server(&in, &port);
    (void)snprintf(yaml, sizeof yaml,
                   "tasks:\n"
                   "  h: {run: {http: \"http://127.0.0.1:%d/echo\"}}\n"
                   "  bad: {run: {http: \"http://127.0.0.1:%d/status/404\"}}\n",
                   port, port);
    rig_init(&rig, yaml);
    rig_start(&rig);
    int64_t seq = rig_submit(&rig, "h", "[1,2]");
    int64_t bad = rig_submit(&rig, "bad", "{}");
    rig_until_told(&rig, ENGINE_EVENT_COMPLETED, 1);
    rig_until_told(&rig, ENGINE_EVENT_DEAD, 1);
    check_str(rig_job(&rig, seq, &page)->status.result, "[1,2]");
    const struct job *job = rig_job(&rig, bad, &page);
    assert_int_equal(job->status.error.code, 404);
    assert_null(job->status.result.ptr);
    job_page_release(&page);
    rig_release(&rig);
    close(in);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

/* Submits a job that waits for another. */
static int64_t submit_after(struct rig *rig, const char *task, const char *id, const char *parent)
{
    const struct job_after after = {str_of(parent), {AFTER_SUCCESS, AFTER_DEAD_WAIT}};
    const struct job_spec spec = {
        .task = str_of(task), .id = str_of(id), .after = &after, .n_after = parent[0] ? 1 : 0};
    return rig_submit_spec(rig, &spec);
}

/* What a job of each kind of runner is given of the job that it has waited for. */
TEST(handlers_are_given_the_results_of_parents)
{
    struct rig rig;
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
    rig_init(&rig, yaml);
    (void)submit_after(&rig, "first", "p", "");
    const int64_t x = submit_after(&rig, "x", "x", "p"), s = submit_after(&rig, "s", "s", "p");
    const int64_t h = submit_after(&rig, "h", "h", "p");
    const int64_t plain = submit_after(&rig, "x", "plain", "");
    rig_start(&rig);
    rig_until_told(&rig, ENGINE_EVENT_COMPLETED, 5);
    const char *const given = "[{\"id\":\"p\",\"state\":\"completed\",\"result\":{\"n\": 7}}]";
    check_str(rig_job(&rig, x, &page)->status.result, given);
    const struct str result = rig_job(&rig, s, &page)->status.result;
    static const char line[] = "\"parents\": [{\"id\": \"p\", \"state\": \"completed\", "
                               "\"result\": {\"n\": 7}}]";
    assert_non_null(memmem(result.ptr, result.len, line, sizeof line - 1));
    assert_int_equal(rig_job(&rig, h, &page)->status.result.len, 0); /* the payload alone */
    assert_int_equal(rig_job(&rig, plain, &page)->status.result.len, 0);
    job_page_release(&page);
    rig_release(&rig);
    close(in);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

/* ---- Slots ----------------------------------------------------------------------------------- */

RIG_TEST(no_more_run_than_there_are_places,
         "tasks: {t: {" TASK(NOTE("start") "sleep 0.05; " NOTE("end")) ", concurrency: 2}}}\n")
{
    rig_start(rig);
    for (int i = 0; i < 12; i++)
        (void)rig_submit(rig, "t", "{}");
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 12);
    assert_int_equal(rig_most_at_once(rig), 2);
    assert_int_equal(rig_effects(rig, "start"), 12);
}

/* Whether the handlers have written this and nothing else. */
static void check_effects(const struct rig *rig, const char *expected)
{
    char text[256] = "";
    FILE *file = fopen(rig->effects, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    assert_string_equal(text, expected);
}

RIG_TEST(one_place_goes_to_the_highest_priority_of_all_tasks,
         "tasks:\n"
         "  a: {" TASK("printf a >> @/effects") "}}\n"
                                                "  b: {" TASK("printf b >> @/effects") "}}\n")
{
    for (int i = 0; i < 6; i++)
        (void)rig_submit_prior(rig, i % 2 ? "b" : "a", 0);
    for (int i = 0; i < 6; i++)
        (void)rig_submit_prior(rig, i % 3 ? "a" : "b", i % 3 ? 10 : 20);
    rig->options.max_jobs = 1;
    rig->options.until_idle = true;
    rig_start(rig);
    assert_int_equal(pool_status(rig->pool).slots, 1);
    rig_until_stopped(rig);
    check_effects(rig, "bbaaaaababab");
}

static bool has_run_quick(struct rig *rig)
{
    return rig_effects(rig, "quick") == 20;
}

RIG_TEST(a_full_task_does_not_hold_others_up,
         "tasks:\n"
         "  slow: {" TASK(NOTE("start") "while [ ! -e @/gate ]; do sleep 0.02; done; " NOTE(
             "end")) ", concurrency: 1}}\n"
                     "  quick: {" TASK(NOTE("quick")) ", concurrency: 2}}\n")
{
    for (int i = 0; i < 3; i++)
        (void)rig_submit_prior(rig, "slow", 100);
    for (int i = 0; i < 20; i++)
        (void)rig_submit(rig, "quick", "{}");
    rig_start(rig);
    rig_until(rig, has_run_quick);
    assert_int_equal(rig_effects(rig, "start"), 1);
    rig_open_gate(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 23);
    assert_int_equal(rig_most_at_once(rig), 1);
}

RIG_TEST(only_what_was_asked_for_is_taken,
         "tasks:\n"
         "  a: {queue: red, " TASK("true") "}}\n"
                                           "  b: {queue: red, " TASK("true") "}}\n")
{
    const struct str task = STR("a"), queue = STR("red");
    rig->options.tasks = &task;
    rig->options.queues = &queue;
    rig->options.n_tasks = rig->options.n_queues = 1;
    rig->options.until_idle = true;
    int64_t mine = rig_submit(rig, "a", "{}");
    int64_t of_b = rig_submit(rig, "b", "{}");
    rig_start(rig);
    rig_until_stopped(rig);
    assert_int_equal(rig_state(rig, mine), REDRIVE_STATE_COMPLETED);
    assert_int_equal(rig_state(rig, of_b), REDRIVE_STATE_QUEUED);
}

/* ---- How runs end ---------------------------------------------------------------------------- */

RIG_TEST(failure_is_retried_until_the_policy_has_enough,
         "tasks: {t: {" TASK(
             NOTE("start") "echo no good >&2; exit 75") "},\n"
                                                        "  retry: {strategy: fixed, "
                                                        "initial_delay: 30ms, jitter: none,\n"
                                                        "          max_retries: 2}}}\n")
{
    struct job_page page = {0};
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_DEAD, 1);
    const struct job *job = rig_job(rig, seq, &page);
    assert_int_equal(job->status.state, REDRIVE_STATE_DEAD_LETTER);
    assert_int_equal(job->status.reason, REDRIVE_REASON_EXHAUSTED);
    assert_int_equal(job->status.attempts, 3);
    check_str(job->status.error.message, "no good");
    assert_int_equal(rig_effects(rig, "start"), 3);
    assert_int_equal(rig->told[ENGINE_EVENT_RETRYING], 2);
    assert_int_equal(pool_status(rig->pool).failed, 3);
    job_page_release(&page);
}

RIG_TEST(output_of_a_failed_run_is_no_result, "tasks: {t: {" TASK("echo half; exit 64") "}}}\n")
{
    struct job_page page = {0};
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_DEAD, 1);
    assert_int_equal(rig_job(rig, seq, &page)->status.result.len, 0);
    job_page_release(&page);
}

RIG_TEST(run_ends_at_its_time_out,
         "tasks: {t: {" TASK("exec sleep 60") ", timeout: 200ms},\n"
                                              "            retry: {max_retries: 0}}}\n")
{
    struct job_page page = {0};
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_DEAD, 1);
    check_str(rig_job(rig, seq, &page)->status.error.type, "TimeoutError");
    job_page_release(&page);
}

/* So that there is no text of a handler that a store does not take. */
TEST(words_of_a_failure_are_cut)
{
    enum {
        N = 100000
    };
    struct rig rig;
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
    rig_init(&rig, yaml);
    const int64_t seq = rig_submit(&rig, "s", payload);
    rig_start(&rig);
    rig_until_told(&rig, ENGINE_EVENT_DEAD, 1);
    const struct job *job = rig_job(&rig, seq, &page);
    assert_int_equal(job->status.error.type.len, 255);
    assert_int_equal(job->status.error.message.len, 64 * 1024);
    assert_int_equal(job->status.error.stacktrace.len, 64 * 1024);
    job_page_release(&page);
    rig_release(&rig);
    free(payload);
    free(text);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void set_lease(struct rig *rig, int64_t lease_ms, int64_t heartbeat_ms)
{
    rig->config->tasks[0].lease_ms = lease_ms;
    rig->config->tasks[0].heartbeat_ms = heartbeat_ms;
}

RIG_TEST(heartbeats_keep_a_long_job, "tasks: {t: {" TASK(NOTE("start") "sleep 2") "}}}\n")
{
    set_lease(rig, 600, 100);
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until_told(rig, ENGINE_EVENT_COMPLETED, 1);
    assert_int_equal(rig_state(rig, seq), REDRIVE_STATE_COMPLETED);
    assert_int_equal(rig_effects(rig, "start"), 1);
    assert_int_equal(rig->told[ENGINE_EVENT_STARTED], 1);
}

static bool is_at_work(struct rig *rig)
{
    return rig_effects(rig, "start") > 0;
}

static bool has_nothing_in_hand(struct rig *rig)
{
    return pool_status(rig->pool).running == 0;
}

RIG_TEST(job_cancelled_by_hand_is_made_to_end,
         "tasks: {t: {" TASK(NOTE("start") "exec sleep 60") "}}}\n")
{
    set_lease(rig, 10000, 100);
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    assert_int_equal(rig_change(rig, MOVE_CANCEL, seq), 0);
    rig_until(rig, has_nothing_in_hand);
    assert_int_equal(rig_state(rig, seq), REDRIVE_STATE_CANCELLED);
    assert_true(rig_logged(rig, "cancelled_elsewhere"));
    assert_false(rig_logged(rig, "lease_lost"));
    assert_int_equal(rig->told[ENGINE_EVENT_COMPLETED], 0);
}

RIG_TEST(job_cancelled_by_this_process_ends_without_a_heartbeat,
         "tasks: {t: {" TASK(NOTE("start") "exec sleep 60") "}}}\n")
{
    set_lease(rig, 7200000, 3600000);
    rig->tells_of_cancels = true;
    int64_t seq = rig_submit(rig, "t", "{}");
    rig_start(rig);
    rig_until(rig, is_at_work);
    assert_int_equal(rig_change(rig, MOVE_CANCEL, seq), 0);
    rig_until(rig, has_nothing_in_hand);
    assert_int_equal(rig_state(rig, seq), REDRIVE_STATE_CANCELLED);
    assert_true(rig_logged(rig, " cancelled "));
    assert_false(rig_logged(rig, "cancelled_elsewhere"));
    assert_false(rig_logged(rig, "lease_lost"));
}

/* ---- What cannot be run ---------------------------------------------------------------------- */

static void check_refused(const char *yaml, const char *task, const char *message, const char *hint)
{
    struct rig rig;
    struct redrive_err err = {0};
    const struct str name = str_of(task);
    rig_init(&rig, yaml);
    rig.options.tasks = &name;
    rig.options.n_tasks = task != NULL;
    assert_int_equal(rig_try(&rig, &err), REDRIVE_E_CONFIG);
    assert_null(rig.pool);
    assert_string_equal(err.message, message);
    assert_string_equal(err.hint, hint);
    rig_release(&rig);
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
