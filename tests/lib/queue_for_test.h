/* queue_for_test.h - a queue in a directory of its own, and ways to wait for what becomes of jobs.
 */
#ifndef TESTS_LIB_QUEUE_FOR_TEST_H
#define TESTS_LIB_QUEUE_FOR_TEST_H

#include "check.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "redrive_queue.h"
#include "waiting.h"

/* Longer than anything here takes on a machine with other things to do. */
#define LONG_MS 100000

/* Retries at once, and three attempts; leases so short that heartbeats matter, and longer than a
 * busy machine keeps a process waiting. */
#define TQ_CONFIG                                          \
    "defaults:\n"                                          \
    "  retry: {strategy: immediate, max_attempts: 3}\n"    \
    "  breaker: {failure_threshold: 0, failure_rate: 0}\n" \
    "tasks:\n"                                             \
    "  long: {lease: 3s, heartbeat: 100ms}\n"              \
    "  longer: {lease: 8s, heartbeat: 100ms}\n"            \
    "  alone: {limits: {concurrency: 1}}\n"                \
    "classify:\n"                                          \
    "  - {errno: ENOSPC, class: validation}\n"

struct test_queue {
    char dir[256];
    char config[300];
    char store[300];
    struct redrive_queue *queue;
};

static inline void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static inline struct redrive_queue *tq_open(const struct test_queue *tq)
{
    const struct redrive_queue_options options = {.store = tq->store, .config = tq->config};
    struct redrive_queue *queue;
    struct redrive_err err = {0};
    int rc = redrive_queue_open(&options, &queue, &err);
    if (rc < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return queue;
}

/* `store` is "memory:" or "sqlite:", which gets a file. */
static inline struct test_queue *tq_new(const char *store)
{
    const char *tmp = getenv("TMPDIR");
    struct test_queue *tq = calloc(1, sizeof *tq);
    assert_non_null(tq);
    snprintf(tq->dir, sizeof tq->dir, "%.200s/redrive-queue-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(tq->dir));
    snprintf(tq->config, sizeof tq->config, "%s/redrive.yaml", tq->dir);
    write_file(tq->config, TQ_CONFIG);
    if (strcmp(store, "sqlite:") == 0)
        snprintf(tq->store, sizeof tq->store, "sqlite:%s/jobs.db", tq->dir);
    else
        snprintf(tq->store, sizeof tq->store, "%s", store);
    return tq;
}

static inline int tq_remove(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static inline void tq_free(struct test_queue *tq)
{
    redrive_queue_close(tq->queue);
    nftw(tq->dir, tq_remove, 8, FTW_DEPTH | FTW_PHYS);
    free(tq);
}

static inline int tq_setup(void **state)
{
    struct test_queue *tq = tq_new(*state);
    tq->queue = tq_open(tq);
    *state = tq;
    return 0;
}

static inline int tq_teardown(void **state)
{
    tq_free(*state);
    return 0;
}

/* Tests of a queue that is open. */
#define ADD_QUEUE_TEST(test, shown, store) \
    CHECK_ADD(shown, #shown, check_run_##test, tq_setup, tq_teardown, (void *)(store))
#define MEMORY_TEST(test)                   \
    CHECK_WITH(test, struct test_queue *tq) \
    ADD_QUEUE_TEST(test, test, "memory:")   \
    static void test(struct test_queue *tq __attribute__((unused)))
#define FILE_TEST(test)                     \
    CHECK_WITH(test, struct test_queue *tq) \
    ADD_QUEUE_TEST(test, test, "sqlite:")   \
    static void test(struct test_queue *tq __attribute__((unused)))
#define BOTH_TEST(test)                               \
    CHECK_WITH(test, struct test_queue *tq)           \
    ADD_QUEUE_TEST(test, test##_in_memory, "memory:") \
    ADD_QUEUE_TEST(test, test##_in_a_file, "sqlite:") \
    static void test(struct test_queue *tq __attribute__((unused)))

/* ---- Jobs ------------------------------------------------------------------------------------ */

static inline void submit(struct redrive_queue *q, const char *task, const char *id)
{
    const struct redrive_job_spec job = {.task = task, .id = id, .payload = "{\"n\":1}"};
    struct redrive_err err = {0};
    if (redrive_queue_submit(q, &job, 1, 0, NULL, &err) < 0)
        fail_msg("%s", err.message);
}

static inline enum redrive_state state_of(struct redrive_queue *q, const char *id)
{
    struct redrive_job_status job;
    assert_int_equal(redrive_queue_job(q, id, &job, NULL), 0);
    enum redrive_state state = job.state;
    redrive_queue_job_release(&job);
    return state;
}

#define WAIT_FOR_STATE(q, id, state)                     \
    WAIT_TELLING(state_of(q, id) == (state), pass_ms(1), \
                 print_error("%s is %s\n", id, redrive_state_name(state_of(q, id))))

static inline void work_until_idle(struct redrive_queue *q)
{
    struct redrive_err err = {0};
    if (redrive_queue_work(q, REDRIVE_WORK_UNTIL_IDLE, &err) < 0)
        fail_msg("%s", err.message);
}

/* Retries are due at once, but not necessarily before a worker finds that it is idle. */
static inline void work_until(struct redrive_queue *q, const char *id, enum redrive_state state)
{
    WAIT_RUNNING(state_of(q, id) == state, work_until_idle(q));
}

/* ---- Working --------------------------------------------------------------------------------- */

static inline void tq_handle(struct redrive_queue *q, const char *task, redrive_task_fn fn,
                             void *arg, uint32_t concurrency)
{
    const struct redrive_handle_options options = {.concurrency = concurrency};
    assert_int_equal(redrive_queue_handle(q, task, fn, arg, &options, NULL), 0);
}

/* A function that counts its runs and gives `{"ok":1}`. */
static inline int succeed(struct redrive_task_run *run, void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    assert_int_equal(redrive_task_run_result(run, "early", 5), 0);
    return redrive_task_run_result(run, "{\"ok\":1}", 8);
}

struct worker {
    struct redrive_queue *queue;
    pthread_t thread;
    unsigned flags;
    int rc;
};

static inline void *worker_main(void *arg)
{
    struct worker *worker = arg;
    worker->rc = redrive_queue_work(worker->queue, worker->flags, NULL);
    return NULL;
}

static inline void worker_start_with(struct worker *worker, struct redrive_queue *queue,
                                     unsigned flags)
{
    *worker = (struct worker){.queue = queue, .flags = flags};
    assert_int_equal(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
}

static inline void worker_start(struct worker *worker, struct redrive_queue *queue)
{
    worker_start_with(worker, queue, 0);
}

static inline void worker_join(struct worker *worker)
{
    pthread_join(worker->thread, NULL);
    assert_int_equal(worker->rc, 0);
}

static inline void worker_stop(struct worker *worker, int64_t grace_ms)
{
    redrive_queue_stop(worker->queue, grace_ms);
    worker_join(worker);
}

#endif
