/* move.h - what may become of a job: the moves that a store is given, and their answers; and how
 * jobs come in.
 *
 * Plain data. The engine decides which move is made; transition.h says from which states it may be
 * made and what it leaves in the row; a store carries it out. A slot is given a list of moves of
 * one kind.
 */
#ifndef STORE_MOVE_H
#define STORE_MOVE_H

#include <stddef.h>
#include <stdint.h>

#include "core/breaker/breaker.h"
#include "core/decide.h"
#include "redrive.h"
#include "store/job.h"

enum move_kind {
    MOVE_START,   /* queued → running: one more attempt, a token, a lease */
    MOVE_PARK,    /* queued → parked */
    MOVE_UNPARK,  /* parked → queued */
    MOVE_PROMOTE, /* scheduled, retrying → queued, when its time has come */
    MOVE_SETTLE,  /* running → what decide() said */
    MOVE_EXTEND,  /* running: a longer lease */
    MOVE_CREDIT,  /* queued: the time of a pause is not the job's own */

    /* By hand or by the clock. */
    MOVE_CANCEL,  /* any live state → cancelled */
    MOVE_RUN_NOW, /* scheduled, retrying → queued, process_after = now */
    MOVE_REDRIVE, /* dead_letter, failed → queued: attempts 0, epoch + 1; REDRIVE_E_EXISTS when
                   * another live job holds its unique key */
    MOVE_END,     /* scheduled, retrying, queued, parked → dead_letter or failed */
    MOVE_REMOVE,  /* ended → gone, with its history; the result has its last state */
    MOVE_EDIT,    /* dead_letter: another payload */
};
#define MOVE_KIND_COUNT (MOVE_EDIT + 1)

/* The answer to one move. */
struct move_result {
    int code;                 /* 0, or REDRIVE_E_STATE, _NOT_FOUND, _EXISTS … */
    enum redrive_state state; /* the job's, after the move or its refusal */
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
    enum move_kind kind;        /* MOVE_CANCEL … MOVE_EDIT; another: REDRIVE_E_INVALID */
    enum redrive_state to;      /* MOVE_END: dead_letter or failed, else REDRIVE_E_INVALID */
    enum redrive_reason reason; /* MOVE_END */
    struct str payload;         /* MOVE_EDIT */
    struct job_error error;     /* MOVE_END; class_ success: leave the last error alone */
    uint64_t fingerprint;       /* of the error */

    /* MOVE_REMOVE: the end that was seen. A job that has ended anew since, or that another
     * transaction has locked, is left: the move is refused. 0: whichever end it has. */
    int64_t finished_ms;

    /* The job as the engine has read it in this transaction, if it makes anything of that; NULL: it
     * does not. Where transactions run side by side and the job has started or stopped since, the
     * slot is REDRIVE_E_CANCELLED. */
    const struct job_status *seen;
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
        const struct change_move *change; /* MOVE_CANCEL … MOVE_EDIT */
        const struct pause_time *pause;   /* MOVE_CREDIT */
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
    };
};

#define STARTS(moves, n_)  (&(const struct move_list){MOVE_START, .n = (n_), .starts = (moves)})
#define SETTLES(moves, n_) (&(const struct move_list){MOVE_SETTLE, .n = (n_), .settles = (moves)})
#define EXTENDS(moves, n_) (&(const struct move_list){MOVE_EXTEND, .n = (n_), .extends = (moves)})
#define CHANGES(moves, n_) (&(const struct move_list){MOVE_CANCEL, .n = (n_), .changes = (moves)})
#define PARKS(seqs_, n_, by_limit_) \
    (&(const struct move_list){MOVE_PARK, (by_limit_), (n_), .seqs = (seqs_)})
#define UNPARKS(seqs_, n_) (&(const struct move_list){MOVE_UNPARK, .n = (n_), .seqs = (seqs_)})

struct move move_at(const struct move_list *list, size_t i);

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
};

/* How many of its attempts need a row of the history, from the first on: all, but for a last one
 * that the job's own row tells of. */
size_t imported_rows(const struct imported_job *imported);

#endif
