/* state.h - the inside of an engine: its fields, and the small functions that every file of this
 * module uses. For the files of this module only. */
#ifndef ENGINE_STATE_H
#define ENGINE_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "base/mem/arena.h"
#include "base/mem/map.h"
#include "core/breaker/health.h"
#include "core/quantile.h"
#include "engine/engine.h"
#include "engine/shards/fence.h"
#include "engine/gates/gate.h"
#include "engine/running.h"

/* See clock/cron_entries.h. */
struct cron_entries {
    struct cron_entry *slots; /* by tenant, then name, as bytes */
    size_t n;
};

/* See clock/retention.h. */
struct sweep_pace {
    int64_t next_ms;  /* when the next step is */
    int64_t every_ms; /* between the last one and that; 0: there was none */
    size_t batch;     /* how many jobs it looks at; 0: as many as the first one */
};
#define SWEEP_KINDS 3

/* What the log has said about rows that cannot be read; see rows.h. */
#define SAID_MAX 64
struct said {
    uint64_t hashes[SAID_MAX];
    size_t n; /* of all, also those whose places others have taken */
};

struct engine {
    struct engine_options options;
    pthread_mutex_t config_mutex; /* guards options.config against the threads that ask for it */
    struct store *store;
    const struct store_ops *ops;
    struct store_status *store_status;
    struct config_task builtin; /* without a configuration, every task */
    struct classifier *classifier;
    struct rng rng;
    struct id_gen ids;

    /* How far the clock of a store that has one is ahead of ours, as of the last transaction. */
    atomic_int_least64_t skew_ms;

    /* The open transaction. */
    int64_t now_ms;
    int64_t latest_ms;     /* the upper bound of what now_ms is the lower one of */
    bool touched;          /* it has something to commit */
    bool made_ready;       /* jobs have come into the queue, in this transaction or a former one */
    uint32_t notification; /* what it is to other processes; see store_notify */
    int64_t puts;          /* of shared rows that raise the shared version */
    struct arena arena;
    struct engine_event *events;
    size_t n_events;
    size_t events_capacity;
    size_t n_decided; /* children of skipped jobs, in so many rounds: see verbs/after.h */
    size_t n_rounds;
    uint64_t map_seed; /* for tables that last no longer than an operation */

    /* What is cached of the store, as of this shared version; -1: nothing. */
    int64_t shared_seen;
    struct gates gates;
    struct cron_entries cron_entries;
    struct fence fence;
    struct map published;  /* by task: struct published_task, see tasks.c */
    uint32_t task_changes; /* rises when a task may be defined otherwise than before; from 1 on */

    bool is_brief;        /* see engine_wait_briefly */
    int64_t lock_wait_ms; /* of the next transactions; see store_wait_for_locks */
    uint64_t conflicts;   /* transactions that were made again because of other processes */
    struct running running;
    bool has_claimed;
    bool come_back; /* callers whose claims are served come back at once, as it seems */
    const struct claim_filter *ahead; /* what they will look for then; NULL: not known */
    size_t n_ahead;                   /* and how many of these, */
    size_t n_ahead_claims;            /* in so many claims */
    bool is_leader;                   /* for all processes that use the store */
    int64_t wake_ms;                  /* when jobs want engine_tick; INT64_MAX: never */
    int64_t own_ms;                   /* when this process's own configuration does; likewise */
    struct sweep_pace sweep[SWEEP_KINDS];
    struct sweep_pace sweep_before[SWEEP_KINDS]; /* as of the last transaction that was committed */
    bool is_sweeping;                            /* the transaction has a step of retention */
    int64_t sweep_took_ms;                       /* the last such transaction */
    struct sweep_mark *sweep_marks;              /* see clock/retention.h */
    size_t n_sweep_marks; /* 0: they start anew, as after a change of tasks */
    int64_t alert_ms;
    int64_t cancels_ms;        /* when cancels in the store were last looked for; 0: never */
    struct alert_event *fired; /* by this transaction, in its arena */
    size_t n_fired;
    int64_t started_ms;
    struct said said;
    uint64_t runs; /* attempts that have ended and were told of */
    uint64_t failed_runs;
    struct health health;
    struct quantile run_time;
};

/* Asks for a tick at that time, or before. 0 asks for nothing. */
static inline void engine_want(struct engine *e, int64_t at_ms)
{
    if (at_ms != 0 && at_ms < e->wake_ms)
        e->wake_ms = at_ms;
}

/* The same for what a process does by its own configuration, whichever process is the leader. */
static inline void engine_want_own(struct engine *e, int64_t at_ms)
{
    if (at_ms != 0 && at_ms < e->own_ms)
        e->own_ms = at_ms;
}

/* The transaction has put jobs into the queue. */
static inline void engine_made_some_ready(struct engine *e)
{
    e->made_ready = true;
    e->notification |= STORE_NOTIFY_READY;
}

/* A job of the transaction waits for that time: other processes must know, as this one may end
 * before. 0: for none. */
static inline void engine_waits_until(struct engine *e, int64_t at_ms)
{
    engine_want(e, at_ms);
    if (at_ms != 0)
        e->notification |= STORE_NOTIFY_TIME;
}

/* The store has set its unsure_ms anew. */
static inline void engine_note_latest(struct engine *e)
{
    e->latest_ms = e->now_ms + store_base(e->store)->unsure_ms;
}

static inline struct store_time engine_time(const struct engine *e)
{
    return (struct store_time){e->now_ms, e->latest_ms};
}

/* The end of a lease that begins in this transaction: the lease lasts for so long by the store's
 * clock, but for no longer than the longest span. */
int64_t engine_lease_until(const struct engine *e, int64_t lease_ms);

/* This process's own clock, or the one that it was given. */
int64_t engine_clock_ms(const struct engine *e);

/* Notes how far that clock is off, from the time that a transaction was to have and the time that
 * the store has given it. The wait for the transaction must not count as a difference of the
 * clocks; a store without a clock gives back what it was asked with. */
void engine_note_time(struct engine *e, int64_t asked_ms, int64_t now_ms);

#endif
