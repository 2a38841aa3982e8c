/* gate.h - a gate: what a job may have to wait for, a breaker or a limit; and the table of those
 * that this process knows.
 *
 * A limit is what its task has of these: slots, a rate, a retry budget. A job must pass all of
 * them; the budget holds only retries, so that first attempts may wait beside them in the same
 * gate. How much a budget has left is in the limit's row, as the tokens of a rate are. How many
 * slots there are may follow what the service can take (core/limit/adaptive.h): then the row says
 * how many there are now.
 *
 * A breaker or a limit has a key; jobs with the same key in the same tenant share it, and so do all
 * processes, through a row that is compared and set. A gate is changed in memory while a
 * transaction is open, marked, and written once at the transaction's end (gates.h). What is here
 * needs no engine and no store.
 *
 * Of a limit, slots in use and candidates are sums that the store keeps (struct gate_sums), and
 * that a transaction adds to: processes that start and settle jobs under the same limit do not
 * conflict, and the store refuses a transaction that would start one too many. The copy here may be
 * behind: it is renewed by every commit that adds, by every look for jobs of the limit, and while
 * jobs are parked every GATE_LOOK_MS. One that is behind sends a candidate too many or too few
 * ahead, no more.
 *
 * Whether jobs are parked under a limit is not written with every job that is parked: such a
 * transaction only compares the version of the row. So a process that finds none parked writes that
 * it seems so, which raises the version; one that parks a job from then on writes that as well; and
 * when still none is found the limit has none. If a process ends in between, the others go on.
 *
 * Jobs parked in a gate go back to the queue as candidates: as many as could be started now. A
 * candidate is counted until a claim has met it, so that a gate is not emptied while no worker
 * claims; one that never arrives (cancelled, its queue paused) is given up after a while.
 *
 * A gate that says no more than a new one would is spent, and is removed with its row: keys are
 * often made of payloads, and their number has no bound.
 *
 * A breaker's window may be behind in the store: a process that wrote a row for every job would
 * conflict with all others. Successes are written after a second at the latest; failures and slow
 * calls after a tenth of one, as long as there are less than half as many as would open the breaker
 * and a success has ended the row of failures again. Everything else (state, generation, probes,
 * failures in a row) is written in the transaction of the job that it comes from. Calls that are
 * not written yet are kept apart, and added to whatever is read from the store: neither a row that
 * another process has changed nor a transaction that has failed makes a breaker forget them.
 */
#ifndef ENGINE_GATES_GATE_H
#define ENGINE_GATES_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/mem/map.h"
#include "base/text/buf.h"
#include "core/breaker/breaker.h"
#include "core/limit/adaptive.h"
#include "core/limit/budget.h"
#include "core/limit/limit.h"
#include "store/store.h"

#define GATE_CANDIDATE_MS 30000
#define GATE_LOOK_MS      5000

/* What the row of a limit says, beside its sums. */
struct limit_row {
    bool has_parked;
    bool seems_empty;
    int64_t candidates_until_ms;
    struct bucket bucket;
    struct rate rate;
    uint32_t max;
    struct budget budget;
    struct budget_config budget_config;
    int64_t cut_ms;
    double grown; /* not in the row: as of the last commit of this process */
    struct adaptive_config adaptive_config;
};

struct gate {
    enum shared_kind kind; /* SHARED_BREAKER or SHARED_LIMIT */
    char *tenant;
    char *key;
    int64_t version;
    bool marked;
    bool may_go;         /* if it is spent at the transaction's end, it goes */
    bool is_urgent;      /* it must be written at the transaction's end */
    bool is_written;     /* it was, and the transaction is not committed yet */
    uint32_t load;       /* the latest gates_load that has found it in the store */
    bool has_parked;     /* jobs may be parked here */
    uint32_t candidates; /* of a limit also in the store's sums, as are the slots */
    int64_t candidates_until_ms;
    union {
        struct {
            struct breaker breaker;
            struct redrive_breaker_config breaker_config;
            struct release release; /* rate 0: nothing is being let go */
            struct breaker saved;   /* as the store has it */
            bool saved_holds;       /* by that, jobs are parked here or are being let go */
            int64_t saved_ms;       /* when this process has written or first read it */

            /* Calls of committed transactions that are not in the store's row. */
            struct breaker_window unsaved;
            uint64_t unsaved_generation;
            bool has_unsaved;
            struct breaker_counts
                transaction; /* calls of the open transaction that count in the window */
        };
        struct {
            struct bucket bucket;
            struct rate rate; /* count 0: none */
            struct slots slots;
            struct budget budget;
            struct budget_config budget_config;
            struct adaptive adaptive;               /* slots.max follows it … */
            struct adaptive_config adaptive_config; /* … if this is set */
            uint32_t renewed;     /* as of which change of the tasks (state.h) its row is … */
            uint32_t renews;      /* … and it is here, which the open transaction writes */
            bool seems_empty;     /* has_parked, but none were found */
            bool parks;           /* jobs of the open transaction */
            bool starts;          /* likewise */
            struct gate_sums add; /* by the open transaction */
            struct merged_gate merged; /* after its commit */
            struct limit_row kept_row; /* as the store has it */
        };
    };
};

struct gates {
    struct map breakers; /* tenant, zero byte, key → struct gate */
    struct map limits;
    struct gate **marked;
    size_t n_marked;
    size_t capacity;
    uint32_t loads;
    bool wants_count;  /* slots in use are to be counted when the next transaction begins */
    bool are_counted;  /* they have been since the connection was made … */
    bool were_counted; /* … or in the open transaction */
    int64_t flush_ms;  /* when unsaved calls are to be written; INT64_MAX: there are none */
    int64_t seen_ms;   /* when the sums of all limits were last read */
    bool are_unknown;  /* the copies are known to be old: everything is to be read again */
    bool are_fresh;    /* they were read in the open transaction */
};

/* ---- The table ------------------------------------------------------------------------------- */

void gates_init(struct gates *gates, uint64_t seed);
void gates_release(struct gates *gates);

/* The gate of a key; NULL: there is none. */
struct gate *gate_find(const struct map *map, struct str tenant, struct str key);

/* Adds a gate that is not there; takes one out and frees it. */
int gate_new(struct gates *gates, enum shared_kind kind, struct str tenant, struct str key,
             struct gate **ret, struct redrive_err *err);
void gate_drop(struct gates *gates, struct gate *gate);
/* As a new one: a closed breaker without counts, or a limit that nothing is known of. */
void gate_reset(struct gate *gate);

/* A gate that is to be written at the transaction's end. */
int gate_mark(struct gates *gates, struct gate *gate, struct redrive_err *err);

/* ---- Candidates and slots -------------------------------------------------------------------- */

/* How many more jobs of the gate may be sent ahead, of `room` that could start. */
uint32_t gate_wants(const struct gate *gate, uint32_t room, int64_t now_ms);
/* `n` were sent, or one has arrived. */
void gate_sent(struct gate *gate, uint32_t n, int64_t now_ms);
void gate_arrived(struct gate *gate);

/* A job has been parked. */
void gate_parked(struct gate *gate);

/* A job starts under the limit, or one that has started has ended. */
void gate_take_slot(struct gate *gate);
void gate_give_slot(struct gate *gate);
/* Whether parked jobs of the limit could start, as far as slots go. */
bool gate_has_slots(const struct gate *gate);

/* How many jobs its task lets run at one time, which holds from now on; 0: there is no limit. */
void gate_set_slots(struct gate *gate, uint32_t max, const struct adaptive_config *config);
/* A job of a limit that may be adaptive has ended, and its slot is given back: it succeeded, or it
 * was too much for its service. */
void gate_succeeded(struct gate *gate);
void gate_overloaded(struct gate *gate, int64_t started_ms, int64_t now_ms);

/* The budget that its task has, which holds from now on. */
void gate_set_budget(struct gate *gate, const struct budget_config *config, int64_t now_ms);
/* How long a job has to wait for the limit, as far as time alone decides: for its rate, and for the
 * budget if it is a retry. 0: it may start, if there are slots. */
int64_t gate_wait_ms(const struct gate *gate, bool is_retry, int64_t now_ms);

/* ---- State ----------------------------------------------------------------------------------- */

/* Reports how a permitted run went and how long it took, and starts or slows the release. */
void gate_record(struct gate *gate, struct breaker_permit permit, enum breaker_result result,
                 int64_t run_ms, int64_t now_ms);

/* Times of the gate that lie ahead because the clock was ahead and has been set back begin anew
 * from now (core/elapsed.h). To be called before a gate is asked. Whether the gate has changed:
 * then it is to be marked. */
bool gate_follow_clock(struct gate *gate, int64_t now_ms);

/* Whether a breaker that is open or half open has no job to probe with: its time for a probe has
 * come, no probe is out, and no job waits for it. The next job that comes goes as the probe,
 * whenever that is, so that such a breaker says nothing about how things are now. */
bool gate_is_idle(const struct gate *gate, int64_t now_ms);

/* Whether it can be removed: nothing is parked or under way, and
 *   - a closed breaker has heard of no run for an hour (a day if it has ever been open, or if the
 *     last run failed) and longer than its window;
 *   - an open one could have let a probe go for a week, and no job came;
 *   - a limit has been full for an hour.
 * What was set by hand stays. */
bool gate_is_spent(const struct gate *gate, int64_t now_ms);

/* A gate's row, both ways, without its sums; gate_decode gives CORRUPT when the bytes are damaged,
 * or NOMEM. In gate_row.c. */
void gate_encode(const struct gate *gate, struct buf *out);
int gate_decode(struct gate *gate, struct str bytes);
/* A gate apart from any table, as the store has it, for this time (gate_follow_clock).
 * REDRIVE_E_CORRUPT names a damaged row. */
int gate_of_row(const struct shared_row *row, int64_t now_ms, struct gate *ret,
                struct redrive_err *err);

#endif
