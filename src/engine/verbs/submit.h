/* submit.h - new jobs.
 *
 *     struct submit_op op;
 *     rc = submit_op_init(&op, engine, specs, n, err);      checks all that needs no store
 *     if (rc == 0)
 *         rc = engine_apply_one(engine, &op.op, err);       or hands it to a committer
 *     … op.answers[i] …
 *     submit_op_release(&op);
 *
 * Each job has an answer of its own. A job is refused when its task has no name or an unknown one
 * under strict_tasks, its payload is not JSON, too big or missing where it is required, a number is
 * out of range, its own policy cannot be read, or its breaker is open and says `reject`. A submit
 * that is a repetition (same id, or a unique key that is taken) is answered with the job that
 * stands for it.
 *
 * A job that names others in `after` waits until these have ended as it wants (after.h). It is
 * refused when one of them is not there, was refused, or is the job itself. A repetition waits for
 * what the job that is there was submitted with.
 *
 * A job that has failed elsewhere (`failed`) becomes a dead letter at once, without an attempt,
 * whatever its breaker is.
 *
 * A client may have a key for its request, from which the ids of the jobs are made. With `key` set
 * before the operation is applied, a repetition that says something else than the job that is there
 * is refused with REDRIVE_E_EXISTS.
 *
 * Records of a batch come from a file, so there is no client to refuse them to. With `records` set
 * before the operation is applied, one whose payload is missing where it is required becomes a dead
 * letter at once, without an attempt; and an id that a job with another unique key has taken is no
 * repetition: the record gets its unique key for an id.
 */
#ifndef ENGINE_VERBS_SUBMIT_H
#define ENGINE_VERBS_SUBMIT_H

#include "base/mem/arena.h"
#include "config/config.h"
#include "engine/op.h"
#include "store/store.h"

/* What can be said about a job without a store: names, payload, numbers and policy are right, and
 * the task is one that `config` (NULL: none) allows. `task` is the definition that holds for it.
 * Fills in max_attempts. */
int submit_check(const struct config *config, const struct config_task *task,
                 size_t payload_max_bytes, struct job_spec *spec, struct redrive_err *err);
/* Whether the payload is JSON, and no larger than it may be. */
int submit_check_payload(size_t max_bytes, struct str payload, struct redrive_err *err);

enum submit_open {
    SUBMIT_OPEN_QUEUE = 1 << 0,
    SUBMIT_OPEN_BREAKER = 1 << 1,
    SUBMIT_OPEN_LIMIT = 1 << 2,
    SUBMIT_OPEN_TASK = 1 << 3, /* always, for a task that the configuration does not have */
    SUBMIT_FILLED_IN = 1 << 4, /* it has filled something in */
};

struct submit_answer {
    int code;                            /* 0, or why it was refused */
    const struct redrive_err *err;       /* the same in words; set when the code is negative */
    const char *member;                  /* of POST /v1/jobs that is at fault; NULL: none of them */
    bool invalid;                        /* refused before the store was asked */
    bool lacks_payload;                  /* for no other reason than that */
    bool existed;                        /* no new job: this one stands for it */
    const struct experiment *experiment; /* that it takes part in, or NULL */
    unsigned open; /* what a published definition may still fill in: bits of enum submit_open */
    int64_t seq;
    struct str id;
    enum redrive_state state;
};

struct submit_op {
    struct op op;
    bool whole;             /* one refusal refuses all: the others get REDRIVE_E_CANCELLED */
    bool records;           /* see above */
    bool has_after;         /* some of the jobs wait for others */
    struct str key;         /* of the client for its request, absent: none; see above */
    struct job_spec *specs; /* complete: queue, keys */
    struct submit_answer *answers;
    size_t n;
    struct config *config; /* what completed the specs */
    struct arena arena;    /* of the request */
    struct arena result;   /* of the answers */
};

/* Borrows the strings of the specs until release. May be called on any thread: it goes by the
 * configuration that is in force now, and holds it until release. What specs leave open gets its
 * default: id, tenant, queue. Without memory the code says so, and the operation must not be
 * applied. */
int submit_op_init(struct submit_op *op, const struct engine *engine, const struct job_spec *specs,
                   size_t n, struct redrive_err *err);
void submit_op_release(struct submit_op *op);

/* The first job that was refused for a reason of its own, after the operation; n: there is none. */
size_t submit_first_refused(const struct submit_op *op);

/* Refuses a job before the operation is applied; `why` is copied. Returns its code. */
int submit_refuse(struct submit_op *op, size_t i, const struct redrive_err *why);

/* Within the engine: the same for a reason of this moment, when it is applied. */
int submit_refuse_now(struct submit_op *op, size_t i, const struct redrive_err *why);

/* ---- Within the engine, in submit_check.c ---------------------------------------------------- */

/* The parts of submit_check. The form is all but the names, the policy, and whether there is a
 * payload; the names must have been checked, as they are looked up. */
int submit_check_names(const struct job_spec *spec, struct redrive_err *err);
int submit_check_form(const struct config *config, size_t payload_max_bytes,
                      const struct job_spec *spec, struct redrive_err *err);
int submit_check_there(const struct config_task *task, struct str payload, struct redrive_err *err);
/* Fills in max_attempts, which the job's own policy may change. */
int submit_read_policy(const struct config_task *task, struct job_spec *spec,
                       struct redrive_err *err);

#endif
