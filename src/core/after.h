/* after.h - what a job that waits for another one does when that one ends: pure.
 *
 * A job may wait for others: its parents. Each parent has a rule, `on` which end the job may run
 * and what happens `on_dead`, and the rule has an outcome: it is open as long as the parent may
 * still end in the right way, then met or missed. A job runs when all of its rules are met; one
 * that is missed cancels it. An outcome that is not open is never changed, whatever becomes of the
 * parent later.
 *
 *     on        the parent     completed   dead_letter, failed   cancelled   gone
 *     success                  met         as on_dead says       missed *    missed *
 *     end                      met         met                   met         met
 *     failure                  missed      met                   met         met
 *
 *     on_dead   wait: open, until the parent is redriven and completes; cancel: missed; run: met.
 *     *         met with on_dead: run.
 *
 * A parent that was removed by hand while its rule was open is gone.
 */
#ifndef CORE_AFTER_H
#define CORE_AFTER_H

#include <stdint.h>

#include "base/text/str.h"
#include "redrive.h"

enum after_on {
    AFTER_SUCCESS,
    AFTER_END,
    AFTER_FAILURE,
};
#define AFTER_ON_COUNT (AFTER_FAILURE + 1)

enum after_dead {
    AFTER_DEAD_WAIT,
    AFTER_DEAD_CANCEL,
    AFTER_DEAD_RUN,
};
#define AFTER_DEAD_COUNT (AFTER_DEAD_RUN + 1)

enum after_outcome {
    AFTER_OPEN,
    AFTER_MET,
    AFTER_MISSED,
};
#define AFTER_OUTCOME_COUNT (AFTER_MISSED + 1)

struct after_rule {
    enum after_on on;
    enum after_dead on_dead;
};

/* The most parents of a job, and the most children of one: what is released in one transaction. */
#define AFTER_MAX 16384

/* The outcome when the parent is in this state; `is_gone`: it is removed from there. */
enum after_outcome after_decide(struct after_rule rule, enum redrive_state parent, bool is_gone);

/* A rule, and an outcome, as stores keep them. A number that none has is read as the rule 0, or as
 * an open outcome. */
static inline int64_t after_rule_number(struct after_rule rule)
{
    return (int64_t)rule.on + AFTER_ON_COUNT * (int64_t)rule.on_dead;
}
static inline struct after_rule after_rule_numbered(int64_t number)
{
    if (number < 0 || number >= AFTER_ON_COUNT * AFTER_DEAD_COUNT)
        return (struct after_rule){AFTER_SUCCESS, AFTER_DEAD_WAIT};
    return (struct after_rule){(enum after_on)(number % AFTER_ON_COUNT),
                               (enum after_dead)(number / AFTER_ON_COUNT)};
}
static inline enum after_outcome after_outcome_numbered(int64_t number)
{
    return number > 0 && number < AFTER_OUTCOME_COUNT ? (enum after_outcome)number : AFTER_OPEN;
}

/* The words of rules, in the order of their numbers; NULL ends them. */
extern const char *const AFTER_ON_WORDS[AFTER_ON_COUNT + 1];
extern const char *const AFTER_DEAD_WORDS[AFTER_DEAD_COUNT + 1];

const char *after_on_name(enum after_on on);
const char *after_dead_name(enum after_dead on_dead);
const char *after_outcome_name(enum after_outcome outcome); /* open, met, missed */

/* False: there is no such word. */
bool after_on_find(struct str word, enum after_on *ret);
bool after_dead_find(struct str word, enum after_dead *ret);

#endif
