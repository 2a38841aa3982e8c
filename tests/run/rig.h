/* rig.h - a pool on a real committer and store (REDRIVE_TEST_STORE; `shards` are two files), with
 * handlers that are small shell scripts. Handlers write what they do to a file, so that what truly
 * happened is known apart from what the queue says.
 *
 * Nothing here waits without end: see waiting.h.
 */
#ifndef TESTS_RUN_RIG_H
#define TESTS_RUN_RIG_H

#include "check.h"

#include <stdatomic.h>

#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"
#include "run/pool/pool.h"
#include "waiting.h"
#include "wrap.h"

struct rig {
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
    struct pool_options options; /* to be changed before rig_start */
    struct pool *pool;
    bool is_stopped;
    struct log log;
    pthread_mutex_t mutex; /* guards what follows */
    struct buf lines;      /* of the log */
    struct pool *woken;
};

/* Loads the configuration, in which @ is the directory of the rig, and starts the committer. */
void rig_init(struct rig *rig, const char *yaml);
/* Stops what is still there. */
void rig_release(struct rig *rig);

#define RIG_TEST(test, ...) \
    TEST_OF(test, struct rig, rig, rig_init(rig, __VA_ARGS__), rig_release(rig))

/* Starts the pool; rig_try gives the code. */
void rig_start(struct rig *rig);
int rig_try(struct rig *rig, struct redrive_err *err);

/* Runs the loop until the condition holds. */
typedef bool (*rig_condition)(struct rig *rig);
void rig_until(struct rig *rig, rig_condition condition);
void rig_until_told(struct rig *rig, enum engine_event_kind kind, unsigned at_least);
void rig_until_stopped(struct rig *rig);
/* Until neither the loop nor another thread has anything to do, but for timers and handlers. */
void rig_until_rest(struct rig *rig);
/* For at least so long: see pass_ms of waiting.h. */
void rig_pass_ms(struct rig *rig, int64_t ms);

/* Submits and gives the job's number. */
int64_t rig_submit_spec(struct rig *rig, const struct job_spec *spec);
int64_t rig_submit(struct rig *rig, const char *task, const char *payload);
int64_t rig_submit_prior(struct rig *rig, const char *task, int32_t priority);
int64_t rig_submit_later(struct rig *rig, const char *task, int64_t delay_ms);
int rig_change(struct rig *rig, enum move_kind kind, int64_t seq);

/* The job's row; the strings live until the page is released. */
const struct job *rig_job(struct rig *rig, int64_t seq, struct job_page *page);
enum redrive_state rig_state(struct rig *rig, int64_t seq);

/* Handlers may wait for the file @/gate; this makes it. */
void rig_open_gate(struct rig *rig);

/* How often a line that begins so was written by handlers. */
unsigned rig_effects(struct rig *rig, const char *beginning);
/* The most `start` lines without their `end` at one time. */
unsigned rig_most_at_once(struct rig *rig);
/* How often the log has it; whether it does. */
unsigned rig_count_logged(struct rig *rig, const char *text);
bool rig_logged(struct rig *rig, const char *text);

#endif
