/* judge_breaker.c - what must be true of a breaker, by the answers that workers and operators were
 * given. */
#include "judge.h"

void judge_controlled(struct judge *judge, bool trip, int op_code)
{
    const enum belief done = judge_happened(op_code, 0);
    if (done == IS_NOT)
        return;
    judge->tripped = done == MAYBE ? MAYBE : trip ? IS_SURELY : IS_NOT;
    judge->breaker.counts = false;
    judge->breaker.open_until_ms = 0;
}

/* A call that is no probe was let through: the breaker is closed. A lower generation is that of a
 * new breaker: one without a call for a day is removed, with its failures in a row. */
void judge_breaker_started(struct judge *judge, const struct job *job, int64_t start_ms)
{
    struct heard *b = &judge->breaker;
    const struct breaker_permit permit = job->status.permit;
    if (start_ms < b->open_until_ms)
        judge_complain(judge, 10, "%.*s runs %lld ms after %d failures in a row",
                       (int)job->spec.id.len, job->spec.id.ptr,
                       (long long)(start_ms - (b->open_until_ms - RECOVERY_MS)), CALL_FAILURES);
    if (permit.probe == 0 && permit.generation != b->generation)
        *b = (struct heard){.counts = true, .generation = permit.generation};
}

void judge_breaker_ended(struct judge *judge, const struct known *known, enum belief done,
                         enum breaker_result result, int64_t at_ms)
{
    struct heard *b = &judge->breaker;
    if (!b->counts || known->permit.generation != b->generation || known->permit.probe != 0)
        return;
    if (at_ms > b->called_ms)
        b->called_ms = at_ms;
    if (done == MAYBE)
        b->counts = false;
    else if (result == BREAKER_SUCCESS)
        b->in_a_row = 0;
    else if (result == BREAKER_FAILURE && ++b->in_a_row == CALL_FAILURES) {
        b->open_until_ms = at_ms + RECOVERY_MS;
        b->counts = false;
    }
}

void judge_breaker_time(struct judge *judge, int64_t now_ms)
{
    struct heard *b = &judge->breaker;
    if (b->open_until_ms <= now_ms)
        b->open_until_ms = 0;
    /* It may be forgotten, or not, with its failures; the last call is known to the second. */
    if (now_ms - b->called_ms >= DAY_MS - 1000 && b->in_a_row > 0)
        b->counts = false;
}
