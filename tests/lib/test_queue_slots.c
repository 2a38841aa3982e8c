/* How many functions run at a time, for how long they hold their jobs, and how their work ends;
 * each fact in memory and in a file. */
#include "queue_for_test.h"

/* ---- Slots ----------------------------------------------------------------------------------- */

struct crowd {
    atomic_int now;
    atomic_int most;
    atomic_int all;
    int awaited; /* none leaves before so many have been there at one time */
};

static int join_crowd(struct redrive_task_run *run, void *arg)
{
    struct crowd *crowd = arg;
    int now = atomic_fetch_add(&crowd->now, 1) + 1;
    int most = atomic_load(&crowd->most);
    (void)run;
    while (now > most && !atomic_compare_exchange_weak(&crowd->most, &most, now))
        ;
    WAIT_FOR(crowd->most >= crowd->awaited);
    pass_ms(1);
    atomic_fetch_sub(&crowd->now, 1);
    atomic_fetch_add(&crowd->all, 1);
    return 0;
}

static void submit_many(struct redrive_queue *q, const char *task, size_t n)
{
    struct redrive_job_spec *jobs = calloc(n, sizeof *jobs);
    for (size_t i = 0; i < n; i++)
        jobs[i].task = task;
    assert_int_equal(redrive_queue_submit(q, jobs, n, 0, NULL, NULL), 0);
    free(jobs);
}

BOTH_TEST(all_places_are_used_and_no_more)
{
    struct crowd crowd = {.awaited = 3};
    submit_many(tq->queue, "t", 20);
    tq_handle(tq->queue, "t", join_crowd, &crowd, 3);
    work_until_idle(tq->queue);
    assert_int_equal(atomic_load(&crowd.all), 20);
    assert_int_equal(atomic_load(&crowd.most), 3);
}

BOTH_TEST(each_task_has_places_of_its_own)
{
    struct crowd crowd = {.awaited = 2};
    submit_many(tq->queue, "t", 3);
    submit_many(tq->queue, "u", 3);
    tq_handle(tq->queue, "t", join_crowd, &crowd, 1);
    tq_handle(tq->queue, "u", join_crowd, &crowd, 1);
    work_until_idle(tq->queue);
    assert_int_equal(atomic_load(&crowd.all), 6);
    assert_int_equal(atomic_load(&crowd.most), 2);
}

BOTH_TEST(limits_of_the_configuration_hold)
{
    struct crowd crowd = {.awaited = 1};
    struct worker worker;
    submit_many(tq->queue, "alone", 8);
    tq_handle(tq->queue, "alone", join_crowd, &crowd, 4);
    worker_start(&worker, tq->queue);
    WAIT_FOR(crowd.all >= 8);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&crowd.most), 1);
}

BOTH_TEST(sleeping_places_wake_for_new_jobs)
{
    atomic_int n = 0;
    struct worker worker;
    tq_handle(tq->queue, "t", succeed, &n, 2);
    worker_start(&worker, tq->queue);
    submit(tq->queue, "t", "a");
    WAIT_FOR_STATE(tq->queue, "a", REDRIVE_STATE_COMPLETED);
    const struct redrive_job_spec later = {.task = "t", .id = "b", .delay_ms = 100};
    struct redrive_submitted answer;
    assert_int_equal(redrive_queue_submit(tq->queue, &later, 1, 0, &answer, NULL), 0);
    assert_int_equal(answer.state, REDRIVE_STATE_SCHEDULED);
    WAIT_FOR_STATE(tq->queue, "b", REDRIVE_STATE_COMPLETED);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&n), 2);
}

static int split(struct redrive_task_run *run, void *arg)
{
    (void)arg;
    submit(redrive_task_run_owner(run), "part", "part-1");
    submit(redrive_task_run_owner(run), "part", "part-2");
    return 0;
}

BOTH_TEST(a_function_may_submit)
{
    atomic_int n = 0;
    submit(tq->queue, "whole", "a");
    tq_handle(tq->queue, "part", succeed, &n, 1);
    tq_handle(tq->queue, "whole", split, NULL, 1);
    work_until_idle(tq->queue);
    assert_int_equal(atomic_load(&n), 2);
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static int take_long(struct redrive_task_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    pass_ms(9500);
    assert_false(redrive_task_run_cancelled(run));
    return 0;
}

BOTH_TEST(heartbeats_keep_a_run_that_outlasts_its_lease)
{
    atomic_int n = 0;
    struct redrive_job_status job;
    submit(tq->queue, "longer", "a");
    tq_handle(tq->queue, "longer", take_long, &n, 2);
    work_until_idle(tq->queue);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(job.attempts, 1);
    assert_int_equal(atomic_load(&n), 1);
    redrive_queue_job_release(&job);
}

static int wait_to_be_told(struct redrive_task_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    WAIT_FOR(redrive_task_run_cancelled(run));
    redrive_task_run_result(run, "late", 4);
    return 0;
}

BOTH_TEST(a_cancelled_run_is_told_and_its_word_does_not_count)
{
    atomic_int n = 0;
    struct worker worker;
    struct redrive_job_status job;
    submit(tq->queue, "long", "a");
    tq_handle(tq->queue, "long", wait_to_be_told, &n, 1);
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 1);
    assert_int_equal(redrive_queue_cancel(tq->queue, "a", NULL), 0);
    assert_int_equal(redrive_queue_cancel(tq->queue, "a", NULL), REDRIVE_E_STATE);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_CANCELLED);
    assert_null(job.result);
    redrive_queue_job_release(&job);
}

static int notice(struct redrive_task_run *run, void *arg)
{
    struct redrive_queue *q = redrive_task_run_owner(run);
    (void)arg;
    assert_int_equal(redrive_task_run_extend(run, 60000, NULL), 0);
    assert_int_equal(redrive_queue_cancel(q, redrive_task_run_id(run), NULL), 0);
    assert_int_equal(redrive_task_run_extend(run, 0, NULL), REDRIVE_E_STATE);
    assert_true(redrive_task_run_cancelled(run));
    return 0;
}

BOTH_TEST(extending_tells_whether_the_lease_is_still_held)
{
    submit(tq->queue, "t", "a");
    tq_handle(tq->queue, "t", notice, NULL, 1);
    work_until_idle(tq->queue);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_CANCELLED);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

struct gate {
    atomic_int arrived;
    atomic_bool is_open;
};

static int wait_at_gate(struct redrive_task_run *run, void *arg)
{
    struct gate *gate = arg;
    (void)run;
    atomic_fetch_add(&gate->arrived, 1);
    HOLD_UNTIL(atomic_load(&gate->is_open));
    return 0;
}

BOTH_TEST(a_stop_lets_what_runs_end_and_takes_no_more)
{
    struct gate gate = {0};
    struct worker worker;
    struct redrive_job_status job;
    tq_handle(tq->queue, "t", wait_at_gate, &gate, 1);
    submit(tq->queue, "t", "a");
    submit(tq->queue, "t", "b");
    worker_start(&worker, tq->queue);
    WAIT_FOR(gate.arrived >= 1);
    redrive_queue_stop(tq->queue, LONG_MS);
    /* It goes on being usable while it drains. */
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_RUNNING);
    atomic_store(&gate.is_open, true);
    worker_join(&worker);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(redrive_queue_job(tq->queue, "b", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.attempts, 0);
    redrive_queue_job_release(&job);
}

static int leave_when_told(struct redrive_task_run *run, void *arg)
{
    wait_to_be_told(run, arg);
    return strcmp(redrive_task_run_id(run), "done") == 0 ? 0 : -EINTR;
}

BOTH_TEST(after_the_grace_runs_are_told_and_released)
{
    atomic_int n = 0;
    struct worker worker;
    struct redrive_job_status job;
    tq_handle(tq->queue, "t", leave_when_told, &n, 2);
    submit(tq->queue, "t", "done");
    submit(tq->queue, "t", "half");
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 2);
    redrive_queue_stop(tq->queue, LONG_MS);
    worker_stop(&worker, 0); /* the second hurries */
    assert_int_equal(state_of(tq->queue, "done"), REDRIVE_STATE_COMPLETED);
    assert_int_equal(redrive_queue_job(tq->queue, "half", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_QUEUED);
    assert_int_equal(job.attempts, 0);
    redrive_queue_job_release(&job);
}

static struct redrive_queue *signalled;

static void on_signal(int number)
{
    (void)number;
    redrive_queue_stop(signalled, LONG_MS);
}

BOTH_TEST(a_signal_handler_may_stop)
{
    atomic_int n = 0;
    struct worker worker;
    signalled = tq->queue;
    assert_true(signal(SIGUSR1, on_signal) != SIG_ERR);
    tq_handle(tq->queue, "t", succeed, &n, 2);
    submit(tq->queue, "t", "a");
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 1);
    errno = EDOM;
    assert_int_equal(raise(SIGUSR1), 0);
    assert_int_equal(errno, EDOM);
    worker_join(&worker);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_COMPLETED);
}

BOTH_TEST(a_stop_before_work_ends_it_at_once)
{
    atomic_int n = 0;
    tq_handle(tq->queue, "t", succeed, &n, 3);
    submit(tq->queue, "t", "a");
    redrive_queue_stop(tq->queue, LONG_MS);
    assert_int_equal(redrive_queue_work(tq->queue, 0, NULL), 0);
    assert_int_equal(atomic_load(&n), 0);
    assert_int_equal(state_of(tq->queue, "a"), REDRIVE_STATE_QUEUED);
}

/* ---- Many at once ---------------------------------------------------------------------------- */

#define STRESS_THREADS 4
#define STRESS_JOBS    150

struct stress {
    struct redrive_queue *queue;
    atomic_int runs[STRESS_THREADS * STRESS_JOBS];
    atomic_int ended;
};

static int count_run(struct redrive_task_run *run, void *arg)
{
    struct stress *stress = arg;
    int number = atoi(redrive_task_run_payload(run, NULL));
    atomic_fetch_add(&stress->runs[number], 1);
    if (number % 10 == 0 && redrive_task_run_attempt(run) == 1)
        return -EAGAIN;
    atomic_fetch_add(&stress->ended, 1);
    return 0;
}

static void *submit_some(void *arg)
{
    struct stress *stress = arg;
    static atomic_int next;
    for (int i = 0; i < STRESS_JOBS; i++) {
        char payload[16];
        int number = atomic_fetch_add(&next, 1) % (STRESS_THREADS * STRESS_JOBS);
        snprintf(payload, sizeof payload, "%d", number);
        const struct redrive_job_spec job = {.task = number % 2 ? "t" : "u", .payload = payload};
        assert_int_equal(redrive_queue_submit(stress->queue, &job, 1, 0, NULL, NULL), 0);
    }
    return NULL;
}

BOTH_TEST(each_of_many_jobs_runs_as_often_as_it_should)
{
    struct stress *stress = calloc(1, sizeof *stress);
    pthread_t threads[STRESS_THREADS];
    struct worker worker;
    stress->queue = tq->queue;
    tq_handle(tq->queue, "t", count_run, stress, 3);
    tq_handle(tq->queue, "u", count_run, stress, 3);
    worker_start(&worker, tq->queue);
    for (int i = 0; i < STRESS_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_some, stress), 0);
    for (int i = 0; i < STRESS_THREADS; i++)
        pthread_join(threads[i], NULL);
    WAIT_FOR(stress->ended >= STRESS_THREADS * STRESS_JOBS);
    worker_stop(&worker, LONG_MS);
    for (int i = 0; i < STRESS_THREADS * STRESS_JOBS; i++)
        assert_int_equal(atomic_load(&stress->runs[i]), i % 10 == 0 ? 2 : 1);
    free(stress);
}
