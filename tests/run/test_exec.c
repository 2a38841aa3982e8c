#include "bench.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/time/duration.h"
#include "run/exec/exec.h"

static void open_with(struct bench *b, const struct exec_options *options)
{
    bench_init(b);
    assert_int_equal(exec_runner_new(&b->loop, NULL, options, &b->runner, NULL), 0);
}

static void open_argv(struct bench *b, const char *const *argv)
{
    open_with(b, &(struct exec_options){.argv = argv, .environ = environ, .kill_grace_ms = 200});
}

#define SH(script) ((const char *const[]){"sh", "-c", (script), NULL})

/* Runs one job to its end. */
static struct record *run_one(struct bench *b, const char *const *argv, const char *payload,
                              int64_t timeout_ms)
{
    open_argv(b, argv);
    struct record *r = bench_start(b, payload, timeout_ms);
    bench_until(b, &r->is_done);
    return r;
}

TEST(payload_goes_in_and_output_comes_back)
{
    struct bench b;
    struct record *r = run_one(&b, (const char *const[]){"cat", NULL}, "{\"n\":1}", 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(r->ending, ENDING_RAN);
    assert_string_equal(r->result, "{\"n\":1}");
    bench_release(&b);
}

TEST(large_payload_passes_whole)
{
    size_t len = 900 * 1000;
    char *payload = malloc(len + 1);
    memset(payload, 'x', len);
    payload[len] = '\0';
    struct bench b;
    struct record *r = run_one(&b, (const char *const[]){"cat", NULL}, payload, 0);
    assert_int_equal(r->result_len, len);
    assert_string_equal(r->result, payload);
    bench_release(&b);
    free(payload);
}

TEST(arguments_meet_no_shell)
{
    struct bench b;
    struct record *r =
        run_one(&b, (const char *const[]){"printf", "%s", "$HOME; `id` *", NULL}, NULL, 0);
    assert_string_equal(r->result, "$HOME; `id` *");
    bench_release(&b);
}

TEST(environment_has_the_facts_and_no_secrets)
{
    setenv("REDRIVE_TEST_SECRET", "hidden", 1);
    struct bench b;
    struct record *r =
        run_one(&b,
                SH("echo $REDRIVE_JOB_ID $REDRIVE_TASK $REDRIVE_QUEUE $REDRIVE_TENANT "
                   "$REDRIVE_ATTEMPT/$REDRIVE_MAX_ATTEMPTS ${REDRIVE_TEST_SECRET-clean}"),
                NULL, 0);
    assert_string_equal(r->result, "job-0 resize default acme 2/5 clean");
    bench_release(&b);
}

TEST(input_that_nobody_reads_is_no_failure)
{
    size_t len = 4 * 1000 * 1000;
    char *payload = malloc(len + 1);
    memset(payload, 'x', len);
    payload[len] = '\0';
    struct bench b;
    open_argv(&b, SH("exec 0<&-; sleep 0.1; echo fine"));
    struct record *r = bench_start(&b, payload, 0);
    bench_until(&b, &r->is_done);
    assert_string_equal(r->result, "fine");
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    bench_release(&b);
    free(payload);
}

TEST(output_keeps_every_byte)
{
    struct bench b;
    struct record *r = run_one(&b, SH("printf 'a\\000b\\n\\377'"), NULL, 0);
    assert_int_equal(r->result_len, 5);
    assert_memory_equal(r->result, "a\0b\n\377", 5);
    bench_release(&b);
}

TEST(the_newline_that_ends_the_output_is_no_part_of_it)
{
    struct bench b;
    struct record *r = run_one(&b, SH("printf 'two\\nlines\\n\\n'"), NULL, 0);
    assert_string_equal(r->result, "two\nlines\n");
    bench_release(&b);
    r = run_one(&b, SH("echo"), NULL, 0);
    assert_int_equal(r->result_len, 0);
    bench_release(&b);
}

TEST(flood_is_drained_in_little_memory)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    struct bench b;
    struct record *r =
        run_one(&b, SH("head -c 1000000000 /dev/zero; head -c 3000000 /dev/zero >&2"), NULL, 0);
    getrusage(RUSAGE_SELF, &after);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(r->result_len, RUN_RESULT_MAX_BYTES);
    assert_int_equal(r->dropped_bytes, 1000000000 - RUN_RESULT_MAX_BYTES);
    assert_true(after.ru_maxrss - before.ru_maxrss < 32 * 1024); /* KiB */
    bench_release(&b);
}

TEST(exit_codes_and_signals_are_classified)
{
    static const struct {
        const char *script;
        int exit_code, signal;
        enum redrive_class class_;
        const char *message;
    } rows[] = {
        {"exit 0", 0, 0, REDRIVE_CLASS_SUCCESS, NULL},
        {"exit 1", 1, 0, REDRIVE_CLASS_TRANSIENT, "exited with code 1"},
        {"echo 'not now' >&2; exit 75", 75, 0, REDRIVE_CLASS_TRANSIENT, "not now"},
        {"exit 65", 65, 0, REDRIVE_CLASS_VALIDATION, "exited with code 65"},
        {"exit 77", 77, 0, REDRIVE_CLASS_AUTHENTICATION, "exited with code 77"},
        {"exit 78", 78, 0, REDRIVE_CLASS_PERMANENT, "exited with code 78"},
        {"kill -KILL $$", 0, SIGKILL, REDRIVE_CLASS_SYSTEM, "killed by SIGKILL"},
        {"kill -TERM $$", 0, SIGTERM, REDRIVE_CLASS_SYSTEM, "killed by SIGTERM"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b;
        struct record *r = run_one(&b, SH(rows[i].script), NULL, 0);
        assert_int_equal(r->failure.exit_code, rows[i].exit_code);
        assert_int_equal(r->failure.signal, rows[i].signal);
        assert_int_equal(r->class_, rows[i].class_);
        if (rows[i].message)
            assert_string_equal(r->message, rows[i].message);
        bench_release(&b);
    }
}

TEST(missing_program_is_permanent)
{
    struct bench b;
    struct record *r = run_one(&b, (const char *const[]){"no-such-program-here", NULL}, "{}", 50);
    assert_int_equal(r->failure.exit_code, 127);
    assert_int_equal(r->fault, RUN_FAULT_CERTAIN);
    assert_int_equal(r->class_, REDRIVE_CLASS_PERMANENT);
    assert_string_equal(r->message, "cannot run 'no-such-program-here': No such file or directory");
    bench_release(&b);
}

TEST(program_that_cannot_be_run_is_permanent)
{
    char path[] = "/tmp/redrive-test-XXXXXX";
    close(mkstemp(path));
    chmod(path, 0600);
    struct bench b;
    struct record *r = run_one(&b, (const char *const[]){path, NULL}, NULL, 0);
    assert_int_equal(r->failure.exit_code, 126);
    assert_int_equal(r->fault, RUN_FAULT_CERTAIN);
    assert_int_equal(r->class_, REDRIVE_CLASS_PERMANENT);
    bench_release(&b);
    unlink(path);
}

TEST(last_line_is_the_message_and_the_rest_the_stacktrace)
{
    struct bench b;
    struct record *r =
        run_one(&b, SH("echo first >&2; echo second >&2; echo >&2; exit 3"), NULL, 0);
    assert_string_equal(r->message, "second");
    assert_string_equal(r->stacktrace, "first\nsecond\n\n");
    assert_null(r->error_type);
    bench_release(&b);
}

TEST(python_exception_gives_its_type)
{
    struct bench b;
    struct record *r =
        run_one(&b, (const char *const[]){"python3", "-c", "open('/no/such/file')", NULL}, NULL, 0);
    assert_string_equal(r->error_type, "FileNotFoundError");
    assert_string_equal(r->message,
                        "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'");
    bench_release(&b);
}

/* Runs a program that writes a line to stderr and goes on, and gives it more time until the line
 * was written before the time was over: on a busy machine it may start late. */
static struct record *run_into_timeout(struct bench *b, const char *const *argv)
{
    char message[64], limit[DURATION_TEXT_MAX];
    for (int64_t timeout_ms = 200;; timeout_ms *= 5) {
        struct record *r = run_one(b, argv, NULL, timeout_ms);
        duration_format(timeout_ms, limit);
        snprintf(message, sizeof message, "timed out after %s", limit);
        assert_string_equal(r->message, message);
        if (r->stacktrace || timeout_ms > 20000)
            return r;
        bench_release(b);
    }
}

TEST(timeout_is_transient_and_says_after_how_long)
{
    struct bench b;
    struct record *r = run_into_timeout(&b, SH("echo waiting >&2; sleep 60"));
    assert_int_equal(r->class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(r->stacktrace, "waiting\n");
    bench_release(&b);
}

TEST(program_that_ignores_sigterm_is_killed)
{
    struct bench b;
    int64_t start = clock_monotonic_ms();
    /* Long enough for the shell to have set its trap. */
    struct record *r = run_one(&b, SH("trap '' TERM; while :; do sleep 0.05; done"), NULL, 1000);
    int64_t took = clock_monotonic_ms() - start;
    assert_true(took >= 1200); /* the time-out and the grace */
    assert_string_equal(r->message, "timed out after 1s");
    bench_release(&b);
}

TEST(exit_with_success_after_sigterm_is_still_a_timeout)
{
    struct bench b;
    struct record *r = run_one(&b, SH("trap 'exit 0' TERM; sleep 20 & wait"), NULL, 100);
    assert_int_equal(r->class_, REDRIVE_CLASS_TRANSIENT);
    assert_string_equal(r->error_type, "TimeoutError");
    bench_release(&b);
}

TEST(grandchildren_die_with_the_group)
{
    struct bench b;
    struct record *r = run_into_timeout(&b, SH("sleep 60 & echo $!; echo $! >&2; wait"));
    pid_t grandchild = atoi(r->stacktrace);
    assert_true(grandchild > 1);
    WAIT_FOR(!process_lives(grandchild));
    bench_release(&b);
}

TEST(what_a_program_leaves_running_is_killed_when_it_ends)
{
    struct bench b;
    struct record *r = run_one(&b, SH("sleep 60 & echo $!"), NULL, 0);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    WAIT_FOR(!process_lives(atoi(r->result)));
    bench_release(&b);
}

TEST(pipes_held_by_one_who_left_the_group_are_given_up)
{
    struct bench b;
    int64_t start = clock_monotonic_ms();
    /* The program ends when the one that has left its group has said so. */
    struct record *r = run_one(&b,
                               SH("d=$(mktemp -d); mkfifo $d/left;"
                                  "setsid sh -c 'echo $$; echo > '$d'/left; exec sleep 60' &"
                                  "read x < $d/left; rm -r $d"),
                               NULL, 0);
    int64_t took = clock_monotonic_ms() - start;
    pid_t runaway = atoi(r->result);
    assert_true(runaway > 1);
    kill(runaway, SIGKILL);
    assert_true(took >= 1000);
    assert_int_equal(r->class_, REDRIVE_CLASS_SUCCESS);
    bench_release(&b);
}

TEST(program_whose_script_or_module_is_missing_likely_cannot_run)
{
    static const struct {
        const char *const argv[4];
        enum run_fault fault;
    } rows[] = {
        {{"/usr/bin/env", "no-such-interpreter-here"}, RUN_FAULT_LIKELY},
        {{"sh", "/no/such/script.sh"}, RUN_FAULT_LIKELY},
        {{"python3", "/no/such/script.py"}, RUN_FAULT_LIKELY},
        {{"python3", "-c", "import no_such_module_here"}, RUN_FAULT_LIKELY},
        {{"python3", "-c", "raise ValueError('of the job')"}, RUN_FAULT_NONE},
        {{"sh", "-c", "no-such-program-here"}, RUN_FAULT_LIKELY},
        {{"sh", "-c", "exit 127"}, RUN_FAULT_NONE},
        {{"sh", "-c", "echo \"can't open file input.csv\" >&2; exit 2"}, RUN_FAULT_NONE},
        {{"sh", "-c", "exit 75"}, RUN_FAULT_NONE},
        {{"true"}, RUN_FAULT_NONE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct bench b;
        struct record *r = run_one(&b, rows[i].argv, NULL, 0);
        assert_int_equal(r->fault, rows[i].fault);
        bench_release(&b);
    }
}

#define EXEC_TEST(test, ...) \
    TEST_OF(test, struct bench, b, open_argv(b, __VA_ARGS__), bench_release(b))

EXEC_TEST(cancelled_run_says_so, SH("sleep 30"))
{
    struct record *r = bench_start(b, NULL, 0);
    bench_until_rest(b);
    runner_cancel(r->run);
    bench_until(b, &r->is_done);
    assert_int_equal(r->ending, ENDING_CANCELLED);
}

EXEC_TEST(program_that_cannot_start_can_be_cancelled,
          (const char *const[]){"no-such-program-here", NULL})
{
    struct record *r = bench_start(b, NULL, 0);
    runner_cancel(r->run);
    bench_until(b, &r->is_done);
    assert_int_equal(r->ending, ENDING_CANCELLED);
}

EXEC_TEST(stop_waits_for_the_quick_and_releases_the_slow, SH("read t; sleep $t"))
{
    struct record *quick = bench_start(b, "0.1\n", 0);
    struct record *slow = bench_start(b, "60\n", 0);
    runner_stop(b->runner, 60000, bench_stopped, b);
    struct run_request late = {.job_id = "late"};
    assert_int_equal(runner_start(b->runner, &late, bench_done, NULL, NULL, NULL),
                     REDRIVE_E_STOPPING);
    bench_until(b, &quick->is_done);
    assert_false(slow->is_done);
    runner_stop(b->runner, 100, NULL, NULL);
    bench_until(b, &b->stopped);
    assert_int_equal(quick->ending, ENDING_RAN);
    assert_int_equal(quick->class_, REDRIVE_CLASS_SUCCESS);
    assert_int_equal(slow->ending, ENDING_RELEASED);
}

EXEC_TEST(second_stop_shortens_the_grace, SH("sleep 60"))
{
    struct record *r = bench_start(b, NULL, 0);
    runner_stop(b->runner, 60000, bench_stopped, b);
    runner_stop(b->runner, 0, NULL, NULL);
    bench_until(b, &b->stopped);
    assert_int_equal(r->ending, ENDING_RELEASED);
}

EXEC_TEST(no_descriptor_of_ours_reaches_the_program, SH("read x; ls /proc/self/fd | wc -l"))
{
    /* With several at a time each could inherit the pipes of the others. */
    struct record *first = bench_start(b, "\n", 0);
    struct record *second = bench_start(b, "\n", 0);
    bench_until(b, &first->is_done);
    bench_until(b, &second->is_done);
    assert_int_equal(atoi(first->result), 4); /* its three and the directory */
    assert_int_equal(atoi(second->result), 4);
}

static int count_fds(void)
{
    int n = 0;
    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

EXEC_TEST(nothing_is_left_open_after_many_runs, SH("exit 1"))
{
    struct record *r = bench_start(b, NULL, 0);
    bench_until(b, &r->is_done);
    bench_until_rest(b);
    int before = count_fds();
    for (int i = 0; i < 40; i++) {
        r = bench_start(b, "x", 0);
        bench_until(b, &r->is_done);
    }
    WAIT_RUNNING(count_fds() == before, uv_run(&b->loop, UV_RUN_NOWAIT));
}

TEST(signals_are_at_their_defaults_in_the_program)
{
    struct bench b;
    struct record *r = run_one(&b, SH("grep -E 'Sig(Blk|Ign)' /proc/self/status"), NULL, 0);
    unsigned long long blocked, ignored;
    assert_int_equal(sscanf(r->result, "SigBlk: %llx SigIgn: %llx", &blocked, &ignored), 2);
    assert_int_equal(blocked, 0);
    /* 32 and 33 are libc's own: if we were started with them ignored, so is the program. */
    assert_int_equal(ignored & ~(UINT64_C(3) << 31), 0);
    bench_release(&b);
}

TEST(end_is_known_even_if_we_were_started_with_sigchld_ignored)
{
    signal(SIGCHLD, SIG_IGN);
    struct bench b;
    struct record *r = run_one(&b, SH("exit 65"), NULL, 0);
    assert_int_equal(r->failure.exit_code, 65);
    bench_release(&b);
}

TEST(program_that_ended_in_time_is_not_timed_out_by_its_pipes)
{
    enum redrive_class class = REDRIVE_CLASS_TRANSIENT;
    /* On a busy machine it may not have ended in time. */
    for (int i = 0; i < 20 && class == REDRIVE_CLASS_TRANSIENT; i++) {
        struct bench b;
        struct record *r =
            run_one(&b, SH("setsid sh -c 'echo $$; exec sleep 30' & sleep 0.2"), NULL, 600);
        const pid_t runaway = r->result ? atoi(r->result) : 0;
        if (runaway > 1) /* it may not have started in time; 0 would be ourselves */
            kill(runaway, SIGKILL);
        class = r->class_;
        bench_release(&b);
    }
    assert_int_equal(class, REDRIVE_CLASS_SUCCESS);
}

struct chain {
    struct bench *bench;
    int left;
};

static void start_next(const struct run_outcome *outcome, void *ctx)
{
    struct chain *chain = ctx;
    static const struct run_request request = {.job_id = "chained"};
    assert_int_equal(outcome->outcome.ending, ENDING_RAN);
    if (--chain->left > 0) {
        assert_int_equal(
            runner_start(chain->bench->runner, &request, start_next, chain, NULL, NULL), 0);
        return;
    }
    runner_stop(chain->bench->runner, 0, bench_stopped, chain->bench);
}

EXEC_TEST(callback_may_start_the_next_job_and_stop, SH("exit 0"))
{
    struct chain chain = {.bench = b, .left = 5};
    static const struct run_request request = {.job_id = "first"};
    assert_int_equal(runner_start(b->runner, &request, start_next, &chain, NULL, NULL), 0);
    bench_until(b, &b->stopped);
    assert_int_equal(chain.left, 0);
}

TEST(no_program_is_refused)
{
    struct runner *runner;
    struct exec_options none = {.argv = (const char *const[]){NULL}};
    assert_int_equal(exec_runner_new(NULL, NULL, &none, &runner, NULL), REDRIVE_E_INVALID);
}
