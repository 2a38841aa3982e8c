/* renewal.c - when leases are extended, and when they are over by the worker's own clock. */
#include "engine/worker/renewal.h"

/* ---- A lease --------------------------------------------------------------------------------- */

void held_lease_give(struct held_lease *lease, int64_t sent_ms, int64_t lease_ms)
{
    const int64_t until_ms = sent_ms + lease_ms;
    lease->since_ms = sent_ms;
    if (until_ms > lease->until_ms)
        lease->until_ms = until_ms;
}

bool held_lease_is_over(const struct held_lease *lease, int64_t now_ms)
{
    return now_ms >= lease->until_ms;
}

bool lease_may_have_earlier_run(const struct job *job)
{
    return job->status.attempts > 1 || job->status.epoch > 0;
}

/* ---- Extensions ------------------------------------------------------------------------------ */

enum renewal_fate renewal_fate(int op_code, int item_code)
{
    if (op_code < 0 || (item_code < 0 && redrive_err_retryable(item_code)))
        return RENEWAL_UNKNOWN;
    return item_code < 0 ? RENEWAL_LOST : RENEWAL_KEPT;
}

/* The pause after a failure is for all leases of the task. */
static int64_t due_ms(const struct renewal *renewal, const struct held_lease *lease)
{
    const int64_t due_ms = lease->since_ms + renewal->task->heartbeat_ms;
    return due_ms > renewal->not_before_ms ? due_ms : renewal->not_before_ms;
}

bool renewal_is_due(const struct renewal *renewal, const struct held_lease *lease, int64_t now_ms)
{
    return !renewal->is_under_way && now_ms >= due_ms(renewal, lease);
}

bool renewal_takes(const struct renewal *renewal, const struct held_lease *lease, int64_t now_ms)
{
    return now_ms - lease->since_ms >= renewal->task->heartbeat_ms / 2;
}

int64_t renewal_next_ms(const struct renewal *renewal, const struct held_lease *lease,
                        int64_t now_ms)
{
    const int64_t due = renewal->is_under_way ? RENEWAL_NEVER : due_ms(renewal, lease);
    return lease->until_ms > now_ms && lease->until_ms < due ? lease->until_ms : due;
}

void renewal_sent(struct renewal *renewal, int64_t now_ms)
{
    renewal->is_under_way = true;
    renewal->sent_ms = now_ms;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void renewal_answered(struct renewal *renewal, bool has_failed, int64_t now_ms)
{
    renewal->is_under_way = false;
    if (!has_failed) {
        renewal->pause_ms = renewal->not_before_ms = 0;
        return;
    }
    const int64_t next_ms = renewal->pause_ms > 0 ? renewal->pause_ms * 2 : RENEWAL_PAUSE_MS;
    renewal->pause_ms = least(next_ms, renewal->task->heartbeat_ms / 2);
    renewal->not_before_ms = now_ms + renewal->pause_ms;
}
