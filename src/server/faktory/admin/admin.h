/* admin.h - what Faktory's clients may ask of queues and sets, as operations.
 *
 * INFO, QUEUE, MUTATE and FLUSH look at many jobs. Each is done in steps of at most FAKTORY_STEP
 * jobs and not much over FAKTORY_STEP_BYTES of them. A step is an operation of its own, so that
 * other operations get their turn in between. While `more` is set, the same operation is to be
 * handed in again. Everything stays within one tenant.
 *
 * Faktory's sets are states here: scheduled, retries (retrying), dead (dead_letter), working
 * (running); jobs in a queue are queued or parked. What is discarded is cancelled, so that it can
 * still be seen until its retention ends; a dead letter that is discarded is gone, and so is
 * everything after a FLUSH.
 */
#ifndef SERVER_FAKTORY_ADMIN_ADMIN_H
#define SERVER_FAKTORY_ADMIN_ADMIN_H

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "engine/op.h"
#include "server/faktory/format/request.h"
#include "store/job.h"
#include "store/store.h"

#define FAKTORY_STEP       500
#define FAKTORY_STEP_BYTES ((size_t)4 * 1024 * 1024)

enum faktory_admin_kind {
    FAKTORY_INFO,
    FAKTORY_FLUSH,
    FAKTORY_PAUSE,
    FAKTORY_RESUME,
    FAKTORY_REMOVE,
    FAKTORY_LATENCY,
    FAKTORY_MUTATE,
};

/* What INFO reports about the server, beside what the store has. */
struct faktory_server_facts {
    int64_t uptime_s;
    size_t connections;
    uint64_t commands;
    size_t workers;
    uint64_t reaped; /* workers that were cut off because they sent no BEAT */
    uint64_t memory_mb;
};

struct faktory_removed;

struct faktory_admin {
    struct op op;
    enum faktory_admin_kind kind;
    struct str tenant;
    const struct str *names; /* QUEUE: of queues, borrowed; none with `all` */
    size_t n_names;
    bool all;
    const struct faktory_mutation *mutation; /* borrowed */
    struct faktory_server_facts facts;       /* INFO */
    struct faktory_removed *removed;         /* INFO, QUEUE REMOVE: borrowed; NULL: none */

    /* The answer. */
    struct buf text; /* a document, or empty: +OK */
    bool more;

    int64_t after_seq; /* how far it has come, entered by faktory_admin_next */
    size_t n_done;     /* names or jids that are done */
    int64_t last_seq;  /* of this step */
    size_t n_now;
};

void faktory_admin_init(struct faktory_admin *admin, enum faktory_admin_kind kind,
                        struct str tenant);
void faktory_admin_release(struct faktory_admin *admin);

/* Whether a mutation can be carried out at all; Faktory's own text in `err`. */
int faktory_mutation_check(const struct faktory_mutation *m, struct redrive_err *err);

/* After a step that was answered with `more`. */
void faktory_admin_next(struct faktory_admin *admin);

/* Appends a job's JSON without blanks and needless escapes, its members in Faktory's order, those
 * that Faktory does not know at the end. */
void faktory_normalise(struct str job, struct buf *out);

#endif
