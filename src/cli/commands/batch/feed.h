/* feed.h - brings the records of a batch into the store, on a thread of its own.
 *
 * Records are read, gathered and submitted many to a transaction: when BATCH_FEED_TRANSACTION have
 * gathered, or when the input has nothing more to give for the moment, so that a slow pipe holds
 * nothing up. A record's unique key is TASK/ID, for ever: a record that is submitted again stays
 * one job.
 *
 * Where records are known already, as in a second run over the same file, their keys are looked up
 * many at once before they are submitted, by a handle of the feed's own: no transaction is made for
 * those that are there. A file of new records is looked up once, at its beginning, and after a
 * transaction in which one was known. Without an answer the records are submitted: it is the
 * transaction that decides.
 *
 *     feed_start ──► report(err) …  ──► ended
 *                    both on the feed's thread
 */
#ifndef CLI_COMMANDS_BATCH_FEED_H
#define CLI_COMMANDS_BATCH_FEED_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mem/arena.h"
#include "cli/commands/batch/records.h"
#include "engine/committer.h"
#include "engine/verbs/submit.h"

#define BATCH_FEED_TRANSACTION       500
#define BATCH_FEED_TRANSACTION_BYTES (8u * 1024 * 1024)

/* All that is pointed to is borrowed and outlives the feed. */
struct feed_options {
    struct committer *committer;
    struct store *store; /* for looking keys up; used by the feed's thread alone */
    const char *task;
    const char *path; /* "-": standard input */
    enum records_format format;
    const char *id_field;      /* NULL: sample_id, or else id */
    const char *payload_field; /* NULL: the whole record */
    bool strict;               /* stop at the first record that is refused */
    void (*report)(const struct redrive_err *err, void *ctx);
    void (*ended)(void *ctx);
    void *ctx;
};

struct feed_counts {
    uint64_t read;    /* the sum of the others */
    uint64_t added;   /* new records */
    uint64_t known;   /* were there already */
    uint64_t invalid; /* refused */
};

struct feed {
    struct feed_options options;
    int fd;
    int wake[2]; /* a pipe that ends the waiting for input */
    bool is_running;
    pthread_t thread;
    atomic_bool is_stopping;
    atomic_uint_least64_t added, known, invalid;

    /* Of the thread. */
    struct records records;
    struct job_spec specs[BATCH_FEED_TRANSACTION];
    uint64_t lines[BATCH_FEED_TRANSACTION];
    bool looks_up; /* the next records may be known */
    size_t n;
    size_t n_bytes;
    struct arena arena; /* of the specs */
    int code;           /* why it ended before the input did */
    struct redrive_err err;
};

/* Opens the input, so that a wrong name is known before anything is done. */
int feed_open(struct feed *feed, const struct feed_options *options, struct redrive_err *err);
int feed_start(struct feed *feed, struct redrive_err *err);

/* Reads no further; what has been read is submitted still. Any thread. */
void feed_stop(struct feed *feed);

/* Waits for the thread, if there is one. 0 or why it ended before its time. A stop is none. */
int feed_join(struct feed *feed, struct redrive_err *err);

/* Any thread. */
struct feed_counts feed_counts(const struct feed *feed);

/* After feed_join. A zeroed feed whose descriptors are -1 may be released. */
void feed_release(struct feed *feed);

#endif
