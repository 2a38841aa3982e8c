/* verify.c - whether the store is whole. Others go on meanwhile: each part is looked at in a short
 * unit of its own, and what comes and goes between them is allowed for. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many jobs are looked at in one unit, with their payloads, which may be long, and how often
 * one is tried that others were in the way of. */
#define AT_ONCE ((size_t)100)
#define TRIES   10

static const char *const BIG_NAMES[BIG_COUNT] = {
    [BIG_PAYLOAD] = "payload", [BIG_RESULT] = "result", [BIG_STACKTRACE] = "stack trace"};

/* How many jobs are counted, of all that were ever submitted. */
struct census {
    uint64_t counted;
    int64_t last_seq;
};

static int take_census(struct store *store, void *arg, struct redrive_err *err)
{
    struct census *ret = arg;
    struct line_page page = {0};
    int rc = redis_lines(store, (struct str){0}, &page, err);
    *ret = (struct census){.last_seq = store->last_seq};
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            ret->counted += page.lines[i].by_state[s];
    line_page_release(&page);
    return rc;
}

/* Each job must be found by its id. */
static int check_ids(struct store *store, const struct job_page *page, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < page->n; i++) {
        char key[16];
        const struct digest d = rd_digest_of(page->jobs[i].spec.tenant, page->jobs[i].spec.id);
        snprintf(key, sizeof key, "i:%u",
                 (unsigned)(unsigned char)d.bytes[0] << 6 | (unsigned char)d.bytes[1] >> 2);
        rd_ask_text(store, key);
        rd_ask_str(store, (struct str){d.bytes + 1, DIGEST_BYTES - 1});
    }
    int rc = page->n > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        if (rd_member_seq(rd_reply_str(reply, i)) != page->jobs[i].status.seq)
            rc = err_set(err, REDRIVE_E_CORRUPT, "job %lld is not found by its id",
                         (long long)page->jobs[i].status.seq);
    if (reply)
        freeReplyObject(reply);
    return rc;
}

/* The jobs that were there at the first census, part by part. */
struct round {
    struct walk walk;
    int64_t last_seq;
    uint64_t met;
};

/* What the row says to stand beside it must be there. */
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
        rc = rd_reply_row(store, reply, &at, &row, big, err);
        if (rc == 0)
            rc = check_beside(&row, big, err);
        if (rc == 0 && row.job.status.seq <= round->last_seq)
            rc = rd_page_add(&maker, &row, big, err);
    }
    return rc;
}

static int check_some(struct store *store, void *arg, struct redrive_err *err)
{
    struct round *round = arg;
    struct walk walk = round->walk;
    struct job_page page = {0};
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
    if (reply)
        freeReplyObject(reply);
    job_page_release(&page);
    return rc;
}

/* In a unit, so that nothing moves meanwhile. */
static int look(struct store *store, int (*what)(struct store *, void *, struct redrive_err *),
                void *arg, struct redrive_err *err)
{
    int64_t now_ms, version;
    int rc = REDRIVE_E_CANCELLED;
    for (int i = 0; i < TRIES && rc == REDRIVE_E_CANCELLED; i++) {
        rc = redis_begin(store, 0, &now_ms, &version, err);
        if (rc == 0)
            rc = what(store, arg, err);
        redis_rollback(store);
    }
    return rc;
}

/* All that were counted at first are there, but for those that have gone since. */
static int compare(const struct census *first, const struct census *last, uint64_t met,
                   struct redrive_err *err)
{
    const uint64_t come = (uint64_t)(last->last_seq - first->last_seq);
    const uint64_t gone = first->counted + come - last->counted;
    if (met <= first->counted && met + gone >= first->counted)
        return 0;
    return err_set(err, REDRIVE_E_CORRUPT, "%" PRIu64 " jobs are counted, %" PRIu64 " are there",
                   first->counted, met);
}

int redis_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                 struct redrive_err *err)
{
    struct census first = {0}, last = {0};
    struct round round = {.walk = {.states = STATES_ALL}};
    int rc = look(store, take_census, &first, err);
    round.last_seq = first.last_seq;
    while (rc == 0 && !round.walk.is_over && round.walk.after < first.last_seq) {
        rc = look(store, check_some, &round, err);
        if (progress)
            progress(ctx);
    }
    if (rc == 0)
        rc = look(store, take_census, &last, err);
    return rc == 0 ? compare(&first, &last, round.met, err) : rc;
}
