/* Memory and threads that run out: every call says so, nothing leaks, and nothing is lost. */
#include "queue_for_test.h"

/* ---- An allocator and threads that fail as they are told ------------------------------------- */

/* The calling thread's n-th allocation from now fails, and all after it; 0: none does. */
static _Thread_local long fails_at;
static _Thread_local bool has_failed;

/* The next allocation of this size fails, on any thread; 0: none does. */
static _Atomic size_t fails_of_size;

/* The n-th thread from now cannot be started; 0: all can. */
static atomic_int thread_fails_at;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_fn)(void *),
                          void *arg);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_fn)(void *),
                          void *arg);

static bool fails(size_t size)
{
    size_t expected = size;
    if (size > 0 && atomic_compare_exchange_strong(&fails_of_size, &expected, 0))
        return true;
    if (fails_at == 0)
        return false;
    if (fails_at > 1) {
        fails_at--;
        return false;
    }
    has_failed = true;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails(0) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails(0) ? NULL : __real_realloc(old, size);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*main_fn)(void *),
                          void *arg)
{
    if (atomic_load(&thread_fails_at) > 0 && atomic_fetch_sub(&thread_fails_at, 1) == 1)
        return EAGAIN;
    return __real_pthread_create(thread, attr, main_fn, arg);
}

/* Calls `call` with less and less memory missing, until it has enough. */
static void with_too_little_memory(int (*call)(struct test_queue *tq), struct test_queue *tq)
{
    int rc = -1;
    long n_refused = 0;
    for (long n = 1; n < 100000 && rc < 0; n++) {
        fails_at = n;
        has_failed = false;
        rc = call(tq);
        fails_at = 0;
        if (!has_failed)
            break;
        n_refused += rc == REDRIVE_E_NOMEM;
    }
    assert_int_equal(rc, 0);
    assert_true(n_refused > 0);
}

static int setup(void **state)
{
    *state = tq_new("memory:");
    return 0;
}

static int teardown(void **state)
{
    tq_free(*state);
    return 0;
}

static int do_nothing(struct redrive_task_run *run, void *arg)
{
    (void)run;
    atomic_fetch_add((atomic_int *)arg, 1);
    return 0;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int open_it(struct test_queue *tq)
{
    const struct redrive_queue_options options = {
        .store = tq->store, .config = tq->config, .worker = "w", .tenant = "default"};
    return redrive_queue_open(&options, &tq->queue, NULL);
}

static int handle_it(struct test_queue *tq)
{
    static atomic_int n;
    return redrive_queue_handle(tq->queue, "t", do_nothing, &n, NULL, NULL);
}

static int submit_it(struct test_queue *tq)
{
    const struct redrive_job_spec jobs[] = {{.task = "t", .id = "a"}, {.task = "t", .id = "b"}};
    struct redrive_submitted answers[2];
    int rc = redrive_queue_submit(tq->queue, jobs, 2, 0, answers, NULL);
    assert_int_equal(answers[0].code < 0 ? answers[0].code : answers[1].code, rc);
    return rc;
}

static int look_at_it(struct test_queue *tq)
{
    struct redrive_job_status job;
    int rc = redrive_queue_job(tq->queue, "a", &job, NULL);
    assert_int_equal(rc == 0, job.memory != NULL);
    redrive_queue_job_release(&job);
    return rc;
}

#define QUEUE_TEST(test) TEST_WITH(test, setup, teardown, struct test_queue *tq)

QUEUE_TEST(every_call_says_that_memory_is_out)
{
    with_too_little_memory(open_it, tq);
    with_too_little_memory(handle_it, tq);
    with_too_little_memory(submit_it, tq);
    with_too_little_memory(look_at_it, tq);
    work_until_idle(tq->queue);
    assert_int_equal(state_of(tq->queue, "b"), REDRIVE_STATE_COMPLETED);
}

#define ODD_SIZE 7919

static int do_nothing_with_a_payload(struct redrive_task_run *run, void *arg)
{
    const char *payload = redrive_task_run_payload(run, NULL);
    return payload && *payload == '1' ? do_nothing(run, arg) : -EFAULT;
}

QUEUE_TEST(a_job_that_there_is_no_room_for_is_given_back_and_taken_again)
{
    atomic_int n = 0;
    char *payload = calloc(1, ODD_SIZE);
    struct redrive_job_status job;
    struct worker worker;
    memset(payload, '1', ODD_SIZE - 1);
    const struct redrive_job_spec spec = {.task = "t", .id = "a", .queue = "q", .payload = payload};
    tq->queue = tq_open(tq);
    assert_int_equal(redrive_queue_submit(tq->queue, &spec, 1, 0, NULL, NULL), 0);
    assert_int_equal(
        redrive_queue_handle(tq->queue, "t", do_nothing_with_a_payload, &n, NULL, NULL), 0);
    /* What a run copies: id, queue, tenant and payload, each with its terminator. */
    atomic_store(&fails_of_size, 1 + 1 + strlen("default") + ODD_SIZE - 1 + 4);
    worker_start(&worker, tq->queue);
    WAIT_FOR(n >= 1);
    worker_stop(&worker, LONG_MS);
    assert_int_equal(atomic_load(&fails_of_size), 0);
    assert_int_equal(redrive_queue_job(tq->queue, "a", &job, NULL), 0);
    assert_int_equal(job.state, REDRIVE_STATE_COMPLETED);
    assert_int_equal(job.attempts, 1);
    redrive_queue_job_release(&job);
    free(payload);
}

/* ---- Threads --------------------------------------------------------------------------------- */

QUEUE_TEST(work_without_enough_threads_does_not_begin)
{
    const struct redrive_handle_options options = {.concurrency = 3};
    atomic_int n = 0;
    tq->queue = tq_open(tq);
    assert_int_equal(redrive_queue_handle(tq->queue, "t", do_nothing, &n, &options, NULL), 0);
    for (int i = 1; i <= 3; i++) {
        atomic_store(&thread_fails_at, i);
        assert_int_equal(redrive_queue_work(tq->queue, 0, NULL), REDRIVE_E_NOMEM);
    }
    submit(tq->queue, "t", "a");
    work_until_idle(tq->queue);
    assert_int_equal(atomic_load(&n), 1);
}

QUEUE_TEST(a_queue_whose_threads_cannot_be_started_is_not_opened)
{
    for (int i = 1; i <= 2; i++) {
        atomic_store(&thread_fails_at, i);
        assert_int_equal(open_it(tq), REDRIVE_E_NOMEM);
        assert_null(tq->queue);
    }
}
