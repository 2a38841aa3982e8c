/* test_queue_ahead.c - jobs that a queue claims before a thread is free for them. */
#include "queue_for_test.h"

#include <sqlite3.h>

#define QUICK 60 /* runs after which it is known that they are short */
#define JOBS  100

struct load {
    atomic_int n;       /* runs so far */
    atomic_int running; /* jobs that the store has as running, from the one that runs on */
    atomic_bool is_open;
    atomic_bool is_locked;
    pthread_t locker;
    pthread_t worker; /* the thread that called work */
    pid_t work, slot; /* the same, and the one of the function */
    atomic_int runs[JOBS];
    int fail_from;
    int last;
    char *path; /* of the store */
};

static void submit_with(struct redrive_queue *q, const char *retry)
{
    static char ids[JOBS][16];
    struct redrive_job_spec jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "%d", i);
        jobs[i] = (struct redrive_job_spec){.task = "t", .id = ids[i], .retry = retry};
    }
    assert_int_equal(redrive_queue_submit(q, jobs, JOBS, 0, NULL, NULL), 0);
}

static void submit_numbered(struct redrive_queue *q)
{
    submit_with(q, NULL);
}

static int count_in(struct redrive_queue *q, enum redrive_state state)
{
    int n = 0;
    char id[16];
    for (int i = 0; i < JOBS; i++) {
        snprintf(id, sizeof id, "%d", i);
        n += state_of(q, id) == state;
    }
    return n;
}

static void handle(struct redrive_queue *q, redrive_task_fn fn, struct load *load, bool no_ahead)
{
    const struct redrive_handle_options options = {.concurrency = 1, .no_claim_ahead = no_ahead};
    assert_int_equal(redrive_queue_handle(q, "t", fn, load, &options, NULL), 0);
}

/* Jobs that follow in line and are running have been claimed before their time. */
static int run_and_look(struct redrive_task_run *run, void *arg)
{
    struct load *load = arg;
    struct redrive_queue *q = redrive_task_run_owner(run);
    const int number = atoi(redrive_task_run_id(run));
    int next = number + 1;
    for (char id[16]; next < JOBS; next++) {
        snprintf(id, sizeof id, "%d", next);
        if (state_of(q, id) != REDRIVE_STATE_RUNNING)
            break;
    }
    if (next - number > atomic_load(&load->running))
        atomic_store(&load->running, next - number);
    return 0;
}

/* How many jobs are held at once, at the most: the one that runs and those that wait for it. */
static int held_at_once(bool no_ahead, const char *retry)
{
    struct load load = {0};
    struct test_queue *tq = tq_new("sqlite:");
    tq->queue = tq_open(tq);
    submit_with(tq->queue, retry);
    handle(tq->queue, run_and_look, &load, no_ahead);
    work_until_idle(tq->queue);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_COMPLETED), JOBS);
    tq_free(tq);
    return atomic_load(&load.running);
}

/* On a busy machine a run may be interrupted for long, and then none is claimed ahead for a while.
 */
TEST(short_jobs_are_claimed_ahead)
{
    int most = 0;
    for (int i = 0; i < 10 && most < 2; i++)
        most = held_at_once(false, NULL);
    assert_in_range(most, 2, 5);
}

TEST(none_are_if_that_is_not_wanted)
{
    assert_int_equal(held_at_once(true, NULL), 1);
}

/* Which the task knows nothing of. */
TEST(none_are_if_a_job_has_a_single_attempt_of_its_own)
{
    for (int i = 0; i < 3; i++)
        assert_int_equal(held_at_once(false, "{\"max_attempts\":1}"), 1);
}

static int get_stuck(struct redrive_task_run *run, void *arg)
{
    struct load *load = arg;
    (void)run;
    if (atomic_fetch_add(&load->n, 1) >= QUICK)
        HOLD_UNTIL(atomic_load(&load->is_open));
    return 0;
}

FILE_TEST(jobs_that_wait_behind_a_long_one_are_given_back)
{
    struct load load = {0};
    struct worker worker;
    submit_numbered(tq->queue);
    handle(tq->queue, get_stuck, &load, false);
    worker_start(&worker, tq->queue);
    WAIT_FOR(load.n >= QUICK + 1);
    WAIT_FOR(count_in(tq->queue, REDRIVE_STATE_RUNNING) == 1);
    atomic_store(&load.is_open, true);
    WAIT_FOR(load.n >= JOBS);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_COMPLETED), JOBS);
    assert_int_equal(atomic_load(&load.n), JOBS);
}

FILE_TEST(a_stop_gives_back_what_has_not_started)
{
    struct load load = {0};
    struct worker worker;
    submit_numbered(tq->queue);
    handle(tq->queue, get_stuck, &load, false);
    worker_start(&worker, tq->queue);
    WAIT_FOR(load.n >= QUICK + 1);
    redrive_queue_stop(tq->queue, LONG_MS);
    atomic_store(&load.is_open, true);
    worker_join(&worker);
    assert_int_equal(atomic_load(&load.n), QUICK + 1);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_COMPLETED), QUICK + 1);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_QUEUED), JOBS - QUICK - 1);
}

static atomic_bool is_held_up;
static atomic_bool is_stopped;
static int held_up[2]; /* a pipe: a byte lets it go */

/* The thread that called work sees nothing. */
static void hold_up(int signo)
{
    char byte;
    (void)signo;
    atomic_store(&is_held_up, true);
    (void)!read(held_up[0], &byte, 1);
}

/* When the thread of the function has gone as far as it can. */
static void *let_go(void *arg)
{
    WAIT_FOR(atomic_load(&is_stopped));
    WAIT_FOR_REST();
    assert_int_equal(write(held_up[1], "", 1), 1);
    return arg;
}

static int stop_and_return(struct redrive_task_run *run, void *arg)
{
    struct load *load = arg;
    if (atomic_fetch_add(&load->n, 1) != QUICK)
        return 0;
    assert_int_equal(pthread_kill(load->worker, SIGUSR1), 0);
    WAIT_FOR(atomic_load(&is_held_up));
    redrive_queue_stop(redrive_task_run_owner(run), LONG_MS);
    atomic_store(&is_stopped, true);
    return 0;
}

/* Also when its thread goes on before the one that called work has seen the stop. */
FILE_TEST(a_function_that_stops_the_queue_is_the_last_to_run)
{
    const struct sigaction action = {.sa_handler = hold_up};
    struct load load = {.worker = pthread_self()};
    struct redrive_err err = {0};
    pthread_t thread;
    assert_int_equal(pipe(held_up), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
    submit_numbered(tq->queue);
    handle(tq->queue, stop_and_return, &load, false);
    assert_int_equal(redrive_queue_work(tq->queue, 0, &err), 0);
    pthread_join(thread, NULL);
    close(held_up[0]);
    close(held_up[1]);
    assert_int_equal(atomic_load(&load.n), QUICK + 1);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_COMPLETED), QUICK + 1);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_QUEUED), JOBS - QUICK - 1);
}

/* ---- SQLite, which tells when it waits for a lock -------------------------------------------- */

static int (*sleep_of_sqlite)(sqlite3_vfs *, int);
static atomic_int n_lock_waits;

static int tell_and_sleep(sqlite3_vfs *vfs, int microseconds)
{
    atomic_fetch_add(&n_lock_waits, 1);
    return sleep_of_sqlite(vfs, microseconds);
}

/* Keeps the store locked until the run has ended and its thread waits, or has ended too. */
static void *lock_store(void *arg)
{
    struct load *load = arg;
    sqlite3 *db;
    assert_int_equal(sqlite3_open(load->path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, LONG_MS);
    sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    atomic_store(&load->is_locked, true);
    WAIT_FOR(atomic_load(&load->is_open));
    WAIT_FOR(thread_rests(load->slot));
    sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(db);
    return NULL;
}

static int stop_meanwhile(struct redrive_task_run *run, void *arg)
{
    struct load *load = arg;
    struct redrive_queue *q = redrive_task_run_owner(run);
    if (atomic_fetch_add(&load->n, 1) != QUICK)
        return 0;
    load->last = atoi(redrive_task_run_id(run));
    assert_int_equal(pthread_create(&load->locker, NULL, lock_store, load), 0);
    WAIT_FOR(atomic_load(&load->is_locked));
    const int before = atomic_load(&n_lock_waits);
    redrive_queue_stop(q, LONG_MS);
    WAIT_FOR(atomic_load(&n_lock_waits) > before);
    WAIT_FOR(thread_rests(load->work)); /* it is behind that */
    load->slot = gettid();
    atomic_store(&load->is_open, true);
    return 0;
}

/* The thread that called work settles for the only slot, and waits for the store, when that slot
 * leaves. */
FILE_TEST(a_run_that_ends_while_others_are_given_back_is_settled)
{
    struct load load = {0};
    struct redrive_err err = {0};
    char id[16];
    load.path = tq->store + strlen("sqlite:");
    load.work = gettid();
    submit_numbered(tq->queue);
    handle(tq->queue, stop_meanwhile, &load, false);
    assert_int_equal(redrive_queue_work(tq->queue, 0, &err), 0);
    pthread_join(load.locker, NULL);
    snprintf(id, sizeof id, "%d", load.last);
    assert_int_equal(state_of(tq->queue, id), REDRIVE_STATE_COMPLETED);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_RUNNING), 0);
}

static int fail_from(struct redrive_task_run *run, void *arg)
{
    struct load *load = arg;
    const int number = atoi(redrive_task_run_id(run));
    atomic_fetch_add(&load->runs[number], 1);
    atomic_fetch_add(&load->n, 1);
    return number >= load->fail_from ? -ECONNREFUSED : 0;
}

/* Those that are given back run as often as the others. */
FILE_TEST(being_given_back_costs_no_attempt)
{
    struct load load = {.fail_from = QUICK};
    struct worker worker;
    submit_numbered(tq->queue);
    handle(tq->queue, fail_from, &load, false);
    worker_start(&worker, tq->queue);
    WAIT_FOR(load.n >= QUICK + 3 * (JOBS - QUICK));
    for (int i = QUICK; i < JOBS; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        WAIT_FOR_STATE(tq->queue, id, REDRIVE_STATE_DEAD_LETTER);
    }
    worker_stop(&worker, LONG_MS);
    for (int i = 0; i < JOBS; i++)
        assert_int_equal(atomic_load(&load.runs[i]), i < QUICK ? 1 : 3);
}

static int setup_with_breaker(void **state)
{
    struct test_queue *tq = tq_new("sqlite:");
    write_file(tq->config,
               "defaults:\n"
               "  retry: {strategy: immediate, max_attempts: 3}\n"
               "  breaker: {failure_threshold: 3, failure_rate: 0, recovery_timeout: 1h}\n");
    tq->queue = tq_open(tq);
    *state = tq;
    return 0;
}

#define QUEUE_TEST(test) TEST_WITH(test, setup_with_breaker, tq_teardown, struct test_queue *tq)

/* Each failure is settled before the next job starts, so the third is the last. */
QUEUE_TEST(none_starts_after_the_failure_that_opens_the_breaker)
{
    struct load load = {.fail_from = QUICK};
    submit_numbered(tq->queue);
    handle(tq->queue, fail_from, &load, false);
    work_until_idle(tq->queue);
    assert_int_equal(atomic_load(&load.n), QUICK + 3);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_COMPLETED), QUICK);
    assert_int_equal(count_in(tq->queue, REDRIVE_STATE_PARKED) +
                         count_in(tq->queue, REDRIVE_STATE_RETRYING) +
                         count_in(tq->queue, REDRIVE_STATE_QUEUED),
                     JOBS - QUICK);
}

TEST_MAIN(argc, argv)
{
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    sleep_of_sqlite = vfs->xSleep;
    vfs->xSleep = tell_and_sleep;
    return check_run(NULL, NULL);
}
