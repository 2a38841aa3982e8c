/* verify.c - whether the store is whole. Other processes go on: jobs may come and go between two
 * requests. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many jobs are read at once, with their payloads, and how often a page is tried again if
 * something seems to be wrong: a job may have gone between two requests. */
#define AT_ONCE ((size_t)100)
#define TRIES   10

static const char *const BIG_NAMES[BIG_COUNT] = {
    [BIG_PAYLOAD] = "payload", [BIG_RESULT] = "result", [BIG_STACKTRACE] = "stack trace"};

/* How many jobs are counted, of all that were ever submitted. */
struct census {
    uint64_t counted;
    int64_t last_seq; /* the highest that the store has given to a handle, used or not */
    int64_t commits;
};

static int take_census(struct store *store, struct census *ret, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "census");
    int rc = rd_link_read(store, &reply, err);
    if (rc != 0)
        return rc;
    *ret = (struct census){.last_seq = rd_reply_int(reply, 0),
                           .commits = rd_reply_int(reply, 1),
                           .counted = (uint64_t)rd_reply_int(reply, 2)};
    freeReplyObject(reply);
    return 0;
}

/* Each job must be found by its id. */
static int check_ids(struct store *store, const struct job_page *page, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < page->n; i++) {
        const struct digest d = rd_digest_of(page->jobs[i].spec.tenant, page->jobs[i].spec.id);
        rd_ask_id(store, &d);
    }
    int rc = page->n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        if (rd_member_seq(rd_reply_str(reply, i)) != page->jobs[i].status.seq)
            rc = err_set(err, REDRIVE_E_CORRUPT, "job %lld is not found by its id",
                         (long long)page->jobs[i].status.seq);
    freeReplyObject(reply);
    return rc;
}

/* The jobs that were there at the first census, part by part. */
struct round {
    struct walk walk;
    int64_t last_seq;
    uint64_t met;
};

/* The big parts that the row names must be there. */
static int check_beside(const struct row *row, const struct str big[BIG_COUNT],
                        struct redrive_err *err)
{
    for (int i = 0; i < BIG_COUNT; i++)
        if (row->big >> i & 1 && big[i].len == 0)
            return err_set(err, REDRIVE_E_CORRUPT, "job %lld has lost its %s",
                           (long long)row->job.status.seq, BIG_NAMES[i]);
    return 0;
}

static int read_page(struct store *store, struct round *round, const redisReply *reply,
                     struct job_page *page, struct redrive_err *err)
{
    struct page_maker maker;
    rd_page_start(&maker, store, page);
    int rc = 0;
    for (size_t at = 1; rc == 0 && at < reply->elements;) {
        struct str big[BIG_COUNT];
        struct row row;
        bool is_moved;
        rc = rd_reply_row(store, reply, &at, &row, big, &is_moved, err);
        if (rc == 0)
            rc = check_beside(&row, big, err);
        if (rc == 0 && row.job.status.seq <= round->last_seq)
            rc = rd_page_add(&maker, &row, big, err);
    }
    return rc;
}

static int try_some(struct store *store, struct round *round, struct redrive_err *err)
{
    struct walk walk = round->walk;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    redisReply *reply = NULL;
    int rc = rd_walk_read(store, &walk, AT_ONCE, true, &reply, err);
    if (rc == 0)
        rc = read_page(store, round, reply, &page, err);
    if (rc == 0)
        rc = check_ids(store, &page, err);
    if (rc == 0) {
        round->walk = walk;
        round->met += page.n;
    }
    freeReplyObject(reply);
    return rc;
}

static int check_some(struct store *store, struct round *round, struct redrive_err *err)
{
    int rc = REDRIVE_E_CORRUPT;
    for (int i = 0; i < TRIES && (rc == REDRIVE_E_CORRUPT || rc == REDRIVE_E_CANCELLED); i++)
        rc = try_some(store, round, err);
    return rc;
}

/* All jobs of the first count were met, but for those that have gone since. If there were commits,
 * jobs may have come whose seqs were given out before it. */
static int compare(const struct census *first, const struct census *last, uint64_t met,
                   struct redrive_err *err)
{
    const uint64_t come = (uint64_t)(last->last_seq - first->last_seq);
    const bool is_still = first->commits == last->commits;
    const uint64_t gone = is_still ? 0 : first->counted + come - last->counted;
    if (is_still ? met == first->counted : met + gone >= first->counted)
        return 0;
    int rc = err_set(err, REDRIVE_E_CORRUPT, "%" PRIu64 " jobs are counted, %" PRIu64 " are there",
                     first->counted, met);
    err_hint(err, "%s", STORE_REPAIR_HINT);
    return rc;
}

int redis_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                 struct redrive_err *err)
{
    struct census first = {0}, last = {0};
    struct round round = {.walk = {.states = STATES_ALL}};
    int rc = store->is_as_is ? rd_learn_id(store, err) : 0;
    if (rc == 0)
        rc = take_census(store, &first, err);
    round.last_seq = first.last_seq;
    while (rc == 0 && !round.walk.is_over && round.walk.after < first.last_seq) {
        rc = check_some(store, &round, err);
        if (progress)
            progress(ctx);
    }
    if (rc == 0)
        rc = take_census(store, &last, err);
    return rc == 0 ? compare(&first, &last, round.met, err) : rc;
}
