/* wait.c - until others have news: a second connection is told of them. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

/* How often it is looked for news when nobody can tell of them. */
#define DEAF_MS 1000

/* Whether there were commits that this handle has not seen, be they its own news or not. */
static int look(struct store *store, uint32_t *news, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "commits");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    const int64_t commits = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
    freeReplyObject(reply);
    if (commits != store->commits_seen)
        *news |= STORE_NEWS_ALL;
    store->commits_seen = commits;
    return 0;
}

/* A server that the store has left, and that has left the others, would be listened to in vain. To
 * find the store elsewhere is to listen anew. */
static int check_place(struct store *store, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "EXISTS");
    rd_ask_text(store, store->root);
    int rc = rd_link_call(store, &reply, err);
    if (reply)
        freeReplyObject(reply);
    store->check_at_ms = clock_monotonic_ms() + CHECK_PLACE_MS;
    return rc;
}

static void ear_close(struct store *store)
{
    if (store->ear)
        redisFree(store->ear);
    store->ear = NULL;
}

/* Subscribes to what is new, and to what is meant for this process alone. */
static redisContext *ear_open(const struct store *store)
{
    redisContext *ear = rd_link_connect(&store->place, NULL);
    if (!ear)
        return NULL;
    redisReply *reply = NULL;
    if (rd_link_greet(ear, &store->place, NULL) == 0)
        reply = redisCommand(ear, "SUBSCRIBE {%s}:changed {%s}:wake:%s", store->place.prefix,
                             store->place.prefix, store->origin);
    if (!reply || reply->type == REDIS_REPLY_ERROR) {
        redisFree(ear);
        ear = NULL;
    }
    freeReplyObject(reply);
    return ear;
}

static int ear_next(redisContext *ear, redisReply **ret)
{
    *ret = NULL;
    return redisGetReplyFromReader(ear, (void **)ret) == REDIS_OK ? 0 : REDRIVE_E_IO;
}

static bool is_wake(struct str channel)
{
    const struct str name = STR(":wake:");
    for (size_t i = 0; i + name.len < channel.len; i++)
        if (memcmp(channel.ptr + i, name.ptr, name.len) == 0)
            return true;
    return false;
}

/* What a message means: whose news it is, and what they are. A program with other scripts may say
 * less, which may be anything. */
static uint32_t news_in(const struct store *store, struct str channel, struct str message)
{
    if (message.len > 0 && is_wake(channel))
        return STORE_NEWS_READY;
    const char *space = message.len > 0 ? memchr(message.ptr, ' ', message.len) : NULL;
    const struct str origin = {message.ptr, space ? (size_t)(space - message.ptr) : message.len};
    if (message.len == 0 || str_is(origin, store->origin) || str_is(origin, store->me))
        return 0;
    return space ? (uint32_t)strtoul(space + 1, NULL, 10) & STORE_NEWS_ALL : STORE_NEWS_ALL;
}

/* Reads what has come. With the connection any news may be lost. */
static uint32_t ear_hear(struct store *store)
{
    uint32_t news = 0;
    redisReply *reply;
    int rc = redisBufferRead(store->ear) == REDIS_OK ? 0 : REDRIVE_E_IO;
    while (rc == 0 && (rc = ear_next(store->ear, &reply)) == 0 && reply) {
        news |= news_in(store, rd_reply_str(reply, 1), rd_reply_str(reply, 2));
        freeReplyObject(reply);
    }
    if (rc == 0)
        return news;
    ear_close(store);
    return STORE_NEWS_ALL;
}

static uint32_t ear_wait(struct store *store, int64_t until_ms)
{
    for (;;) {
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        struct pollfd at = {.fd = store->ear->fd, .events = POLLIN};
        int n = poll(&at, 1, left_ms > 60000 ? 60000 : left_ms > 0 ? (int)left_ms : 0);
        const uint32_t news = n > 0 ? ear_hear(store) : 0;
        if (news != 0 || left_ms <= 0)
            return news;
        if (n < 0 && errno != EINTR)
            return STORE_NEWS_ALL;
    }
}

/* Listens, or looks again after a while if nobody can tell. */
static int wait_until(struct store *store, int64_t until_ms, uint32_t *news,
                      struct redrive_err *err)
{
    const int64_t left_ms = until_ms - clock_monotonic_ms();
    if (store->ear) {
        *news = ear_wait(store, until_ms < store->check_at_ms ? until_ms : store->check_at_ms);
        return 0;
    }
    poll(NULL, 0, left_ms > DEAF_MS ? DEAF_MS : left_ms > 0 ? (int)left_ms : 0);
    return look(store, news, err);
}

int redis_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_news, struct redrive_err *err)
{
    uint32_t news = 0;
    int rc = 0;
    if (store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "a unit is open: waiting would be for ever");
    const int64_t now_ms = clock_monotonic_ms();
    const int64_t until_ms = timeout_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + timeout_ms;
    do {
        if (store->ear && clock_monotonic_ms() >= store->check_at_ms)
            rc = check_place(store, err);
        if (rc == 0 && !store->ear) {
            /* Who listens first and looks then misses nothing. */
            store->ear = ear_open(store);
            store->check_at_ms = clock_monotonic_ms() + CHECK_PLACE_MS;
            rc = look(store, &news, err);
        }
        if (rc == 0 && news == 0)
            rc = wait_until(store, until_ms, &news, err);
    } while (rc == 0 && news == 0 && clock_monotonic_ms() < until_ms);
    if (ret_news)
        *ret_news = rc == 0 ? news : 0;
    return rc;
}
