/* after.h - jobs that wait for others: what becomes of them when a parent ends.
 *
 * An edge from a parent to a child is kept by the store (struct job_edge), with a rule and an
 * outcome (core/after.h). The child's row counts the edges that are open. The transaction that ends
 * a parent decides its open edges: those that are met are taken off the count, and a child without
 * open edges goes to the queue; one that is missed cancels the child, with reason `skipped` and an
 * error that names the parent. A child that is skipped is itself a parent that has ended.
 *
 * A transaction decides the edges of the jobs that it ends, and of some thousand that are skipped.
 * If there are more, those whose edges are left are noted in the store in the same transaction, and
 * ticks go on with them (after_later.c).
 *
 * Invariants, which tests cite
 *  13. No job starts while one of its edges is open, and none whose edge was missed, unless it died
 *      before that and a person has redriven it.
 *  14. An edge is decided once: a child is released once, however often a parent ends.
 *  15. No job waits whose edges are all decided. One whose parent has been skipped, and whose edge
 *      is open, is noted in the store.
 *  16. A job that is skipped says so: state cancelled, reason skipped, and which parent.
 */
#ifndef ENGINE_VERBS_AFTER_H
#define ENGINE_VERBS_AFTER_H

#include "engine/op.h"
#include "store/store.h"

struct submit_op;

/* A parent: a job that this transaction has ended, or is about to remove. */
struct ended_job {
    int64_t seq;
    enum redrive_state state;
    bool is_gone; /* it is about to be removed */
    struct str id;
    struct str tenant; /* of one that was skipped */
    uint32_t children; /* how many that one has, at the most; 0: not known */
};

/* Decides the edges to the children of these jobs, which are put in order, and to theirs if they
 * are skipped; of these perhaps later. To be called for jobs whose row counts children (struct
 * move_result). */
int after_ended(struct engine *e, struct ended_job *jobs, size_t n, struct redrive_err *err);

/* Cancels a waiting child, whose edge to this parent is missed, and tells of it. */
int after_skip(struct engine *e, const struct job *child, const struct job_edge *edge,
               const struct ended_job *parent, struct move_result *ret, struct redrive_err *err);

/* Before an ended job is removed: decides the edges to its children, if it has children. */
int after_removed(struct engine *e, const struct job *job, struct redrive_err *err);
/* After it was removed: REDRIVE_E_CANCELLED if another process has added a child meanwhile. */
int after_was_removed(const struct job *job, const struct move_result *result,
                      struct redrive_err *err);

/* Takes those jobs out of a page of ended ones that a live child may still need: it waits for them,
 * or will be given their results. */
int after_leave_needed(struct engine *e, struct job_page *page, struct redrive_err *err);

/* ---- Later, in after_later.c ----------------------------------------------------------------- */

/* How many children of skipped jobs one transaction decides, and how many rounds it makes: those of
 * a round are read and written some at a time, and a chain has a round for each job. The children
 * of the jobs that a transaction ends itself are always decided in it. */
#define AFTER_DECIDED_MAX 4000
#define AFTER_ROUNDS_MAX  250

/* Notes skipped jobs whose children are not decided yet: in rows of SHARED_CANCEL, which ticks
 * carry out (change.h). */
int after_put_off(struct engine *e, const struct ended_job *jobs, size_t n,
                  struct redrive_err *err);
/* Whether a row of SHARED_CANCEL is such a one. */
bool after_is_put_off(const struct shared_row *row);
/* Removes the row, and decides what it says, or some of that and puts off the rest.
 * REDRIVE_E_CANCELLED: another transaction has removed it, and decides the same. */
int after_go_on(struct engine *e, const struct shared_row *row, struct redrive_err *err);
/* Whether the transaction has decided as much as it should. */
bool after_is_enough(const struct engine *e);
/* Moves the rows of jobs before their edges are read, without a change: no two transactions decide
 * the edges of a job that has ended, whether a tick goes on with it or it is removed. `ret`: what
 * became of each; NULL: not asked for. */
int after_hold(struct engine *e, const struct ended_job *jobs, size_t n, struct move_result *ret,
               struct redrive_err *err);

/* ---- In a transaction of a store, by a caller that has no engine ----------------------------- */

/* How many children of skipped jobs may be decided, and in how many rounds; both are counted down.
 * Then the skipped jobs whose children are not decided. */
struct after_rest {
    size_t room;
    size_t rounds;
    struct ended_job *jobs;
    size_t n;
};

struct after_walk {
    struct store *store;
    struct arena *arena; /* for the walk */

    /* If not NULL: a child was released into this state, or was skipped, with this message. */
    void (*moved)(void *ctx, enum redrive_state state, const struct job *skipped,
                  struct str message);
    void *ctx;

    /* NULL: all children are decided. */
    struct after_rest *rest;
};

/* As after_ended. REDRIVE_E_NOMEM also if the arena has failed: a child may lack its message. */
int after_walk(const struct after_walk *walk, struct ended_job *jobs, size_t n,
               struct redrive_err *err);

/* The same for these edges only, which the store has: decides those that are open and whose parents
 * are given and have ended. Both arrays are changed. */
int after_walk_edges(const struct after_walk *walk, struct job_edge *edges, size_t n,
                     struct ended_job *parents, size_t n_parents, struct redrive_err *err);

/* ---- Submit, in after_submit.c --------------------------------------------------------------- */

/* What the parents of an operation's jobs are, as of this transaction. */
struct after_plan;

/* Looks whether the jobs of an operation may wait for those that they name, refuses those that may
 * not, and counts the children of each. *ret is NULL if none of them waits, and lives in the
 * transaction's arena. */
int after_plan(struct engine *e, struct submit_op *op, struct after_plan **ret,
               struct redrive_err *err);

/* Completes the spec of job `i`, whose parents in the same operation have been submitted: tells
 * other parents that they have a child, and counts the edges that are open. A job that is refused,
 * because one of its parents was, has a code in its answer. */
int after_resolve(struct engine *e, struct submit_op *op, struct after_plan *plan, size_t i,
                  struct job_spec *spec, struct redrive_err *err);

/* The job was put into the store: adds its edges. Its state may be another one then. */
int after_submitted(struct engine *e, struct submit_op *op, struct after_plan *plan, size_t i,
                    struct redrive_err *err);

#endif
