/* arm.h - experiments: a task whose jobs are divided between several policies.
 *
 * The arm of a job is a function of the experiment's name and the job's id. It is chosen once, when
 * the job is submitted, and kept with the job together with the arm's policy, which is complete: a
 * process that knows nothing of the experiment decides by it too, and an experiment that is changed
 * or stopped leaves the jobs that are there as they are.
 *
 * Pure.
 */
#ifndef CORE_EXPERIMENT_ARM_H
#define CORE_EXPERIMENT_ARM_H

#include <stddef.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

#define EXPERIMENT_NAME_MAX 64 /* of an experiment and of an arm, in bytes */
#define EXPERIMENT_ARMS_MAX 16

struct arm {
    const char *name;
    double share;                 /* of the task's jobs: above 0, at most 1 */
    struct redrive_policy policy; /* complete */
    const char *members;          /* what its jobs keep: `"experiment":"NAME/ARM",…}` */
    int32_t max_attempts;         /* by the policy */
};

struct experiment {
    const char *name;
    const char *task;
    struct arm *arms; /* in the order of the file; the first is what the others are compared with */
    size_t n_arms;    /* the shares add up to 1 */
};

/* Whether the text can name an experiment or an arm: letters, digits, dots, dashes and underscores,
 * so that it needs no quoting anywhere. */
bool experiment_name_valid(struct str name);

/* The arm of the job with that id. The first 32 bits of SHA-256 of `NAME/ID`, the highest first,
 * are a point between 0 and 1; arms follow each other by their shares. */
const struct arm *experiment_choose(const struct experiment *experiment, struct str id);

/* ---- With the job ------------------------------------------------------------------------------
 *
 * A job keeps its arm where it keeps its policy (core/trace/context.h): as the first member, or the
 * second if there is a traceparent, before the members of the arm's policy.
 *
 *     {"experiment":"patience/slow","strategy":"exponential","initial_delay":"30s",…}
 */

/* What a job of the arm keeps, in the arena: the traceparent that is kept in `policy`, and the arm
 * in place of all else. */
struct str arm_keep(const struct arm *arm, struct str policy, struct arena *arena);

/* The arm that is kept, as `NAME/ARM`; absent: none. Costs next to nothing where there is no
 * policy. */
struct str arm_kept(struct str policy);

/* The policy alone, without arm and traceparent; absent: there is none. Where it is no slice of the
 * text, `out` has it; failures are the buffer's. */
struct str arm_own_policy(struct str policy, struct buf *out);

/* Takes `NAME/ARM` apart; false: it is something else. */
bool arm_split(struct str kept, struct str *ret_experiment, struct str *ret_arm);

#endif
