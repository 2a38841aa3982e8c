/* pool_for_test.h - a pool on a real committer and store (REDRIVE_TEST_STORE; `shards` are two
 * files), with handlers that are small shell scripts. Handlers write what they do to a file, so
 * that what truly happened is known apart from what the queue says.
 *
 * Nothing here waits without end: see waiting.h.
 */
#ifndef TESTS_RUN_POOL_FOR_TEST_H
#define TESTS_RUN_POOL_FOR_TEST_H

#include "check.h"

#include <stdatomic.h>

#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"
#include "run/pool/pool.h"
#include "waiting.h"
#include "wrap.h"

struct test_pool {
    struct config *config;
    char dir[64];
    char url[256];
    char effects[128]; /* the file that handlers write to */
    struct store *inner;
    struct wrap wrap;
    atomic_bool is_broken;                /* every call of the store fails */
    atomic_bool is_held;                  /* every call of the store waits until it is not */
    atomic_uint told[ENGINE_EVENT_COUNT]; /* events so far */
    bool tells_of_cancels; /* to the pool, as `redrive serve` does; else heartbeats do */
    struct committer *committer;
    uv_loop_t loop;
    uv_timer_t ticker;
    struct pool_options options; /* to be changed before tp_start */
    struct pool *pool;
    bool is_stopped;
    struct log log;
    pthread_mutex_t mutex; /* guards what follows */
    struct buf lines;      /* of the log */
    struct pool *woken;
};

/* Loads the configuration, in which @ is the directory of the test, and starts the committer. */
void tp_init(struct test_pool *tp, const char *yaml);
/* Stops what is still there. */
void tp_release(struct test_pool *tp);

#define POOL_TEST(test, ...) \
    TEST_OF(test, struct test_pool, tp, tp_init(tp, __VA_ARGS__), tp_release(tp))

/* Starts the pool; tp_try gives the code. */
void tp_start(struct test_pool *tp);
int tp_try(struct test_pool *tp, struct redrive_err *err);

/* Runs the loop until the condition holds. */
typedef bool (*tp_condition)(struct test_pool *tp);
void tp_until(struct test_pool *tp, tp_condition condition);
void tp_until_told(struct test_pool *tp, enum engine_event_kind kind, unsigned at_least);
void tp_until_stopped(struct test_pool *tp);
/* Until neither the loop nor another thread has anything to do, but for timers and handlers. */
void tp_until_rest(struct test_pool *tp);
/* For at least so long: see pass_ms of waiting.h. */
void tp_pass_ms(struct test_pool *tp, int64_t ms);

/* Submits and gives the job's number. */
int64_t tp_submit_spec(struct test_pool *tp, const struct job_spec *spec);
int64_t tp_submit(struct test_pool *tp, const char *task, const char *payload);
int64_t tp_submit_prior(struct test_pool *tp, const char *task, int32_t priority);
int64_t tp_submit_later(struct test_pool *tp, const char *task, int64_t delay_ms);
int tp_change(struct test_pool *tp, enum move_kind kind, int64_t seq);

/* The job's row; the strings live until the page is released. */
const struct job *tp_job(struct test_pool *tp, int64_t seq, struct job_page *page);
enum redrive_state tp_state(struct test_pool *tp, int64_t seq);

/* Handlers may wait for the file @/gate; this makes it. */
void tp_open_gate(struct test_pool *tp);

/* How often a line that begins so was written by handlers. */
unsigned tp_effects(struct test_pool *tp, const char *beginning);
/* The most `start` lines without their `end` at one time. */
unsigned tp_most_at_once(struct test_pool *tp);
/* How often the log has it; whether it does. */
unsigned tp_count_logged(struct test_pool *tp, const char *text);
bool tp_logged(struct test_pool *tp, const char *text);

#endif
