/* wait.c - notifications, which come over a second connection, and which process is the leader. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"

/* How often a handle looks by itself while no notification can reach it. */
#define LOOK_MS 1000

/* How often it checks that the store is still on the server that it listens to. */
#define CHECK_PLACE_MS 1000

/* Whether there were commits that this handle has not seen, whatever their origin. */
static int look(struct store *store, uint32_t *notification, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "commits");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    const int64_t commits = reply->type == REDIS_REPLY_STRING ? rd_number(reply->str, NULL) : 0;
    freeReplyObject(reply);
    if (commits != store->commits_seen)
        *notification |= STORE_NOTIFY_ALL;
    store->commits_seen = commits;
    return 0;
}

/* No notification comes from a server that no longer has the store. If the store is found
 * elsewhere, the handle listens there. */
static int check_place(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "EXISTS");
    rd_ask_text(store, store->root);
    int rc = rd_link_call(store, &reply, err);
    freeReplyObject(reply);
    store->check_at_ms = clock_monotonic_ms() + CHECK_PLACE_MS;
    return rc;
}

/* Subscribes to all commits, and to messages for this process alone. */
static struct rd_wire *listener_open(const struct store *store)
{
    struct rd_wire *listener = NULL;
    redisReply *reply = NULL;
    if (rd_link_connect(&store->place, &listener, NULL) != 0)
        return NULL;
    if (rd_link_greet(listener, &store->place, NULL) == 0)
        reply = rd_wire_command(listener, "SUBSCRIBE {%s}:changed {%s}:wake:%s",
                                store->place.prefix, store->place.prefix, store->origin);
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        rd_wire_close(listener);
        listener = NULL;
    }
    freeReplyObject(reply);
    return listener;
}

static bool is_wake(struct str channel)
{
    const struct str name = STR(":wake:");
    for (size_t i = 0; i + name.len < channel.len; i++)
        if (memcmp(channel.ptr + i, name.ptr, name.len) == 0)
            return true;
    return false;
}

/* What a message means: it has the origin, and the bits of the notification. One without bits, from
 * a program with other scripts, means all. */
static uint32_t notification_in(const struct store *store, struct str channel, struct str message)
{
    if (message.len > 0 && is_wake(channel))
        return STORE_NOTIFY_READY;
    const char *space = message.len > 0 ? memchr(message.ptr, ' ', message.len) : NULL;
    const struct str origin = {message.ptr, space ? (size_t)(space - message.ptr) : message.len};
    if (message.len == 0 || str_is(origin, store->origin) || str_is(origin, store->me))
        return 0;
    return space ? (uint32_t)strtoul(space + 1, NULL, 10) & STORE_NOTIFY_ALL : STORE_NOTIFY_ALL;
}

/* Reads the messages that have arrived. With a connection notifications may be lost. */
static uint32_t listener_read(struct store *store)
{
    uint32_t notification = 0;
    redisReply *reply = NULL;
    bool ok = rd_wire_take(store->listener);
    while (ok && (ok = rd_wire_next(store->listener, &reply)) && reply) {
        notification |= notification_in(store, rd_reply_str(reply, 1), rd_reply_str(reply, 2));
        freeReplyObject(reply);
    }
    if (ok)
        return notification;
    rd_listener_close(store);
    return STORE_NOTIFY_ALL;
}

static uint32_t listener_wait(struct store *store, int64_t until_ms)
{
    for (;;) {
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        const int n = rd_wire_wait(store->listener, left_ms > 60000 ? 60000
                                                    : left_ms > 0   ? (int)left_ms
                                                                    : 0);
        const uint32_t notification = n > 0 ? listener_read(store) : 0;
        if (notification != 0 || left_ms <= 0)
            return notification;
        if (n < 0 && errno != EINTR)
            return STORE_NOTIFY_ALL;
    }
}

/* Listens, or looks again after a while if there is no connection to listen to. */
static int wait_until(struct store *store, int64_t until_ms, uint32_t *notification,
                      struct redrive_err *err)
{
    const int64_t left_ms = until_ms - clock_monotonic_ms();
    if (store->listener) {
        *notification =
            listener_wait(store, until_ms < store->check_at_ms ? until_ms : store->check_at_ms);
        return 0;
    }
    poll(NULL, 0, left_ms > LOOK_MS ? LOOK_MS : left_ms > 0 ? (int)left_ms : 0);
    return look(store, notification, err);
}

int redis_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
               struct redrive_err *err)
{
    uint32_t notification = 0;
    int rc = 0;
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE, "a transaction is open: waiting would be for ever");
    const int64_t now_ms = clock_monotonic_ms();
    const int64_t until_ms = timeout_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + timeout_ms;
    do {
        if (store->listener && clock_monotonic_ms() >= store->check_at_ms)
            rc = check_place(store, err);
        if (rc == 0 && !store->listener) {
            /* Listens before it looks, so that nothing is missed in between. */
            store->listener = listener_open(store);
            store->check_at_ms = clock_monotonic_ms() + CHECK_PLACE_MS;
            rc = look(store, &notification, err);
        }
        if (rc == 0 && notification == 0)
            rc = wait_until(store, until_ms, &notification, err);
    } while (rc == 0 && notification == 0 && clock_monotonic_ms() < until_ms);
    if (ret_notification)
        *ret_notification = rc == 0 ? notification : 0;
    return rc;
}

/* ---- Elections ------------------------------------------------------------------------------- */

static void ask_election(struct store *store, int64_t keep_ms, bool claims)
{
    rd_ask(store, "elect");
    rd_ask_text(store, store->me);
    rd_ask_int(store, keep_ms);
    rd_ask_int(store, claims);
}

int redis_elect(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                struct redrive_err *err)
{
    redisReply *reply = NULL;
    *ret = (struct store_election){0};
    if (store->in_transaction)
        return err_set(err, REDRIVE_E_STATE,
                       "a transaction is open: a leader is elected outside of one");
    ask_election(store, keep_ms, claims);
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    /* The request has checked as well that the store is still there. */
    store->check_at_ms = clock_monotonic_ms() + CHECK_PLACE_MS;
    ret->is_leader = store->is_leader = rd_reply_int(reply, 0) != 0;
    ret->claimers = (size_t)rd_reply_int(reply, 1);
    ret->has_ready = rd_reply_int(reply, 2) != 0;
    freeReplyObject(reply);
    return 0;
}

void rd_resign(struct store *store)
{
    if (!store->is_leader || !store->link)
        return;
    /* If the request is lost, its time as the leader is over soon. */
    ask_election(store, 0, false);
    rd_link_tell(store);
}
