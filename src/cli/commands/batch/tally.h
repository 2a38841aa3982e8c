/* tally.h - what a run of `redrive batch` has done and what it leaves, and how it says so. */
#ifndef CLI_COMMANDS_BATCH_TALLY_H
#define CLI_COMMANDS_BATCH_TALLY_H

#include <stdatomic.h>

#include "cli/commands/batch/feed.h"
#include "cli/frame/cli.h"
#include "engine/engine.h"
#include "engine/event.h"

/* Counted from the events of one task, on the committer's thread; read on any. */
struct batch_tally {
    struct str task; /* borrowed */
    atomic_uint_least64_t successful;
    atomic_uint_least64_t retried;
    atomic_uint_least64_t dead; /* failed ones included */
};

/* An engine_event_fn, whose ctx is the tally. */
void batch_tally_event(const struct engine_event *event, void *ctx);

/* What has become of records, one way or another. */
uint64_t batch_tally_ended(const struct batch_tally *tally);

/* What is left of a task in the store. */
struct batch_left {
    uint64_t waiting; /* for their time, or for a worker */
    uint64_t parked;
    uint64_t running;      /* elsewhere, or left behind by a run that was killed */
    int64_t next_ready_ms; /* when the first that waits for its time is due; 0: none does */
};

/* Reads outside of a transaction, so that it delays no other process: the store is a handle of its
 * own. */
int batch_left(struct store *store, struct str task, struct batch_left *ret,
               struct redrive_err *err);

struct batch_summary {
    const char *task;
    bool has_input;
    struct feed_counts feed;
    uint64_t successful;
    uint64_t retried;
    uint64_t dead;
    const struct batch_left *left; /* NULL: it could not be read */
    int64_t took_ms;
};

/* For cli_show; the thing is a struct batch_summary. */
void batch_summary_text(struct buf *out, const struct term *term, const void *thing);
void batch_summary_json(struct json_writer *w, const void *thing);

#endif
