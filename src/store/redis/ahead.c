/* ahead.c - jobs that are looked for in the same request as a commit, for the transaction that
 * follows. They are reserved like those of any claim; if that transaction does not come soon, they
 * are let go. */
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

/* So long they are held for it. Others who have nothing to do would take them. */
#define AHEAD_MS 20

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A claim by name: the same for claims that look for the same, however many bytes they may have. */
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
    /* The commit raises the version itself. */
    const int64_t seen = store->shared_version;
    store->shared_version = seen + store->shared_puts;
    rd_ask_ready(store, filter, filter->limit, of_tenant, false);
    store->shared_version = seen;
    const struct buf words = ahead->words;
    ahead->words = store->words;
    ahead->n_words = store->n_words;
    store->words = words;
    store->n_words = 0;
    ahead->is_asked = buf_failed(&ahead->words) == 0 && buf_failed(&ahead->filter) == 0;
}

/* ---- The answer ------------------------------------------------------------------------------ */

void rd_ahead_take(struct store *store, redisReply *reply)
{
    struct ahead *ahead = &store->ahead;
    const bool is_page = reply->type == REDIS_REPLY_ARRAY && reply->elements > RD_READY_FIRST;
    if (!is_page) { /* there are none, or something shared has changed */
        freeReplyObject(reply);
        return;
    }
    ahead->reply = reply;
    ahead->at_ms = clock_monotonic_ms();
    store->base.wants_upkeep = true;
    store->base.idle_ms = AHEAD_MS;
}

redisReply *rd_ahead_use(struct store *store, const struct claim_filter *filter)
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

/* ---- Letting go ------------------------------------------------------------------------------ */

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

void rd_ahead_forget(struct store *store)
{
    freeReplyObject(store->ahead.reply);
    store->ahead.reply = NULL;
    store->ahead.is_asked = false;
    store->base.wants_upkeep = false;
}

void rd_ahead_expire(struct store *store)
{
    if (clock_monotonic_ms() - store->ahead.at_ms > AHEAD_MS)
        rd_ahead_drop(store);
}

void redis_upkeep(struct store *store)
{
    rd_ahead_drop(store);
}

void rd_ahead_release(struct store *store)
{
    rd_ahead_forget(store);
    buf_release(&store->ahead.words);
    buf_release(&store->ahead.filter);
}
