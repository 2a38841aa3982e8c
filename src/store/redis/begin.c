/* begin.c - a transaction begins with what the last answer has told: nothing is asked, unless that
 * is long ago, and nobody is waited for. */
#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

/* The server's clock was set back if it is behind by more than this. */
#define BACK_MS 1000

int64_t rd_told_age(const struct store *store)
{
    return (clock_monotonic_ns() - store->told.at_ns) / 1000000;
}

/* The answer was under way for a while: it is a little later there. */
int64_t rd_server_now(const struct store *store)
{
    return store->told.now_ms + rd_told_age(store);
}

bool rd_is_known(const struct store *store)
{
    return strcmp(store->known_history, store->told.history) == 0 &&
           strcmp(store->known_id, store->told.id) == 0;
}

static bool can_do_without(const struct store *store)
{
    return store->told.is_known && store->told.has_history && !store->is_astray &&
           rd_link_is_alive(store);
}

static int say_hello(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask(store, "hello");
    int rc = rd_link_told(store, &reply, err);
    if (reply)
        freeReplyObject(reply);
    return rc;
}

static int ask(struct store *store, struct redrive_err *err)
{
    int rc = say_hello(store, err);
    if (rc == REDRIVE_E_NOT_FOUND && store->creates) {
        rc = rd_set_up(store, err);
        if (rc == 0)
            rc = say_hello(store, err);
    }
    if (rc == 0)
        store->commits_seen = store->told.commits;
    return rc;
}

/* A server with another history may have less than it had, and a store that was emptied has
 * nothing: what is cached of it may not be so, here and in the engine, for which no version is the
 * one that it knows. */
static void forget_another(struct store *store)
{
    rd_ahead_forget(store);
    rd_transaction_forget(store);
    rd_partitions_forget(store);
    rd_map_empty(&store->shared_known);
    memcpy(store->known_history, store->told.history, sizeof store->known_history);
    memcpy(store->known_id, store->told.id, sizeof store->known_id);
}

/* Never earlier than in the transaction before, unless the server's clock was set back. */
static int64_t time_of_transaction(const struct store *store)
{
    const int64_t now_ms = rd_server_now(store);
    return now_ms < store->now_ms && store->now_ms - now_ms <= BACK_MS ? store->now_ms : now_ms;
}

int redis_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                int64_t *ret_shared_version, struct redrive_err *err)
{
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is open already");
    const bool asks = store_must_ask(&store->base, rd_told_age(store)) || !can_do_without(store);
    int rc = asks ? ask(store, err) : 0;
    if (rc != 0)
        return rc;
    rd_ahead_expire(store);
    const bool is_known = rd_is_known(store);
    if (!is_known)
        forget_another(store);
    store->transaction++;
    store->in_transaction = true;
    store->has_heard = asks;
    store->base.notification = STORE_NOTIFY_ALL;
    store->begun_ms = clock_monotonic_ms();
    store->now_ms = store->caller_time ? now_ms : time_of_transaction(store);
    store->shared_version = store->told.shared_version;
    *ret_now_ms = store->now_ms;
    *ret_shared_version = is_known ? store->shared_version : STORE_VERSION_UNKNOWN;
    return 0;
}
