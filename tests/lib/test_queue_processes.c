/* Several processes on one file: they share the work, and what one leaves behind another takes up.
 *
 * This program is its own helper: called with a role it works, cancels or hangs as the tests ask,
 * in a process that shares nothing with them but the store and a log that it appends to. */
#include "queue_for_test.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>

/* ---- The helper ------------------------------------------------------------------------------ */

static int log_fd;
static struct redrive_queue *worked;

static void note(const char *id)
{
    char line[REDRIVE_ID_MAX + 2];
    int n = snprintf(line, sizeof line, "%s\n", id);
    if (write(log_fd, line, (size_t)n) != n)
        abort();
}

static int note_run(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    note(redrive_task_run_id(run));
    return 0;
}

static int note_and_hang(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    note(redrive_task_run_id(run));
    for (;;)
        (void)pause();
    return 0;
}

static int note_and_end_when_told(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    note(redrive_task_run_id(run));
    WAIT_FOR(redrive_task_run_cancelled(run));
    return -EINTR;
}

static void on_term(int number)
{
    (void)number;
    redrive_queue_stop(worked, 50);
}

/* ROLE CONFIG STORE LOG */
static int helper(char **argv)
{
    const char *role = argv[1];
    const struct redrive_queue_options options = {.config = argv[2], .store = argv[3]};
    const struct redrive_handle_options places = {.concurrency = 3};
    const bool shares = strcmp(role, "share") == 0;
    redrive_task_fn fn = shares                      ? note_run
                         : strcmp(role, "hang") == 0 ? note_and_hang
                                                     : note_and_end_when_told;
    log_fd = open(argv[4], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd < 0 || redrive_queue_open(&options, &worked, NULL) < 0)
        return 1;
    int rc;
    if (strcmp(role, "cancel") == 0) {
        rc = redrive_queue_cancel(worked, "a", NULL);
    } else {
        signal(SIGTERM, on_term);
        rc = redrive_queue_handle(worked, shares ? "t" : "long", fn, NULL, &places, NULL);
        if (rc == 0)
            rc = redrive_queue_work(worked, shares ? REDRIVE_WORK_UNTIL_IDLE : 0, NULL);
    }
    redrive_queue_close(worked);
    close(log_fd);
    return rc < 0;
}

/* ---- The tests ------------------------------------------------------------------------------- */

static int setup(void **state)
{
    *state = tq_new("sqlite:");
    return 0;
}

static int teardown(void **state)
{
    tq_free(*state);
    return 0;
}

static const char *log_path(const struct test_queue *tq)
{
    static char path[300];
    snprintf(path, sizeof path, "%s/log", tq->dir);
    return path;
}

static pid_t start(const struct test_queue *tq, const char *role)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "helper", "queue_processes", role, tq->config, tq->store,
              log_path(tq), (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* The status of a process that ends; one that does not is killed, and the test fails. */
static int end_of(pid_t pid)
{
    int status;
    pid_t ended;
    WAIT_TELLING((ended = waitpid(pid, &status, WNOHANG)) != 0, pass_ms(1), kill(pid, SIGKILL));
    assert_int_equal(ended, pid);
    return status;
}

/* How often a line is in the log; NULL: how many there are. */
static int count_lines(const struct test_queue *tq, const char *line)
{
    char text[REDRIVE_ID_MAX + 2];
    int n = 0;
    FILE *f = fopen(log_path(tq), "r");
    while (f && fgets(text, sizeof text, f)) {
        text[strcspn(text, "\n")] = '\0';
        n += !line || strcmp(text, line) == 0;
    }
    if (f)
        fclose(f);
    return n;
}

static int count_and_end(struct redrive_task_run *run, void *arg)
{
    (void)run;
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

#define SHARED_JOBS 300

#define QUEUE_TEST(test) TEST_WITH(test, setup, teardown, struct test_queue *tq)

QUEUE_TEST(two_processes_share_a_file_and_run_each_job_once)
{
    char ids[SHARED_JOBS][16];
    struct redrive_job_spec jobs[SHARED_JOBS];
    tq->queue = tq_open(tq);
    for (int i = 0; i < SHARED_JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%d", i);
        jobs[i] = (struct redrive_job_spec){.task = "t", .id = ids[i]};
    }
    assert_int_equal(redrive_queue_submit(tq->queue, jobs, SHARED_JOBS, 0, NULL, NULL), 0);
    pid_t one = start(tq, "share"), two = start(tq, "share");
    assert_int_equal(end_of(one), 0);
    assert_int_equal(end_of(two), 0);
    assert_int_equal(count_lines(tq, NULL), SHARED_JOBS);
    for (int i = 0; i < SHARED_JOBS; i++) {
        assert_int_equal(count_lines(tq, ids[i]), 1);
        assert_int_equal(state_of(tq->queue, ids[i]), REDRIVE_STATE_COMPLETED);
    }
}

QUEUE_TEST(jobs_of_a_killed_process_are_taken_back_and_run_again)
{
    atomic_int n = 0;
    struct worker worker;
    struct redrive_job_status job;
    tq->queue = tq_open(tq);
    submit(tq->queue, "long", "a");
    pid_t pid = start(tq, "hang");
    WAIT_FOR(count_lines(tq, "a") > 0);
    kill(pid, SIGKILL);
    end_of(pid);
    assert_int_equal(redrive_queue_handle(tq->queue, "long", count_and_end, &n, NULL, NULL), 0);
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 1);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(job.attempts, 2);
    redrive_queue_job_release(&job);
}

static int wait_to_be_told(struct redrive_task_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    WAIT_FOR(redrive_task_run_cancelled(run));
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

QUEUE_TEST(a_run_is_told_that_another_process_has_cancelled_it)
{
    atomic_int n = 0;
    struct worker worker;
    tq->queue = tq_open(tq);
    submit(tq->queue, "long", "a");
    assert_int_equal(redrive_queue_handle(tq->queue, "long", wait_to_be_told, &n, NULL, NULL), 0);
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 1);
    assert_int_equal(end_of(start(tq, "cancel")), 0);
    WAIT_FOR(n >= 2);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_CANCELLED);
}

QUEUE_TEST(a_process_that_is_asked_to_end_gives_its_jobs_back)
{
    struct redrive_job_status job;
    tq->queue = tq_open(tq);
    submit(tq->queue, "long", "a");
    pid_t pid = start(tq, "yield");
    WAIT_FOR(count_lines(tq, "a") > 0);
    kill(pid, SIGTERM);
    assert_int_equal(end_of(pid), 0);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.attempts, 0);
    redrive_queue_job_release(&job);
}

/* Suspends a process, unless it is in the midst of a transaction, for which all would wait. */
static bool suspend(const struct test_queue *tq, pid_t pid)
{
    sqlite3 *db;
    kill(pid, SIGSTOP);
    assert_int_equal(sqlite3_open(tq->store + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 1000);
    const bool is_free = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(db);
    if (!is_free)
        kill(pid, SIGCONT);
    return is_free;
}

/* A process that was suspended for longer than its leases has lost them: its word does not count.
 */
QUEUE_TEST(a_suspended_process_loses_its_jobs)
{
    atomic_int n = 0;
    struct worker worker;
    tq->queue = tq_open(tq);
    submit(tq->queue, "long", "a");
    pid_t pid = start(tq, "yield");
    WAIT_FOR(count_lines(tq, "a") > 0);
    WAIT_FOR(suspend(tq, pid));
    assert_int_equal(redrive_queue_handle(tq->queue, "long", count_and_end, &n, NULL, NULL), 0);
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 1);
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_COMPLETED);
    kill(pid, SIGCONT);
    kill(pid, SIGTERM);
    assert_int_equal(end_of(pid), 0);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_COMPLETED);
}

TEST_MAIN(argc, argv)
{
    return argc == 5 ? helper(argv) : check_run(NULL, NULL);
}
