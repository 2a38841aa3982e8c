/* tally.h - what `redrive work` has done, counted from the engine's events. */
#ifndef CLI_COMMANDS_WORK_TALLY_H
#define CLI_COMMANDS_WORK_TALLY_H

#include <pthread.h>

#include "base/json/writer.h"
#include "engine/report/events.h"
#include "store/store.h"

struct work_counts {
    uint64_t ran; /* runs that have ended; released ones have not */
    uint64_t completed;
    uint64_t retried;
    uint64_t dead;
    uint64_t failed;
    uint64_t released;
};

struct work_tally {
    struct str worker; /* whose runs count; borrowed */
    pthread_mutex_t mutex;
    struct work_counts counts;
};

void work_tally_init(struct work_tally *tally, struct str worker);
void work_tally_release(struct work_tally *tally);

/* An engine_event_fn whose context is the tally; any thread. */
void work_tally_event(const struct engine_event *event, void *ctx);
struct work_counts work_tally_counts(struct work_tally *tally);

/* What is left in the store. */
struct work_left {
    uint64_t waiting; /* for their time */
    uint64_t parked;
    uint64_t ready;        /* that this worker does not take: no task of its own runs them */
    int64_t next_ready_ms; /* when the first of those waiting is due; 0: none is */
};

/* Reads outside of a transaction, so that it delays no other process: the store is a handle of its
 * own. An absent tenant means all, no queues mean all. */
int work_left(struct store *store, struct str tenant, const struct str *queues, size_t n_queues,
              struct work_left *ret, struct redrive_err *err);

/* The summary for people and for machines. `left` is NULL when it could not be read. */
void work_summary_text(const struct work_counts *counts, const struct work_left *left,
                       int64_t took_ms, struct buf *out);
void work_summary_json(const struct work_counts *counts, const struct work_left *left,
                       int64_t took_ms, struct buf *out);

#endif
