/* around.c - which process is the leader for all, how many claim, whether there is anything to
 * take. */
#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

static void ask_around(struct store *store, int64_t keep_ms, bool claims)
{
    rd_ask(store, "around");
    rd_ask_text(store, store->me);
    rd_ask_int(store, keep_ms);
    rd_ask_int(store, claims);
}

int redis_elect(struct store *store, int64_t keep_ms, bool claims, struct store_around *ret,
                struct redrive_err *err)
{
    redisReply *reply = NULL;
    *ret = (struct store_around){0};
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE,
                       "a transaction is open: a leader is elected outside of one");
    ask_around(store, keep_ms, claims);
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    /* It was asked where the store is. */
    store->check_at_ms = clock_monotonic_ms() + CHECK_PLACE_MS;
    ret->is_leader = store->is_leader = rd_reply_int(reply, 0) != 0;
    ret->claimers = (size_t)rd_reply_int(reply, 1);
    ret->has_ready = rd_reply_int(reply, 2) != 0;
    freeReplyObject(reply);
    return 0;
}

void rd_give_time_back(struct store *store)
{
    if (!store->is_leader || !store->link)
        return;
    /* If nobody hears it, the time is over soon. */
    ask_around(store, 0, false);
    rd_link_tell(store);
}
