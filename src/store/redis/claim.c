/* claim.c - ready jobs, which are reserved for the claim; some are looked for with the commit
 * before. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"

/* More than this many jobs are not given at once. */
#define CLAIM_MAX ((size_t)4096)

/* Nor more bytes in one reply, if bytes are limited: the jobs of a reply are in memory twice while
 * they are copied, and a claim may stand for many of workers that take megabytes each. */
#define REPLY_MAX_BYTES ((size_t)16 << 20)

/* ---- Asking for ready jobs ---------------------------------------------------------------------
 */

/* A name as it is part of the name of a partition. */
static void ask_part(struct store *store, struct str name)
{
    buf_reset(&store->row);
    rd_add_part(&store->row, name);
    buf_truncate(&store->row, store->row.len - 2);
    rd_ask_str(store, buf_str(&store->row));
}

static void ask_names(struct store *store, const struct str *names, size_t n)
{
    rd_ask_int(store, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        ask_part(store, names[i]);
}

static uint64_t hash_name(uint64_t seed, struct str name)
{
    return rng_hash(name.ptr, name.len, seed + 1);
}

/* The kind of a claim: a hash of what it looks for. New jobs may be taken by any process that waits
 * with a claim of the same kind. */
static void ask_kind(struct store *store, const struct claim_filter *filter)
{
    char kind[20];
    uint64_t hash = hash_name(filter->n_queues, filter->tenant);
    for (size_t i = 0; i < filter->n_queues; i++)
        hash = hash_name(hash, filter->queues[i]);
    for (size_t i = 0; i < filter->n_tasks; i++)
        hash = hash_name(hash, filter->tasks[i]);
    snprintf(kind, sizeof kind, "%" PRIx64, hash);
    rd_ask_text(store, kind);
}

/* Whether the next reply is to have less than the filter allows; what is missing is asked for with
 * another request. Limits of tasks are those of all replies together. */
static bool is_for_several(const struct claim_filter *filter)
{
    return filter->max_bytes > REPLY_MAX_BYTES && !filter->task_limits;
}

/* Starts a request for ready jobs. `waits`: if it is given less, this process is woken by new ones.
 */
static void ask_ready(struct store *store, const struct claim_filter *filter, size_t limit,
                      const struct partition *of_tenant, bool waits)
{
    rd_ask_read(store, "ready");
    if (rd_has_gates(store))
        rd_ask_text(store, "");
    else
        rd_ask_int(store, store->shared_version);
    rd_ask_int(store, (int64_t)limit);
    rd_ask_int(store, (int64_t)(is_for_several(filter) ? REPLY_MAX_BYTES : filter->max_bytes));
    if (of_tenant)
        rd_ask_int(store, of_tenant->tenant_id);
    else
        rd_ask_text(store, "");
    rd_ask_int(store, store->last_tenant);
    if (waits)
        ask_kind(store, filter);
    else
        rd_ask_text(store, "");
    rd_ask_text(store, store->origin);
    ask_names(store, filter->queues, filter->n_queues);
    ask_names(store, filter->tasks, filter->n_tasks);
    const size_t n_limits = filter->task_limits ? filter->n_tasks : 0;
    rd_ask_int(store, (int64_t)n_limits);
    for (size_t i = 0; i < n_limits; i++)
        rd_ask_int(store, (int64_t)filter->task_limits[i]);
}

/* ---- Looking ahead --------------------------------------------------------------------------- */

/* Jobs that are looked for in the same request as a commit, for the transaction that follows. They
 * are reserved like those of any claim, and released if that transaction does not come soon. */

/* The filter as bytes, without its limits, to compare two claims. */
static void name_filter(const struct claim_filter *filter, struct buf *out)
{
    buf_printf(out, "%zu ", filter->n_queues);
    rd_add_part(out, filter->tenant);
    for (size_t i = 0; i < filter->n_queues; i++)
        rd_add_part(out, filter->queues[i]);
    for (size_t i = 0; i < filter->n_tasks; i++)
        rd_add_part(out, filter->tasks[i]);
}

void redis_look_ahead(struct store *store, const struct claim_filter *filter)
{
    struct ahead *ahead = &store->ahead;
    const struct partition *of_tenant = NULL;
    if (!store->in_transaction || filter->task_limits)
        return;
    if (filter->tenant.len > 0 &&
        (rd_tenant_find(store, filter->tenant, &of_tenant, NULL) != 0 || !of_tenant))
        return;
    rd_ahead_drop(store);
    buf_reset(&ahead->filter);
    name_filter(filter, &ahead->filter);
    /* The shared version after the commit. */
    const int64_t seen = store->shared_version;
    store->shared_version = seen + store->shared_puts;
    ask_ready(store, filter, filter->limit, of_tenant, false);
    store->shared_version = seen;
    const struct buf words = ahead->words;
    ahead->words = store->words;
    ahead->n_words = store->n_words;
    store->words = words;
    store->n_words = 0;
    ahead->is_asked = buf_failed(&ahead->words) == 0 && buf_failed(&ahead->filter) == 0;
}

/* The jobs that were looked for by this filter, if that is not too long ago; the caller frees the
 * reply. NULL: there are none. */
static redisReply *use_ahead(struct store *store, const struct claim_filter *filter)
{
    struct ahead *ahead = &store->ahead;
    redisReply *reply = ahead->reply;
    if (!reply || filter->task_limits)
        return NULL;
    buf_reset(&store->row);
    name_filter(filter, &store->row);
    if (!str_eq(buf_str(&store->row), buf_str(&ahead->filter)))
        return NULL;
    ahead->reply = NULL;
    store->base.wants_upkeep = false;
    return reply;
}

void rd_ahead_drop(struct store *store)
{
    struct ahead *ahead = &store->ahead;
    redisReply *reply = ahead->reply;
    if (!reply)
        return;
    ahead->reply = NULL;
    store->base.wants_upkeep = false;
    if (store->link) {
        rd_ask(store, "release");
        for (size_t at = RD_READY_FIRST; at < reply->elements; at += rd_reply_row_len(reply, at))
            rd_ask_str(store, rd_reply_str(reply, at));
        rd_link_tell(store);
    }
    freeReplyObject(reply);
}

void rd_ahead_expire(struct store *store)
{
    if (clock_monotonic_ms() - store->ahead.at_ms > RD_AHEAD_MS)
        rd_ahead_drop(store);
}

void redis_upkeep(struct store *store)
{
    rd_ahead_drop(store);
}

/* ---- Claims ---------------------------------------------------------------------------------- */

/* Notes a job that is reserved for this transaction until it ends. */
static int keep_reserved(struct store *store, int64_t seq, struct redrive_err *err)
{
    if (store->n_reserved == store->reserved_capacity) {
        const size_t capacity = store->reserved_capacity ? 2 * store->reserved_capacity : 64;
        int64_t *grown = realloc(store->reserved, capacity * sizeof *grown);
        if (!grown)
            return err_nomem(err);
        store->reserved = grown;
        store->reserved_capacity = capacity;
    }
    store->reserved[store->n_reserved++] = seq;
    return 0;
}

/* Adds jobs to a page until it has `limit`; the rest of the reply is reserved as well. */
static int read_ready(struct page_maker *maker, const redisReply *reply, size_t limit,
                      struct redrive_err *err)
{
    bool is_left = false;
    int rc = 0;
    for (size_t at = RD_READY_FIRST; rc == 0 && at < reply->elements;) {
        const int64_t seq = rd_reply_int(reply, at);
        rc = keep_reserved(maker->store, seq, err);
        if (maker->page->n == limit) {
            is_left = true;
            at += rd_reply_row_len(reply, at);
            continue;
        }
        if (rc == 0)
            rc = rd_page_add_reply(maker, reply, &at, true, err);
        struct entry *e = rc == 0 ? rd_entry_known(maker->store, seq) : NULL;
        if (e)
            e->given = maker->store->transaction;
    }
    maker->page->more = is_left || rd_reply_int(reply, 0) != 0;
    if (rc == 0 && reply->elements > 2)
        rc = rd_page_add_limits(maker->page, reply->element[2], err);
    return rc;
}

/* Adds the jobs that were looked for with the last commit. */
static int take_ahead(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
                      struct redrive_err *err)
{
    struct store *store = maker->store;
    redisReply *reply = use_ahead(store, filter);
    if (!reply)
        return 0;
    if (filter->tenant.len == 0)
        store->last_tenant = (uint32_t)rd_reply_int(reply, 1);
    int rc = read_ready(maker, reply, limit, err);
    freeReplyObject(reply);
    return rc;
}

/* What is still wanted of a filter; a limit of 0: nothing. */
static struct claim_filter rest_of(const struct claim_filter *filter, size_t limit,
                                   const struct job_page *page)
{
    struct claim_filter rest = *filter;
    rest.limit = limit - page->n;
    for (size_t i = 0; i < page->n && filter->max_bytes > 0; i++) {
        const size_t bytes = job_bytes(page->jobs[i].spec.payload.len);
        rest.max_bytes = rest.max_bytes > bytes ? rest.max_bytes - bytes : 0;
    }
    if (filter->max_bytes > 0 && rest.max_bytes == 0)
        rest.limit = 0;
    return rest;
}

/* *ret_again: there are more, for which the reply had no room. */
static int ask_for_ready(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
                         const struct partition *of_tenant, bool *ret_again,
                         struct redrive_err *err)
{
    struct store *store = maker->store;
    const struct claim_filter rest = rest_of(filter, limit, maker->page);
    const size_t n_before = maker->page->n;
    redisReply *reply = NULL;
    *ret_again = false;
    if (rest.limit == 0)
        return 0;
    ask_ready(store, &rest, rest.limit, of_tenant, true);
    int rc = rd_link_read(store, &reply, err);
    if (rc == 0 && reply->type != REDIS_REPLY_ARRAY)
        rc = rd_shared_changed(store, err);
    if (rc == 0 && !of_tenant)
        store->last_tenant = (uint32_t)rd_reply_int(reply, 1);
    if (rc == 0)
        rc = read_ready(maker, reply, limit, err);
    freeReplyObject(reply);
    *ret_again = is_for_several(&rest) && maker->page->more && maker->page->n > n_before;
    return rc;
}

/* The server gives jobs whose time has come since the transaction began. */
static void note_time_that_passed(struct store *store)
{
    if (!store->caller_time)
        store->base.unsure_ms =
            server_time_at(&store->told.time, clock_monotonic_ns()).latest_ms - store->now_ms;
}

int redis_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    const size_t limit = filter->limit < CLAIM_MAX ? filter->limit : CLAIM_MAX;
    const struct partition *of_tenant = NULL;
    struct page_maker maker;
    rd_page_start(&maker, store, ret);
    int rc = rd_transaction_needed(store, err);
    if (rc == 0 && filter->tenant.len > 0) {
        rc = rd_tenant_find(store, filter->tenant, &of_tenant, err);
        if (!of_tenant)
            return rc;
    }
    if (rc != 0)
        return rc;
    rc = take_ahead(&maker, filter, limit, err);
    /* Damaged jobs take the places of others. They are reserved: the next request gives others. */
    bool is_again = false;
    do {
        maker.n_damaged = 0;
        if (rc == 0)
            rc = ask_for_ready(&maker, filter, limit, of_tenant, &is_again, err);
    } while (rc == 0 && (is_again || maker.n_damaged > 0));
    if (rc != 0)
        job_page_release(ret);
    else
        note_time_that_passed(store);
    return rc;
}
