/* wait.c - until another process has committed: a second connection is told of it. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/redis/private.h"

static int read_commits(struct store *store, int64_t *ret, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "commits");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    *ret = reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
    freeReplyObject(reply);
    return 0;
}

static void ear_close(struct store *store)
{
    if (store->ear)
        redisFree(store->ear);
    store->ear = NULL;
}

/* Without it waiting takes as long as it may. */
static void ear_open(struct store *store)
{
    if (store->ear)
        return;
    store->ear = rd_link_connect(&store->place, NULL);
    if (!store->ear)
        return;
    redisReply *reply = NULL;
    if (rd_link_greet(store->ear, &store->place, NULL) == 0)
        reply = redisCommand(store->ear, "SUBSCRIBE {%s}:changed", store->place.prefix);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        ear_close(store);
    freeReplyObject(reply);
}

/* Reads what has come; true when another handle has committed. */
static bool ear_heard(struct store *store)
{
    bool heard = false;
    if (redisBufferRead(store->ear) != REDIS_OK) {
        ear_close(store);
        return true;
    }
    for (;;) {
        redisReply *reply = NULL;
        if (redisGetReplyFromReader(store->ear, (void **)&reply) != REDIS_OK) {
            ear_close(store);
            return true;
        }
        if (!reply)
            return heard;
        heard |= rd_reply_str(reply, 2).len > 0 && !str_is(rd_reply_str(reply, 2), store->me);
        freeReplyObject(reply);
    }
}

static void ear_wait(struct store *store, int64_t until_ms)
{
    for (;;) {
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0)
            return;
        struct pollfd at = {.fd = store->ear->fd, .events = POLLIN};
        int n = poll(&at, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if ((n < 0 && errno != EINTR) || (n > 0 && ear_heard(store)))
            return;
    }
}

int redis_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_news, struct redrive_err *err)
{
    int64_t commits;
    if (store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "a unit is open: waiting would be for ever");
    const int64_t now_ms = clock_monotonic_ms();
    const int64_t until_ms = timeout_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + timeout_ms;
    if (ret_news)
        *ret_news = 0;
    ear_open(store);
    int rc = read_commits(store, &commits, err);
    if (rc == 0 && commits == store->commits_seen) {
        if (store->ear)
            ear_wait(store, until_ms);
        else if (timeout_ms > 0)
            poll(NULL, 0, timeout_ms > 1000 ? 1000 : (int)timeout_ms);
        rc = read_commits(store, &commits, err);
    }
    if (rc == 0 && ret_news && commits != store->commits_seen)
        *ret_news = STORE_NEWS_ALL;
    if (rc == 0)
        store->commits_seen = commits;
    return rc;
}
