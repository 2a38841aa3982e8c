/* facts.h - from a row of the store to the decision about it. */
#ifndef ENGINE_FACTS_H
#define ENGINE_FACTS_H

#include "core/decide.h"
#include "store/job.h"

struct engine;

/* What decide() says about a job that ends like this now, under the task's policy or its own. */
struct decision facts_decide(struct engine *e, const struct job *job,
                             const struct outcome *outcome);

/* How a failure is kept. Strings are the outcome's, or live for ever. */
struct job_error facts_error(const struct outcome *outcome, const struct decision *decision);

/* The message of an error, and why there is no further retry where only time is lacking: people
 * see a job with attempts left that is dead. Lives in the transaction's arena, or is the one given.
 */
struct str facts_message(struct engine *e, struct str message, const struct decision *decision);

#endif
