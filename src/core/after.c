/* after.c - what a job that waits for another one does when that one ends. */
#include "core/after.h"

#include "core/state.h"

const char *const AFTER_ON_WORDS[] = {"success", "end", "failure", NULL};
const char *const AFTER_DEAD_WORDS[] = {"wait", "cancel", "run", NULL};
static const char *const OUTCOMES[AFTER_OUTCOME_COUNT] = {"open", "met", "missed"};

/* Of a rule on success whose parent has ended without one. */
static enum after_outcome without_success(enum after_dead on_dead, bool may_be_redriven)
{
    switch (on_dead) {
    case AFTER_DEAD_RUN: return AFTER_MET;
    case AFTER_DEAD_WAIT: return may_be_redriven ? AFTER_OPEN : AFTER_MISSED;
    case AFTER_DEAD_CANCEL:
    default: return AFTER_MISSED;
    }
}

enum after_outcome after_decide(struct after_rule rule, enum redrive_state parent, bool is_gone)
{
    const bool is_success = parent == REDRIVE_STATE_COMPLETED;
    if (!state_has_ended(parent))
        return AFTER_OPEN;
    if (rule.on == AFTER_END)
        return AFTER_MET;
    if (rule.on == AFTER_FAILURE)
        return is_success ? AFTER_MISSED : AFTER_MET;
    return is_success
               ? AFTER_MET
               : without_success(rule.on_dead, !is_gone && parent != REDRIVE_STATE_CANCELLED);
}

const char *after_on_name(enum after_on on)
{
    return AFTER_ON_WORDS[on];
}

const char *after_dead_name(enum after_dead on_dead)
{
    return AFTER_DEAD_WORDS[on_dead];
}

const char *after_outcome_name(enum after_outcome outcome)
{
    return OUTCOMES[outcome];
}

bool after_on_find(struct str word, enum after_on *ret)
{
    for (int i = 0; i < AFTER_ON_COUNT; i++)
        if (str_is(word, AFTER_ON_WORDS[i])) {
            *ret = (enum after_on)i;
            return true;
        }
    return false;
}

bool after_dead_find(struct str word, enum after_dead *ret)
{
    for (int i = 0; i < AFTER_DEAD_COUNT; i++)
        if (str_is(word, AFTER_DEAD_WORDS[i])) {
            *ret = (enum after_dead)i;
            return true;
        }
    return false;
}
