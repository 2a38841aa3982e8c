/* ending.h - what becomes of a job that has run: from its row to what decide() says (ended, or
 * tried again), and how that is kept. */
#ifndef ENGINE_VERBS_ENDING_H
#define ENGINE_VERBS_ENDING_H

#include "core/decide.h"
#include "store/job.h"

struct engine;

/* What decide() says about a job that ends like this now, under the task's policy or its own. */
struct decision ending_decide(struct engine *e, const struct job *job,
                              const struct outcome *outcome);

/* How a failure is kept. Strings are the outcome's, or live for ever. */
struct job_error ending_error(const struct outcome *outcome, const struct decision *decision);

/* By what failures are grouped; 0 of a success. */
uint64_t ending_group(const struct job_error *error);

/* The message of an error and, when a job with attempts left is dead because the next delay would
 * take too long, why there is no further retry. Lives in the transaction's arena, or is the one
 * given. */
struct str ending_message(struct engine *e, struct str message, const struct decision *decision);

/* Ends a waiting job by what decide() makes of the ending (deadline, open breaker, no payload); its
 * state then goes to `ret_state`, which may be NULL. */
int end_waiting(struct engine *e, const struct job *job, enum ending ending,
                enum redrive_state *ret_state, struct redrive_err *err);

/* The same of a job that was submitted as failed (`spec.failed`): its dead letter says what the
 * program said, whatever the policy of its task is. */
int end_failed_elsewhere(struct engine *e, const struct job *job, enum redrive_state *ret_state,
                         struct redrive_err *err);

#endif
