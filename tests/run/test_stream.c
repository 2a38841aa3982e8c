#include "bench.h"

#include "run/stream/stream.h"

static char worker_path[4096];
static char logged[4096];

static void keep_log(struct str line, void *ctx)
{
    (void)ctx;
    str_copy(logged, sizeof logged, line);
}

static const struct log LOG = {LOG_LEVEL_DEBUG, LOG_TEXT, keep_log, NULL};

static void open_with(struct bench *b, struct stream_options options)
{
    bench_init(b);
    options.environ = environ;
    options.kill_grace_ms = 200;
    struct redrive_err err;
    if (stream_runner_new(&b->loop, &LOG, &options, &b->runner, &err) < 0)
        fail_msg("%s", err.message);
}

static const char *const WORKER[] = {"python3", worker_path, NULL};

static void open_pool(struct bench *b, uint32_t processes, uint32_t in_flight)
{
    open_with(
        b, (struct stream_options){.argv = WORKER, .processes = processes, .in_flight = in_flight});
}

static struct record *run_one(struct bench *b, const char *payload, int64_t timeout_ms)
{
    struct record *r = bench_start(b, payload, timeout_ms);
    bench_until(b, &r->is_done);
    return r;
}

static int number_in(const struct record *r, const char *member)
{
    const char *at = strstr(r->result, member);
    assert_non_null(at);
    return atoi(at + strlen(member));
}

static int pid_in(const struct record *r)
{
    return number_in(r, "\"pid\": ");
}

/* How many of the next lines cannot be handed to the loop. */
static int n_broken_writes;

int __real_uv_write(uv_write_t *request, uv_stream_t *stream, const uv_buf_t *bytes, unsigned n,
                    uv_write_cb written);
int __wrap_uv_write(uv_write_t *request, uv_stream_t *stream, const uv_buf_t *bytes, unsigned n,
                    uv_write_cb written);

int __wrap_uv_write(uv_write_t *request, uv_stream_t *stream, const uv_buf_t *bytes, unsigned n,
                    uv_write_cb written)
{
    if (n_broken_writes == 0)
        return __real_uv_write(request, stream, bytes, n, written);
    n_broken_writes--;
    return UV_EPIPE;
}

#define STREAM_TEST(test, ...) \
    TEST_OF(test, struct bench, b, open_pool(b, __VA_ARGS__), bench_release(b))

STREAM_TEST(job_goes_in_and_answer_comes_back, 1, 1)
{
    struct record *r = run_one(b, "{\"n\":\n 12345678901234567890}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_non_null(strstr(r->result, "\"job\": {\"id\": \"job-0\", \"task\": \"resize\", "
                                      "\"attempt\": 2, \"max_attempts\": 5, "
                                      "\"payload\": {\"n\": 12345678901234567890}}"));
}

TEST(one_program_serves_many_jobs)
{
    struct bench b;
    open_pool(&b, 1, 1);
    int first = pid_in(run_one(&b, NULL, 0));
    for (int i = 0; i < 20; i++)
        assert_int_equal(pid_in(run_one(&b, "{}", 0)), first);
    bench_release(&b);
    assert_false(process_lives(first));
}

STREAM_TEST(jobs_beyond_the_pool_wait_their_turn, 2, 1)
{
    struct record *records[8];
    for (int i = 0; i < 8; i++)
        records[i] = bench_start(b, "{\"do\":\"sleep\",\"s\":0.02}", 0);
    for (int i = 0; i < 8; i++) {
        bench_until(b, &records[i]->is_done);
        assert_int_equal(records[i]->class_, REDRIVE_CLASS_SUCCESS);
    }
}

STREAM_TEST(answers_may_come_in_any_order, 1, 3)
{
    struct record *records[3];
    for (int i = 0; i < 3; i++)
        records[i] = bench_start(b, "{\"do\":\"hold\",\"n\":3}", 0);
    for (int i = 0; i < 3; i++)
        bench_until(b, &records[i]->is_done);
    for (int i = 0; i < 3; i++)
        assert_int_equal(records[i]->order, 3 - i);
}

STREAM_TEST(failure_has_all_that_the_answer_says, 1, 1)
{
    struct record *r =
        run_one(b,
                "{\"do\":\"answer\",\"answer\":{\"status\":\"TRANSIENT_FAIL\",\"message\":"
                "\"h\\u00e9\",\"error_type\":\"a.B\",\"retry_after\":1.5,\"extra\":[1]}}",
                0);
    assert_int_equal(r->class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(r->message, "h\xC3\xA9");
    assert_string_equal(r->error_type, "a.B");
    assert_int_equal(r->failure.retry_after_ms, 1500);
    r = run_one(b, "{\"do\":\"answer\",\"answer\":{\"status\":\"PERMANENT_FAIL\"}}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_PERMANENT);
    r = run_one(b, "{\"do\":\"answer\",\"answer\":{\"status\":\"rate_limited\"}}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_RATE_LIMITED);
}

STREAM_TEST(status_may_be_written_in_small_letters, 1, 1)
{
    static const struct {
        const char *status;
        enum redrive_class class_;
    } rows[] = {{"Success", REDRIVE_CLASS_SUCCESS},
                {"success", REDRIVE_CLASS_SUCCESS},
                {"permanent_fail", REDRIVE_CLASS_PERMANENT},
                {"Rate_Limited", REDRIVE_CLASS_RATE_LIMITED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char payload[128];
        snprintf(payload, sizeof payload, "{\"do\":\"answer\",\"answer\":{\"status\":\"%s\"}}",
                 rows[i].status);
        assert_int_equal(run_one(b, payload, 0)->class_, rows[i].class_);
    }
}

STREAM_TEST(status_that_nobody_knows_is_named, 1, 1)
{
    struct record *r = run_one(b, "{\"do\":\"answer\",\"answer\":{\"status\":\"done\"}}", 0);
    assert_string_equal(r->error_type, "ProtocolError");
    assert_string_equal(r->message, "unknown status 'done'");
    assert_int_not_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    r = run_one(b,
                "{\"do\":\"answer\",\"answer\":{\"status\":\"oops\",\"message\":\"disk\","
                "\"error_type\":\"a.B\"}}",
                0);
    assert_string_equal(r->error_type, "a.B");
    assert_string_equal(r->message, "unknown status 'oops': disk");
}

STREAM_TEST(program_that_dies_fails_only_its_own_job, 2, 1)
{
    struct record *dies = bench_start(b, "{\"do\":\"exit\",\"code\":70}", 0);
    struct record *lives = bench_start(b, "{\"do\":\"sleep\",\"s\":0.3}", 0);
    bench_until(b, &dies->is_done);
    bench_until(b, &lives->is_done);
    assert_int_equal(dies->failure.exit_code, 70);
    assert_string_equal(dies->message, "last words");
    assert_int_equal(lives->class_, REDRIVE_CLASS_SUCCESS);
}

STREAM_TEST(signal_of_a_crash_is_kept_and_the_next_job_gets_a_new_program, 1, 1)
{
    int first = pid_in(run_one(b, NULL, 0));
    struct record *r = run_one(b, "{\"do\":\"signal\",\"name\":\"SIGKILL\"}", 0);
    assert_int_equal(r->failure.signal, SIGKILL);
    assert_int_equal(r->class_, REDRIVE_CLASS_SYSTEM);
    assert_int_not_equal(pid_in(run_one(b, NULL, 0)), first);
}

/* The first one waits in it for company when it dies of the second. */
STREAM_TEST(program_that_dies_with_several_jobs_says_that_any_may_be_to_blame, 1, 3)
{
    struct record *held = bench_start(b, "{\"do\":\"hold\",\"n\":9}", 0);
    struct record *dies = bench_start(b, "{\"do\":\"exit\",\"code\":70}", 0);
    bench_until(b, &dies->is_done);
    bench_until(b, &held->is_done);
    assert_int_equal(held->failure.exit_code, 70);
    assert_string_equal(held->message, "last words; the program had 2 jobs, and which of "
                                       "them this is about is not known");
    assert_string_equal(dies->message, held->message);
}

TEST(program_that_dies_before_its_first_answer_likely_cannot_run)
{
    struct bench b;
    open_with(&b, (struct stream_options){.argv = (const char *const[]){"false", NULL}});
    struct record *r = run_one(&b, NULL, 0);
    assert_int_equal(r->failure.exit_code, 1);
    assert_int_equal(r->fault, RUN_FAULT_LIKELY);
    bench_release(&b);
}

TEST(jobs_that_wait_for_a_program_that_never_answered_are_not_begun)
{
    struct bench b;
    open_with(&b, (struct stream_options){.argv = (const char *const[]){
                                              "sh", "-c", "echo no module >&2; exit 1", NULL}});
    struct record *first = bench_start(&b, NULL, 0);
    struct record *second = bench_start(&b, NULL, 0);
    bench_until(&b, &second->is_done);
    assert_int_equal(first->fault, RUN_FAULT_LIKELY);
    assert_int_equal(second->fault, RUN_FAULT_CERTAIN);
    assert_string_equal(second->message, "no module");
    bench_release(&b);
}

STREAM_TEST(program_that_has_answered_is_not_at_fault_when_it_dies, 1, 1)
{
    assert_int_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
    struct record *r = run_one(b, "{\"do\":\"exit\",\"code\":70}", 0);
    assert_int_equal(r->failure.exit_code, 70);
    assert_int_equal(r->fault, RUN_FAULT_NONE);
}

TEST(exit_without_an_answer_is_a_failure_even_with_code_zero)
{
    struct bench b;
    open_with(&b, (struct stream_options){.argv = (const char *const[]){"true", NULL}});
    struct record *r = run_one(&b, NULL, 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(r->message, "exited with code 0");
    bench_release(&b);
}

TEST(missing_program_fails_who_waits)
{
    struct bench b;
    open_with(&b,
              (struct stream_options){.argv = (const char *const[]){"no-such-program-here", NULL}});
    for (int i = 0; i < 2; i++) {
        struct record *r = run_one(&b, NULL, 0);
        assert_int_equal(r->failure.exit_code, 127);
        assert_int_equal(r->fault, RUN_FAULT_CERTAIN);
    }
    bench_release(&b);
}

TEST(garbage_fails_the_jobs_of_its_program)
{
    static const struct {
        const char *payload, *message;
    } rows[] = {
        {"{\"do\":\"raw\",\"text\":\"hello\\n\"}", "not an answer: "},
        {"{\"do\":\"raw\",\"text\":\"\\n\"}", "not an answer: "},
        {"{\"do\":\"raw\",\"text\":\"[]\\n\"}", "not an answer: "},
        {"{\"do\":\"raw\",\"text\":\"{\\\"id\\\":\\\"job-0\\\"}\\n\"}",
         "not an answer: an answer needs 'status'"},
        {"{\"do\":\"raw\",\"text\":\"{\\\"id\\\":\\\"z\\\",\\\"status\\\":\\\"SUCCESS\\\"}\\n\"}",
         "an answer to 'z', a job that it does not have"},
        {"{\"do\":\"flood\",\"n\":3000000}", "a line of over 2 MiB"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b;
        open_pool(&b, 1, 1);
        logged[0] = '\0';
        struct record *r = run_one(&b, rows[i].payload, 0);
        assert_string_equal(r->error_type, "ProtocolError");
        assert_memory_equal(r->message, rows[i].message, strlen(rows[i].message));
        assert_non_null(strstr(logged, "stream_protocol_error"));
        r = run_one(&b, NULL, 0);
        assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
        bench_release(&b);
    }
}

STREAM_TEST(slow_answer_times_out_and_neighbours_fail_as_system, 1, 2)
{
    run_one(b, NULL, 0);
    struct record *slow = bench_start(b, "{\"do\":\"sleep\",\"s\":20}", 150);
    struct record *neighbour = bench_start(b, NULL, 0);
    bench_until(b, &slow->is_done);
    bench_until(b, &neighbour->is_done);
    assert_string_equal(slow->message, "timed out after 150ms");
    assert_int_equal(slow->class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(neighbour->message, "its process was stopped, because job job-1 timed out");
    assert_int_equal(neighbour->class_, REDRIVE_CLASS_SYSTEM);
    assert_int_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
}

STREAM_TEST(job_can_time_out_while_it_waits, 1, 1)
{
    struct record *first = bench_start(b, "{\"do\":\"sleep\",\"s\":0.5}", 0);
    struct record *waits = bench_start(b, NULL, 50);
    struct record *cancelled = bench_start(b, NULL, 0);
    runner_cancel(cancelled->run);
    bench_until(b, &waits->is_done);
    assert_string_equal(waits->message, "timed out after 50ms");
    assert_true(cancelled->is_done);
    assert_int_equal(cancelled->ending, ENDING_CANCELLED);
    bench_until(b, &first->is_done);
    assert_int_equal(first->class_, REDRIVE_CLASS_SUCCESS);
}

STREAM_TEST(payload_that_is_not_json_is_refused, 1, 1)
{
    struct record *r = run_one(b, "{\"a\":}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_VALIDATION);
    assert_int_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
}

STREAM_TEST(result_over_the_maximum_is_dropped_whole, 1, 1)
{
    struct record *r = run_one(b, "{\"do\":\"big\",\"n\":1000000}", 0);
    assert_int_equal(r->result_len, 1000002);
    r = run_one(b, "{\"do\":\"big\",\"n\":1500000}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(r->result_len, 0);
    assert_int_equal(r->dropped_bytes, 1500002);
}

STREAM_TEST(program_that_closes_its_input_is_replaced, 1, 1)
{
    assert_int_equal(run_one(b, "{\"do\":\"deaf\"}", 0)->class_, REDRIVE_CLASS_SUCCESS);
    bench_until_rest(b);
    struct record *r = run_one(b, NULL, 0);
    assert_int_not_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
}

/* Its pipes stay open for a while: another process that it has left behind has them. */
STREAM_TEST(program_that_has_exited_gets_no_more_jobs, 1, 2)
{
    struct record *last = run_one(b, "{\"do\":\"leave\"}", 0);
    WAIT_FOR(!process_lives(pid_in(last)));
    bench_until_rest(b); /* the loop knows that it has exited */
    struct record *next = run_one(b, NULL, 0);
    assert_int_equal(next->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_not_equal(pid_in(next), pid_in(last));
    (void)kill(number_in(last, "\"left\": "), SIGKILL);
}

STREAM_TEST(job_whose_line_cannot_be_written_fails_and_the_program_is_replaced, 1, 1)
{
    assert_int_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
    n_broken_writes = 1;
    assert_int_not_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(run_one(b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
}

STREAM_TEST(stop_releases_what_runs_and_what_waits, 1, 1)
{
    struct record *runs = bench_start(b, "{\"do\":\"sleep\",\"s\":20}", 0);
    struct record *waits = bench_start(b, NULL, 0);
    runner_stop(b->runner, 100, bench_stopped, b);
    bench_until(b, &b->stopped);
    assert_int_equal(runs->ending, ENDING_RELEASED);
    assert_int_equal(waits->ending, ENDING_RELEASED);
}

TEST(idle_program_that_ignores_the_end_of_its_input_is_killed)
{
    struct bench b;
    open_with(&b, (struct stream_options){
                      .argv = (const char *const[]){
                          "sh", "-c",
                          "trap '' TERM; read x; echo '{\"id\":\"job-0\",\"status\":\"SUCCESS\"}'; "
                          "while :; do sleep 0.05; done",
                          NULL}});
    assert_int_equal(run_one(&b, NULL, 0)->class_, REDRIVE_CLASS_SUCCESS);
    bench_release(&b); /* which does not wait without end */
}

TEST_MAIN(argc, argv)
{
    if (argc != 2)
        return 2;
    snprintf(worker_path, sizeof worker_path, "%s/worker.py", argv[1]);
    return check_run(NULL, NULL);
}
