/* private.h - the inside of a pool, for the files of this module only.
 *
 * At the end of a turn of the loop, the runs that have ended in it become one settlement for each
 * shard, and one claim asks for jobs of all tasks with free slots. All are handed to the committer
 * at the same time, so that they share a transaction. Answers come back through the mailbox.
 *
 * A claimed job is in one list at a time: waiting for a slot, with its runner, among those to be
 * settled, or in a settlement that is under way.
 */
#ifndef RUN_POOL_PRIVATE_H
#define RUN_POOL_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/list.h"
#include "engine/mailbox.h"
#include "engine/report/worker_row.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/settle.h"
#include "engine/worker/claim_pace.h"
#include "engine/worker/renewal.h"
#include "run/pool/pool.h"
#include "run/runner.h"
#include "store/shards/shards.h"

/* ---- Suspects ----------------------------------------------------------------------------------
 *
 * Is the handler broken, or is it this job that breaks it?
 *
 * A handler that dies before it has answered anything looks the same in both cases. They differ in
 * what happens next: a broken handler fails every job, while a job that breaks the handler fails
 * alone and others go well in between. So a job is not blamed at first; it becomes a suspect and is
 * given back. It is blamed when the handler breaks down with it again although
 *
 *   - another job has gone well since, or
 *   - the handler has worked in this process, and the job was given back SUSPECTS_PATIENCE times.
 *
 * While a handler has never worked in this process no job is blamed. The last SUSPECTS_MAX suspects
 * are remembered; one that was forgotten is given back once more than it should be.
 */
#define SUSPECTS_MAX      64
#define SUSPECTS_PATIENCE 3

/* All zero: none, and the handler has not worked yet. */
struct suspects {
    uint64_t n_worked; /* runs of the handler that ended in an ordinary way */
    size_t next;       /* to be overwritten */
    struct suspect {
        int64_t seq; /* the job's number; 0: free */
        uint64_t n_worked;
        unsigned times;
    } items[SUSPECTS_MAX];
};

/* A run has ended in an ordinary way, whether the job succeeded or failed. */
void suspects_worked(struct suspects *s);

/* The handler broke down with this job. True: the job is to blame. */
bool suspects_blame_job(struct suspects *s, int64_t seq);

/* ---- The pool -------------------------------------------------------------------------------- */

/* Of one claim and of one settlement. */
#define POOL_BATCH_MAX 256
/* Of one claim, so that many big jobs do not come into memory at one time. */
#define POOL_CLAIM_BYTES ((size_t)32 << 20)

/* How long after the end of the grace settlements are still tried again. */
#define POOL_SETTLE_MS 10000

struct pool_job {
    struct list link;  /* in task->jobs */
    struct list queue; /* in task->ahead, pool->to_settle or to_settle_later, or a settlement that
                        * is under way */
    struct pool_task *task;
    int64_t seq;
    uint64_t token;
    size_t shard;
    struct held_lease lease;
    struct run *run; /* NULL: it has ended */
    bool is_lost;    /* the lease has another holder, or none: what the run says does not count */
    bool is_told;    /* the lease was over by this worker's clock, and the run was told to end */
    bool is_over;    /* settled, or given up; freed when no heartbeat is under way with it */
    bool is_extending;
    bool is_ahead;     /* it waits for a slot */
    bool is_doubtful;  /* it has failed: none of its task and shard starts until it is settled or
                        * put off */
    bool has_limit;    /* it has a slot of a limit */
    uint64_t breaker;  /* a hash of its breaker's name; 0: it has none */
    uint64_t since_ns; /* when it began to wait for a slot, or to run */
    int64_t waited_ms; /* for a slot */
    uint64_t late_ns;  /* when its shard did not take its outcome for the first time; 0: it did */
    struct outcome outcome;
    struct str result;
    void *failure_text; /* what the outcome points to */
    char *result_text;
    struct run_request request;
    struct job_parent *parents;            /* of the request, if it has some */
    char traceparent[TRACEPARENT_LEN + 1]; /* of the request, if it has one */
    char text[];                           /* what the request points to */
};

/* What is known of a handler that cannot run. */
struct pool_fault {
    unsigned n_in_a_row; /* starts that failed since it last worked */
    int64_t pause_ms;    /* of the latest; 0: none */
    uv_timer_t pause;    /* no jobs are claimed while it is active */
    struct suspects suspects;
    char message[256]; /* of the latest */
};

struct pool_task {
    struct pool *pool;
    const struct config_task *config;
    struct str name;
    struct runner *runner;
    uint32_t slots;
    size_t running; /* jobs that its runner has */
    struct list jobs;

    /* Claimed ahead. */
    bool may_go_ahead;
    struct claim_pace pace;
    struct list ahead; /* struct pool_job, that wait for a slot */
    size_t n_ahead;
    size_t n_doubtful[SHARDS_MAX]; /* by shard: runs that have failed and are not settled */

    size_t asked; /* jobs of it that the claim under way may bring; 0: it asks for none */
    bool wants;   /* there may be ready jobs */
    bool woken;   /* since the claim under way was handed in */

    struct pool_fault fault;

    uv_timer_t heartbeat;
    struct extend_op extend;
    struct extension *extensions;
    struct pool_job **extending; /* the jobs of the extensions */
    size_t extend_capacity;
    struct renewal renewal;
};

/* One claim for all tasks that have free slots, so that the order of queues and priorities holds
 * between tasks. */
struct pool_claim {
    struct claim_op op;
    struct str *names; /* of the tasks that it asks for */
    size_t *limits;    /* of each */
    size_t asked;      /* jobs that it may bring; 0: none is under way */
    uint64_t since_ns; /* when it was handed in */
};

/* This worker's row in the store. */
struct pool_row {
    uv_timer_t timer;
    struct worker_op op;
    bool is_under_way;
    bool is_leaving; /* the next write removes the row */
    bool has_left;   /* it is removed, or another pool's: nothing more is written */
};

struct pool {
    struct pool_options options;
    size_t n_tasks;
    uint32_t slots;
    size_t running;
    size_t n_ahead; /* jobs that wait for a slot */
    size_t n_jobs;
    uint64_t n_left;   /* jobs that were claimed and stay running: no memory, or their end was
                        * refused */
    size_t n_settling; /* settlements that are under way */
    size_t n_runners;
    uint64_t n_ended;
    uint64_t n_failed;
    struct redrive_err missed; /* the shard that the last claim has passed over; code 0: none */

    struct mailbox mailbox;      /* flushed at the end of a turn */
    struct list to_settle;       /* struct pool_job */
    struct list to_settle_later; /* those whose shard does not answer; the others go on */
    uv_timer_t later;            /* until they are tried again */
    uv_timer_t gather;           /* while outcomes are gathered: it is over */
    bool has_gathered;           /* for long enough */
    bool has_failed;             /* one of to_settle: it is settled at once */
    bool settle_singly;          /* one of them made the store refuse them all */
    int64_t pause_ms;            /* of the latest trouble; 0: none */

    struct pool_claim claim;
    struct pool_row row;

    uv_prepare_t turn;
    uv_async_t async;
    uv_timer_t pause;
    uv_timer_t give_up;
    uv_timer_t ahead;   /* while jobs wait for a slot */
    unsigned n_handles; /* open */
    bool is_stopping;
    bool is_giving_up; /* what the store does not take now is left to the end of its lease */
    bool is_closing;
    bool is_abandoned; /* pool_new has failed: it frees itself */

    pthread_mutex_t mutex; /* guards what follows */
    int64_t *cancelled;    /* numbers of jobs whose runs must end */
    size_t n_cancelled;
    size_t cancelled_capacity;

    struct pool_task tasks[];
};

/* ---- A claimed job (pool/job.c) -------------------------------------------------------------- */

/* A job of a claim; NULL when there is no memory. */
struct pool_job *pool_job_new(struct pool_task *task, const struct job *job);
/* Whether a run of the job with this number has not ended yet. */
bool pool_job_runs(const struct pool_task *task, int64_t seq);
/* Copies what came of its run; what it says about a failure is cut to what every store takes. */
void pool_job_keep(struct pool_job *job, const struct run_outcome *ran);
/* The job goes back to the queue and loses no attempt: it has not begun, or was made to end. */
void pool_job_give_back(struct pool_job *job);
/* The job has not begun: it goes back, loses no attempt, and is not claimed before so long. */
void pool_job_put_off(struct pool_job *job, int64_t ms);
/* The job was cancelled, which is logged already: makes it end, or drops it if it waits. */
void pool_job_cancel(struct pool_job *job);
/* Jobs of its task need not wait any longer until it is settled. */
void pool_job_clear_doubt(struct pool_job *job);
/* It is settled, or given up. Frees it, unless a heartbeat is under way with it. */
void pool_job_end(struct pool_job *job);

/* Jobs that are claimed before there is a slot for them: how many, and when they are given back.
 *
 * The rules of a task, when the slots of the pool are known. */
void pool_ahead_init(struct pool_task *task);
/* How many jobs of the task are to wait for a slot; 0: none is claimed ahead. */
size_t pool_ahead_target(const struct pool_task *task);
/* A claim for the task was answered after so long. */
void pool_ahead_claimed(struct pool_task *task, int64_t took_us);
/* Has a job wait for a slot, and takes it out. */
void pool_ahead_wait(struct pool_job *job);
void pool_ahead_remove(struct pool_job *job);
/* Gives back a job that waits. */
void pool_ahead_give_one_back(struct pool_job *job);
/* Gives the jobs of a task back that wait. */
void pool_ahead_give_back(struct pool_task *task);
/* The same for all jobs of a breaker, of any task. */
void pool_ahead_shut(struct pool *pool, uint64_t breaker);

/* ---- Running (pool/run.c) -------------------------------------------------------------------- */

/* A claimed job: starts it if it is its turn and there is a slot, or has it wait for one. */
void pool_run_take(struct pool_job *job);
/* Starts jobs that wait, as far as there are slots. */
void pool_run_waiting(struct pool *pool);

void pool_fault_init(struct pool_task *task);
/* Whether the task is not to be given jobs now, because its handler cannot run. */
bool pool_fault_pauses(const struct pool_task *task);
/* Whether it is not to be given any more, because the pool ends when it is idle. */
bool pool_fault_is_final(const struct pool_task *task);

/* ---- Leases (pool/lease.c) ------------------------------------------------------------------- */

/* The timer of the leases, which begins with the first job. */
void pool_lease_init(struct pool_task *task);
/* Has the lease of a job extended from now on, and its run told when the lease is over. */
void pool_lease_watch(struct pool_job *job);

/* ---- What the store is asked (pool/turn.c) --------------------------------------------------- */

/* Whether nothing is handed in for a while, because the store has failed. */
bool pool_is_pausing(const struct pool *pool);
/* Every task asks again. */
void pool_ask_again(struct pool *pool);
/* Whether outcomes may wait for others, to be settled together: no slot waits for a claim. */
bool pool_gathers(struct pool *pool);
/* Hands in what has ended. */
void pool_settle(struct pool *pool);
/* Jobs whose shard did not answer are handed in again at once. */
void pool_settle_now(struct pool *pool);
/* Asks for jobs for all slots that are free, unless a claim is under way, and runs those that
 * come. */
void pool_claim(struct pool *pool);

#endif
