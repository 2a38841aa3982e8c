/* transition.h - the moves of a job, and what each makes of it: the one state machine of all
 * stores.
 *
 * The engine decides which move is made. A store reads the row that the move is about, lets
 * `transition` compute the new row, and writes the answer down: the row, perhaps a row of the
 * history, and what is kept beside them. No store decides any of this by itself. Pure: no I/O, no
 * allocation, time is an argument. Strings in the answer are slices of the old row or of the move;
 * a store copies those that it keeps.
 *
 * Two moves are written a second time: redrive.cancel and redrive.retry of PostgreSQL, because an
 * application calls them in a transaction of its own. tests/store/postgres/test_sql_moves.c
 * compares them with this, state by state.
 *
 * From which states each move may be made
 *   start       queued
 *   park        queued
 *   unpark      parked
 *   promote     scheduled, retrying: those whose time has come
 *   settle      running, by the holder of the token, to a state of core/state.h
 *   adopt       every state
 *   release     waiting, dead_letter, failed
 *   extend      running, by the holder of the token
 *   credit      queued: those that have started in this epoch, and were updated before the pause
 *               ended
 *   cancel      every state that has not ended
 *   run_now     scheduled, retrying
 *   redrive     dead_letter, failed
 *   end         scheduled, retrying, queued, parked, waiting; to dead_letter or failed, anything
 *               else is REDRIVE_E_INVALID
 *   remove      every state that has ended, with the end that the move names, if it names one
 *   edit        dead_letter
 *   skip        waiting
 * From another state, or with a stale token, a move is refused with REDRIVE_E_STATE.
 *
 * What a move leaves in the row, beside the state
 *   every one   updated = the transaction's time, but for adopt, and for release if the state stays
 *   submit      created = the transaction's time; process_after = the spec's, or the transaction's
 *               time when it has none. A seq is never given twice, not even after its job is gone.
 *               Waiting, if it has open parents.
 *   adopt       children grow
 *   release     open parents are fewer; a waiting job that has none any more is queued, or
 *               scheduled if its time has not come
 *   start       attempts + 1, started, first_started (if 0), token, lease, worker, permit. started
 * = the transaction's time, or process_after if that is later and the store's clock may have shown
 * it: it came while the transaction looked for jobs, or another process knows the time better
 *   leaving running, by settle or cancel
 *               token, lease and permit 0; worker and started stay
 *   settle      reason and crashes = the decision's; process_after = store_time_after(the delay)
 * for retrying and scheduled, or INT64_MAX if the sum overflows, else as it was; error and
 * fingerprint unless the error's class is success or the settle leaves no row in the history;
 * result unless absent settle that takes the attempt back attempts - 1, deferrals + 1; back at 0
 * attempts also first_started = paused = 0, so that the epoch's time starts with a start that
 * counts extend      lease, if that is later park        deferrals + 1, parked_by_limit,
 * paused_since = the transaction's time leaving parked, however paused_since = 0, parked_by_limit =
 * false; paused grows by the time in between if the job has started in this epoch (time before the
 * first start is not counted anyway) credit      paused grows by the time from the later of the
 * pause's start and updated to its end run_now     process_after = the transaction's time an end
 * finished = the transaction's time end         reason; error and fingerprint unless the error's
 * class is success skip        cancelled, with reason, error and fingerprint redrive     waiting if
 * it has open parents, else queued; epoch + 1, attempts = crashes = 0, reason none, process_after =
 * the transaction's time, first_started = paused = finished = 0; the rest stays
 *
 * History. Each start that has ended leaves a row, but for the start that is an epoch's first
 * attempt and a success: the job's own row has all of that one (number 1, started, worker, ended =
 * finished), and `history` reads it from there. It reads the attempt that is running from there,
 * too (outcome running, ended 0). A start that is taken back has number 0. A running job that is
 * cancelled by hand leaves a row as well. A job that does not run and is ended with an error, or
 * skipped, leaves a row without a start: number 0, started 0. An error of the job is also one of
 * its history.
 *
 * Unique keys. A job that ends frees its key; a redrive takes it again, and the store refuses that
 * with REDRIVE_E_EXISTS when another live job holds it. Keys that are unique for ever are the
 * store's: they follow from the spec alone.
 */
#ifndef STORE_TRANSITION_H
#define STORE_TRANSITION_H

#include <stddef.h>
#include <stdint.h>

#include "core/breaker/breaker.h"
#include "core/decide.h"
#include "redrive.h"
#include "store/job.h"

/* ---- Time ------------------------------------------------------------------------------------ */

/* The time of a transaction by the store's clock. A store whose server has a clock of its own knows
 * that time only within two bounds; for all others they are equal. */
struct store_time {
    int64_t now_ms; /* not later than the clock: the transaction's time. What is due goes by it */
    int64_t latest_ms; /* not earlier: what must not happen before a span is over counts from it */
};

/* The moment before which what waits for so long must not happen. Without a wait that is now, so
 * that it is due at once. INT64_MAX if the sum overflows. */
static inline int64_t store_time_after(struct store_time time, int64_t wait_ms)
{
    int64_t after_ms;
    if (wait_ms <= 0)
        return time.now_ms;
    return __builtin_add_overflow(time.latest_ms, wait_ms, &after_ms) ? INT64_MAX : after_ms;
}

/* ---- Moves ----------------------------------------------------------------------------------- */

enum move_kind {
    MOVE_START,   /* queued → running: one more attempt, a token, a lease */
    MOVE_PARK,    /* queued → parked */
    MOVE_UNPARK,  /* parked → queued */
    MOVE_PROMOTE, /* scheduled, retrying → queued, when its time has come */
    MOVE_SETTLE,  /* running → what decide() said */
    MOVE_EXTEND,  /* running: a longer lease */
    MOVE_CREDIT,  /* queued: the time of a pause is not the job's own */
    MOVE_ADOPT,   /* any: more children */
    MOVE_RELEASE, /* waiting → queued or scheduled, when no open parent is left */

    /* By hand or by the clock. */
    MOVE_CANCEL,  /* any live state → cancelled */
    MOVE_RUN_NOW, /* scheduled, retrying → queued, process_after = now */
    MOVE_REDRIVE, /* dead_letter, failed → queued or waiting: attempts 0, epoch + 1;
                   * REDRIVE_E_EXISTS when another live job holds its unique key */
    MOVE_END,     /* scheduled, retrying, queued, parked, waiting → dead_letter or failed */
    MOVE_REMOVE,  /* ended → gone, with its history; the result has its last state */
    MOVE_EDIT,    /* dead_letter: another payload */
    MOVE_SKIP,    /* waiting → cancelled: a parent did not end as it must */
};
#define MOVE_KIND_COUNT (MOVE_SKIP + 1)

/* The answer to one move. */
struct move_result {
    int code;                 /* 0, or REDRIVE_E_STATE, _NOT_FOUND, _EXISTS … */
    enum redrive_state state; /* the job's, after the move or its refusal */
    uint32_t children;        /* as the job's row has it; a removed one's last */
};

struct start_move {
    int64_t seq;
    uint64_t token; /* never 0, never used before for this job */
    int64_t lease_until_ms;
    struct str worker;
    struct breaker_permit permit;
};

/* By the holder of the token only. */
struct settle_move {
    int64_t seq;
    uint64_t token;
    const struct decision *decision;
    struct job_error error; /* class_ success: leave the last error alone */
    struct str result;      /* absent: leave it alone */
    uint64_t fingerprint;   /* of the error */
};

/* By the holder of the token only; never to an earlier time. */
struct extend_move {
    int64_t seq;
    uint64_t token;
    int64_t lease_until_ms;
};

/* A waiting or ended job, by hand or by the clock. */
struct change_move {
    int64_t seq;
    enum move_kind kind;        /* MOVE_CANCEL … MOVE_SKIP; another: REDRIVE_E_INVALID */
    enum redrive_state to;      /* MOVE_END: dead_letter or failed, else REDRIVE_E_INVALID */
    enum redrive_reason reason; /* MOVE_END, MOVE_SKIP */
    struct str payload;         /* MOVE_EDIT */
    struct job_error error;     /* the same; class_ success: leave the last error alone */
    uint64_t fingerprint;       /* of the error */

    /* MOVE_REMOVE: the end that was seen. A job that has ended anew since, or that another
     * transaction has locked, is left: the move is refused. 0: whichever end it has. */
    int64_t finished_ms;

    /* MOVE_REMOVE: refused with REDRIVE_E_EXISTS if the row counts children. */
    bool if_childless;

    /* The job as the engine has read it in this transaction, if the engine relies on that; else
     * NULL. Where transactions run side by side and the job has started or stopped since, the slot
     * is REDRIVE_E_CANCELLED. */
    const struct job_status *seen;
};

/* More children, or fewer open parents. */
struct edge_move {
    int64_t seq;
    uint32_t n; /* MOVE_RELEASE: at most all that are open */
};

/* From when to when a queue was paused. */
struct pause_time {
    int64_t since_ms;
    int64_t until_ms;
};

/* A move of one job, with what its kind needs. */
struct move {
    int64_t seq;
    enum move_kind kind;
    bool by_limit; /* MOVE_PARK: by a limit rather than by its breaker */
    union {
        const struct start_move *start;
        const struct settle_move *settle;
        const struct extend_move *extend;
        const struct change_move *change; /* MOVE_CANCEL … MOVE_SKIP */
        const struct pause_time *pause;   /* MOVE_CREDIT */
        const struct edge_move *edge;     /* MOVE_ADOPT, MOVE_RELEASE */
    };
};

/* Moves of one kind. Those from MOVE_CANCEL on are a list of MOVE_CANCEL, in which each has a kind
 * of its own. */
struct move_list {
    enum move_kind kind;
    bool by_limit; /* MOVE_PARK */
    size_t n;
    struct pause_time pause; /* MOVE_CREDIT */
    union {
        const int64_t *seqs; /* MOVE_PARK, MOVE_UNPARK, MOVE_PROMOTE, MOVE_CREDIT */
        const struct start_move *starts;
        const struct settle_move *settles;
        const struct extend_move *extends;
        const struct change_move *changes;
        const struct edge_move *edges;
    };
};

#define STARTS(moves, n_)  (&(const struct move_list){MOVE_START, .n = (n_), .starts = (moves)})
#define SETTLES(moves, n_) (&(const struct move_list){MOVE_SETTLE, .n = (n_), .settles = (moves)})
#define EXTENDS(moves, n_) (&(const struct move_list){MOVE_EXTEND, .n = (n_), .extends = (moves)})
#define CHANGES(moves, n_) (&(const struct move_list){MOVE_CANCEL, .n = (n_), .changes = (moves)})
#define PARKS(seqs_, n_, by_limit_) \
    (&(const struct move_list){MOVE_PARK, (by_limit_), (n_), .seqs = (seqs_)})
#define ADOPTS(moves, n_)   (&(const struct move_list){MOVE_ADOPT, .n = (n_), .edges = (moves)})
#define RELEASES(moves, n_) (&(const struct move_list){MOVE_RELEASE, .n = (n_), .edges = (moves)})
#define UNPARKS(seqs_, n_)  (&(const struct move_list){MOVE_UNPARK, .n = (n_), .seqs = (seqs_)})

struct move move_at(const struct move_list *list, size_t i);

/* Whether all moves of the list remove jobs that a scan has found: none is in it twice, and those
 * that other transactions have locked are skipped instead of waited for. */
bool move_list_is_sweep(const struct move_list *list);

/* ---- Jobs that come in ----------------------------------------------------------------------- */

/* The answer to one submit. */
struct submit_result {
    int code; /* 0; REDRIVE_E_EXISTS with the fields of the job that holds id or key */
    int64_t seq;
    enum redrive_state state;
    struct str id; /* of the job that now stands for the submit; in the page given to submit */
};

/* A job that comes from another store, as it was there. */
struct imported_job {
    const struct job *job;              /* its seq is the other store's, and is not kept */
    const struct job_attempt *attempts; /* as the other store's `history` gave them */
    size_t n_attempts;
    const struct copied_edge *edges; /* from its parents; a store does not look at them */
    size_t n_edges;
};

/* How many of its attempts need a row of the history, from the first on: all but the last one if
 * the job's own row has that. */
size_t imported_rows(const struct imported_job *imported);

/* ---- What they make of a job ------------------------------------------------------------------
 */

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
void transition(struct job_status *status, const struct move *move, struct store_time time,
                struct transition *ret);

/* The row of a new job. */
static inline struct job_status transition_submit(const struct job_spec *spec, int64_t seq,
                                                  int64_t now_ms)
{
    const int64_t after_ms = spec->process_after_ms;
    return (struct job_status){
        .seq = seq,
        .state = spec->open_parents > 0 ? REDRIVE_STATE_WAITING
                 : after_ms > now_ms    ? REDRIVE_STATE_SCHEDULED
                                        : REDRIVE_STATE_QUEUED,
        .process_after_ms = after_ms != 0 ? after_ms : now_ms,
        .created_ms = now_ms,
        .updated_ms = now_ms,
        .parents = spec->parents,
        .open_parents = spec->open_parents,
        .children = spec->children,
    };
}

/* The states that a move may be made from, as a bit mask; for stores that look for such jobs. */
uint32_t transition_from(enum move_kind kind);

/* The attempt that has no row in the history because the job's own row has it; false when there is
 * none. `ret` may be NULL. */
bool transition_attempt_in_row(const struct job_status *status, struct job_attempt *ret);

#endif
