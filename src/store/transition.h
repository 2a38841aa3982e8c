/* transition.h - what a move makes of a job: the one state machine of all stores.
 *
 * A store reads the row that a move is about, lets `transition` compute what becomes of it, and
 * writes the answer down: the row, perhaps a row of the history, and what stands beside them. No
 * store decides any of this by itself. Pure: no I/O, no allocation, time is an argument. Strings in
 * the answer are slices of the old row or of the move; a store copies those that it keeps.
 *
 * From which states each move may be made
 *   start       queued
 *   park        queued
 *   unpark      parked
 *   promote     scheduled, retrying: those whose time has come
 *   settle      running, by the holder of the token, to a state of core/state.h
 *   extend      running, by the holder of the token
 *   credit      queued: those that have started in this epoch, and were updated before the pause
 *               ended
 *   cancel      every state that has not ended
 *   run_now     scheduled, retrying
 *   redrive     dead_letter, failed
 *   end         scheduled, retrying, queued, parked; to dead_letter or failed, anything else is
 *               REDRIVE_E_INVALID
 *   remove      every state that has ended, with the end that the move names, if it names one
 *   edit        dead_letter
 * From another state, or with a stale token, a move is refused with REDRIVE_E_STATE.
 *
 * What a move leaves in the row, beside the state
 *   every one   updated = the transaction's time
 *   submit      created = the transaction's time; process_after = the spec's, or the transaction's
 *               time when it has none. A seq is never given twice, not even after its job is gone.
 *   start       attempts + 1, started, first_started (if 0), token, lease, worker, permit
 *   leaving running, by settle or cancel
 *               token, lease and permit 0; worker and started stay
 *   settle      reason and crashes = the decision's; process_after = the transaction's time + delay
 *               for retrying and scheduled, or the end of time if that is later than can be told,
 *               else as it was; error and fingerprint unless the error's class is success or the
 *               settle leaves no row in the history; result unless absent
 *   settle that takes the attempt back
 *               attempts - 1, deferrals + 1; back at 0 attempts also first_started = paused = 0, so
 *               that the epoch's time starts with a start that counts
 *   extend      lease, if that is later
 *   park        deferrals + 1, parked_by_limit, paused_since = the transaction's time
 *   leaving parked, however
 *               paused_since = 0, parked_by_limit = false; paused grows by the time in between if
 *               the job has started in this epoch (time before the first start is not counted
 *               anyway)
 *   credit      paused grows by the time from the later of the pause's start and updated to its end
 *   run_now     process_after = the transaction's time
 *   an end      finished = the transaction's time
 *   end         reason; error and fingerprint unless the error's class is success
 *   redrive     epoch + 1, attempts = crashes = 0, reason none, process_after = the transaction's
 *               time, first_started = paused = finished = 0; the rest stays
 *
 * History. Each start that has ended leaves a row, but for the start that is an epoch's first
 * attempt and a success: the job's own row tells all about that one (number 1, started, worker,
 * ended = finished), and history reads it from there. So it does the attempt that is running
 * (outcome running, ended 0). A start that is taken back has number 0. A running job that is
 * cancelled by hand leaves a row as well. A waiting job that is ended with an error leaves a row
 * without a start: number 0, started 0. An error of the job is also one of its history.
 *
 * Unique keys. A job that ends frees its key; a redrive takes it again, and the store refuses that
 * with REDRIVE_E_EXISTS when another live job holds it. Keys that are unique for ever are the
 * store's: they follow from the spec alone.
 */
#ifndef STORE_TRANSITION_H
#define STORE_TRANSITION_H

#include "store/move.h"

/* What becomes of the live unique key, of jobs that have one. */
enum key_move {
    KEY_STAYS,
    KEY_IS_TAKEN,
    KEY_IS_FREED,
};

struct transition {
    int code; /* 0, or the refusal; then nothing else is set */
    enum key_move key;
    bool replaces_error;   /* status.error and status.fingerprint */
    bool replaces_result;  /* status.result */
    bool replaces_payload; /* the spec's, by the move's */
    bool removes_job;      /* the row goes, with its history */
    bool adds_attempt;
    struct job_attempt attempt; /* the row of the history; not set without adds_attempt */
};

/* Changes the row as the move says; a refused one leaves it as it was. */
void transition(struct job_status *status, const struct move *move, int64_t now_ms,
                struct transition *ret);

/* The row of a new job. */
static inline struct job_status transition_submit(const struct job_spec *spec, int64_t seq,
                                                  int64_t now_ms)
{
    const int64_t after_ms = spec->process_after_ms;
    return (struct job_status){
        .seq = seq,
        .state = after_ms > now_ms ? REDRIVE_STATE_SCHEDULED : REDRIVE_STATE_QUEUED,
        .process_after_ms = after_ms != 0 ? after_ms : now_ms,
        .created_ms = now_ms,
        .updated_ms = now_ms,
    };
}

/* The states that a move may be made from, as a bit mask; for stores that look for such jobs. */
uint32_t transition_from(enum move_kind kind);

/* The attempt that has no row in the history because the job's own row tells of it; false when
 * there is none. `ret` may be NULL. */
bool transition_attempt_in_row(const struct job_status *status, struct job_attempt *ret);

#endif
