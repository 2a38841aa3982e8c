/* compare.h - whether the records of a source are in a store, as they are there. */
#ifndef ENGINE_COPY_COMPARE_H
#define ENGINE_COPY_COMPARE_H

#include "engine/copy/record.h"
#include "engine/copy/source.h"
#include "store/store.h"

/* What was found. */
struct findings {
    struct tally from;     /* what the source has */
    struct content_sum to; /* what the store has of it */
    uint64_t differing;    /* jobs that are there and are not the same */
    uint64_t missing;      /* jobs that are not there: another one holds their key */
    uint64_t others;       /* differences in anything else */
    char difference[256];  /* the first one; "" when there is none */
};

static inline bool findings_are_same(const struct findings *findings)
{
    return findings->difference[0] == '\0';
}

/* Counts a difference; the first one is kept. */
void findings_differ(struct findings *findings, uint64_t *count, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

struct compare {
    struct store *store;
    bool keeps_own;        /* the store was in use: rows and keys that it had stay as they are */
    bool ignores_counters; /* they are sums of the source's and its own */
    struct findings *findings;

    struct buf a, b; /* lines that are compared */
    struct job_set *jobs;
    struct key_walk keys;
    const struct remembered_key *key; /* the next one of the store; NULL: there is none */
    bool keys_started;
};

int compare_init(struct compare *compare, struct store *store, struct findings *findings,
                 struct redrive_err *err);
void compare_release(struct compare *compare);

/* A record_take_fn, with a struct compare. */
int compare_take(void *ctx, const struct record_batch *batch, struct redrive_err *err);

#endif
