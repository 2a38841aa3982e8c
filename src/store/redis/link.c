/* link.c - requests over the connection, retries, and what every answer carries. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/sha256.h"
#include "base/time/clock.h"
#include "store/redis/private.h"

/* How often, and for how long each time, it waits for a store that a cluster is moving. */
#define STEPS_MAX 20
#define STEP_NS   50000000

bool rd_link_is_alive(const struct store *store)
{
    return store->link && rd_wire_take(store->link);
}

/* ---- The library ----------------------------------------------------------------------------- */

#define LIBRARY_MAX ((size_t)1 << 20)

/* Its name is made of the version of the schema and a digest of the scripts, so that programs with
 * other scripts load a library of their own beside this one. */
int rd_library_name(struct store *store, struct redrive_err *err)
{
    uint8_t sum[SHA256_BYTES];
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(LIBRARY_MAX);
    for (int i = 0; i < REDIS_LIBRARY_COUNT; i++)
        buf_puts(&text, REDIS_LIBRARY[i]);
    int rc = buf_failed(&text) ? err_nomem(err) : 0;
    if (rc == 0) {
        sha256(text.data, text.len, sum);
        snprintf(store->library, sizeof store->library, "redrive_%d_%02x%02x%02x%02x",
                 SCHEMA_VERSION, sum[0], sum[1], sum[2], sum[3]);
    }
    return rc;
}

/* All scripts as one text, in which @ is replaced by the name. */
static void library_text(const struct store *store, struct buf *ret)
{
    buf_printf(ret, "#!lua name=%s\n", store->library);
    for (int i = 0; i < REDIS_LIBRARY_COUNT; i++)
        for (const char *p = REDIS_LIBRARY[i]; *p; p++)
            if (*p == '@')
                buf_puts(ret, store->library);
            else
                buf_putc(ret, *p);
}

static int load_library(struct store *store, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(LIBRARY_MAX);
    int rc = 0;
    library_text(store, &text);
    redisReply *reply = buf_failed(&text) ? NULL
                                          : rd_wire_command(store->link, "FUNCTION LOAD REPLACE %b",
                                                            text.data, text.len);
    if (buf_failed(&text))
        rc = err_nomem(err);
    else if (!reply)
        rc = rd_link_broken(store, err);
    else if (reply->type == REDIS_REPLY_ERROR)
        rc = rd_link_error((struct str){reply->str, reply->len}, err);
    /* The next request looks for the store again. */
    if (rc != 0 && reply && rd_says_elsewhere((struct str){reply->str, reply->len}))
        rd_link_close(store);
    freeReplyObject(reply);
    return rc;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* Adds a request to those that are sent next. */
static bool add_request(struct store *store, size_t n_words, const struct buf *words)
{
    char head[32];
    const int len = snprintf(head, sizeof head, "*%zu\r\n", n_words);
    return rd_wire_add(store->link, (struct str){head, (size_t)len}) &&
           rd_wire_add(store->link, buf_str(words));
}

static int send_words(struct store *store, struct redrive_err *err)
{
    if (buf_failed(&store->words) != 0)
        return buf_failed(&store->words) == REDRIVE_E_NOMEM
                   ? err_nomem(err)
                   : err_set(err, REDRIVE_E_TOO_BIG, "a transaction is too big for one request");
    return add_request(store, store->n_words, &store->words) ? 0 : rd_link_broken(store, err);
}

/* Sends the request that goes with a commit; its reply is read later. */
static void send_ahead(struct store *store)
{
    struct ahead *ahead = &store->ahead;
    if (ahead->is_asked && add_request(store, ahead->n_words, &ahead->words))
        store->n_ahead = 1;
    ahead->is_asked = false;
}

/* Reads the replies that no caller waits for. */
static int read_unread(struct store *store)
{
    for (; store->n_unread > 0; store->n_unread--) {
        redisReply *reply = NULL;
        if (!rd_wire_reply(store->link, &reply))
            return REDRIVE_E_IO;
        freeReplyObject(reply);
    }
    return 0;
}

/* Sends the request and reads the reply, which may be an error. */
static int exchange(struct store *store, redisReply **ret, struct redrive_err *err)
{
    *ret = NULL;
    if (store->is_astray && !store->in_transaction)
        rd_link_close(store);
    int rc = store->link ? send_words(store, err) : REDRIVE_E_IO;
    if (!store->link)
        return rd_link_broken(store, err);
    if (rc != 0)
        return rc;
    store->sent_ns = clock_monotonic_ns();
    send_ahead(store);
    if (read_unread(store) != 0 || !rd_wire_reply(store->link, ret))
        return rd_link_broken(store, err);
    store->n_unread += store->n_ahead;
    store->n_ahead = 0;
    return 0;
}

static bool is_error(const redisReply *reply, const char *word)
{
    return reply && reply->type == REDIS_REPLY_ERROR && strstr(reply->str, word) != NULL;
}

/* The same; loads the library if the server does not have it. */
static int exchange_functions(struct store *store, redisReply **ret, struct redrive_err *err)
{
    int rc = exchange(store, ret, err);
    if (rc == 0 && is_error(*ret, "Function not found") && !store->is_as_is) {
        freeReplyObject(*ret);
        *ret = NULL;
        if (read_unread(store) != 0)
            return rd_link_broken(store, err);
        rc = load_library(store, err);
        if (rc == 0)
            rc = exchange(store, ret, err);
    }
    return rc;
}

/* Ends a request that the server has refused because the store is elsewhere. An open transaction is
 * lost, because the other server may not have all that was read from this one. */
static int store_has_moved(struct store *store, redisReply **ret, struct redrive_err *err)
{
    const struct str text = {(*ret)->str, (*ret)->len};
    int rc = rd_link_error(text, err);
    if (store->in_transaction) {
        store->is_lost = store->is_astray = true;
        rc = err_set(err, REDRIVE_E_CANCELLED, "the transaction is lost: its store is being moved");
        err_detail(err, "the server says: %.*s", (int)text.len, text.ptr);
        err_hint(err, "do it again");
    } else if (!rd_says_later(text) || rd_says_nowhere(text)) {
        rd_node_told(&store->place, text);
        rd_link_close(store);
    }
    freeReplyObject(*ret);
    *ret = NULL;
    return rc;
}

/* The same; tries again while a cluster moves the store. */
static int exchange_patiently(struct store *store, redisReply **ret, struct redrive_err *err)
{
    for (int step = 0;; step++) {
        int rc = exchange_functions(store, ret, err);
        if (rc != 0 || !*ret || (*ret)->type != REDIS_REPLY_ERROR)
            return rc;
        const struct str text = {(*ret)->str, (*ret)->len};
        if (!rd_says_elsewhere(text))
            return 0;
        if (!rd_says_later(text) || store->in_transaction || step == STEPS_MAX)
            return store_has_moved(store, ret, err);
        freeReplyObject(*ret);
        *ret = NULL;
        const struct timespec nap = {.tv_nsec = STEP_NS};
        nanosleep(&nap, NULL);
    }
}

/* No server can be reached: the transaction is lost, and the next begin returns the reason. */
static int lose_link(struct store *store, int rc, struct redrive_err *err)
{
    if (!store->in_transaction)
        return rc;
    store->is_lost = true;
    if (err)
        err->code = REDRIVE_E_CANCELLED;
    return REDRIVE_E_CANCELLED;
}

/* The same; connects again if the connection is gone. Commits are not sent this way; all other
 * requests are reads, or can be repeated. What a transaction has read before stays valid: its
 * commit checks it. */
static int exchange_again(struct store *store, redisReply **ret, struct redrive_err *err)
{
    int rc = exchange_patiently(store, ret, err);
    if (rc != 0 && !store->link) {
        rc = rd_link_open(store, err);
        if (rc == 0)
            rc = exchange_patiently(store, ret, err);
        if (rc != 0 && !store->link)
            rc = lose_link(store, rc, err);
    }
    return rc;
}

static int lose_transaction(struct store *store, struct redrive_err *err)
{
    store->is_lost = true;
    int rc = err_set(err, REDRIVE_E_CANCELLED,
                     "the transaction is lost: the Redis server goes on with other data");
    err_detail(err, "it was started again, has become the primary, or was emptied");
    err_hint(err, "do it again");
    return rc;
}

static int finish(struct store *store, redisReply **ret, struct redrive_err *err)
{
    if (!*ret)
        return rd_link_broken(store, err);
    if ((*ret)->type != REDIS_REPLY_ERROR)
        return 0;
    int rc = rd_link_error((struct str){(*ret)->str, (*ret)->len}, err);
    /* Only begin may set up a store that is gone. */
    if (store->in_transaction && rc == REDRIVE_E_NOT_FOUND) {
        store->told.is_known = false;
        rc = lose_transaction(store, err);
    }
    freeReplyObject(*ret);
    *ret = NULL;
    return rc;
}

int rd_link_call(struct store *store, redisReply **ret, struct redrive_err *err)
{
    int rc = exchange_again(store, ret, err);
    return rc == 0 ? finish(store, ret, err) : rc;
}

/* ---- What every answer carries -----------------------------------------------------------------
 */

static bool take_number(const char **at, int64_t *ret)
{
    const char *end;
    *ret = rd_number(*at, &end);
    const bool ok = end != *at && *end == ' ';
    *at = end + 1;
    return ok;
}

/* Time, shared version, number of commits, id; and the history, unless it is the one of the last
 * answer. The request was not sent before `sent_ns`. */
static bool read_told(struct str text, int64_t sent_ns, struct told *told)
{
    const char *at = text.ptr;
    int64_t now_ms;
    told->is_known = true;
    if (text.len == 0 || !take_number(&at, &now_ms) || !take_number(&at, &told->shared_version) ||
        !take_number(&at, &told->commits))
        return false;
    server_time_hear(&told->time, now_ms, sent_ns, clock_monotonic_ns());
    const size_t len = strcspn(at, " ");
    const struct str history = str_of(at[len] == ' ' ? at + len + 1 : "");
    return str_copy(told->id, sizeof told->id, (struct str){at, len}) &&
           (history.len == 0 ||
            (told->has_history = str_copy(told->history, sizeof told->history, history)));
}

/* Notes what an answer carries, and removes that from it. */
static int take_told(struct store *store, redisReply **ret, struct redrive_err *err)
{
    redisReply *reply = *ret;
    *ret = NULL;
    int rc = 0;
    if (!reply || reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !read_told(rd_reply_str(reply, 0), store->sent_ns, &store->told))
        rc = err_set(err, REDRIVE_E_CORRUPT, "the Redis server has answered something else");
    else if (store->in_transaction && !rd_is_known(store))
        rc = lose_transaction(store, err);
    if (rc == 0 && store->in_transaction && !store->has_heard) {
        store->has_heard = true;
        store->commits_seen = store->told.commits;
    }
    if (rc == 0 && reply) {
        *ret = reply->element[1];
        reply->element[1] = NULL;
    }
    freeReplyObject(reply);
    return rc;
}

int rd_link_told(struct store *store, redisReply **ret, struct redrive_err *err)
{
    int rc = rd_link_call(store, ret, err);
    return rc == 0 ? take_told(store, ret, err) : rc;
}

/* Reads the reply to the request that went with a commit. Its jobs are reserved even if the commit
 * was refused. */
static void read_ahead(struct store *store)
{
    redisReply *reply = NULL;
    if (!rd_wire_reply(store->link, &reply)) {
        (void)rd_link_broken(store, NULL);
        return;
    }
    store->n_unread--;
    if (reply->type == REDIS_REPLY_ARRAY && take_told(store, &reply, NULL) == 0)
        rd_ahead_take(store, reply);
    else
        freeReplyObject(reply);
}

int rd_link_commit(struct store *store, redisReply **ret, bool *ret_undone, struct redrive_err *err)
{
    int rc = exchange_patiently(store, ret, err);
    const bool has_ahead = rc == 0 && store->n_unread > 0;
    /* With a link, it was not sent, or the server has no such function and cannot be given it. */
    *ret_undone = rc != 0 ? store->link != NULL
                          : *ret && (*ret)->type == REDIS_REPLY_ERROR &&
                                rd_says_undone((struct str){(*ret)->str, (*ret)->len});
    if (rc == 0)
        rc = finish(store, ret, err);
    if (rc == 0)
        rc = take_told(store, ret, err);
    if (has_ahead && store->link)
        read_ahead(store);
    return rc;
}

/* The next transaction, and the engine, start as with a store that they have never seen. */
int rd_store_replaced(struct store *store, struct str id, struct redrive_err *err)
{
    store->told.is_known = false;
    if (store->in_transaction)
        return lose_transaction(store, err);
    rd_store_forget(store);
    str_copy(store->known_id, sizeof store->known_id, id);
    store->known_history[0] = '\0';
    int rc =
        err_set(err, REDRIVE_E_CANCELLED, "the store in the Redis server is another one by now");
    err_detail(err, "the server was emptied, and a new store was set up");
    err_hint(err, "do it again; to have the first one back restore a backup");
    return rc;
}

int rd_link_read(struct store *store, redisReply **ret, struct redrive_err *err)
{
    int rc = exchange_again(store, ret, err);
    if (rc != 0)
        return rc;
    if (is_error(*ret, "REPLACED ") && str_starts_with(str_of((*ret)->str), STR("REPLACED "))) {
        rc = rd_store_replaced(store, str_of((*ret)->str + strlen("REPLACED ")), err);
        freeReplyObject(*ret);
        *ret = NULL;
        return rc;
    }
    rc = finish(store, ret, err);
    return rc == 0 ? take_told(store, ret, err) : rc;
}

void rd_link_tell(struct store *store)
{
    if (!store->link || send_words(store, NULL) != 0)
        return;
    store->n_unread++;
    if (!rd_wire_send(store->link))
        rd_link_broken(store, NULL);
}
