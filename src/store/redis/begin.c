/* begin.c - the writer's place: asking for it, and waiting until it is one's turn.
 *
 * Who has to wait stands in a list in the server. One who has had to wait before listens on a
 * connection of its own as well: then the commit or rollback that frees the place hands it over,
 * and the message has all that a begin would have answered. Asking goes on, less often, for the
 * holder may have died. One that was too late for a place that it was handed only asks, until it
 * has made a commit.
 */
#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/err.h"
#include "store/redis/private.h"

/* After this long without a word the writer's place may be taken by somebody else. */
#define LEASE_MS 4000

/* Who waits asks this often. One who listens asks less often the more often it was told, and the
 * more are before it, so that many ask together hardly more often than a few. */
#define NAP_NS        300000
#define NAP_FOLD_MAX  100
#define LISTEN_MIN_MS 2
#define LISTEN_MAX_MS 16
#define LISTEN_CAP_MS 150

/* How often one who waits looks whether the holder of the place is still there. */
#define LOOK_EVERY_MS 50

/* What the server says to one who begins. */
struct begun {
    int64_t unit;   /* 0: it does not yet */
    int64_t before; /* then: how many have their turn before it */
    int64_t last_seq;
    int64_t shared_version;
    int64_t commits;
    int64_t now_ms;
    int64_t meddled; /* commits that have changed what another handle has started */
    bool is_handed;  /* by whoever had the place before */
    char history[RD_HISTORY_MAX];
    char id[24];
};

/* ---- Asking -------------------------------------------------------------------------------------
 */

/* Whether the connection that has the writer's place is gone. If that cannot be asked, its lease
 * tells. */
static bool is_gone(struct store *store, struct str client)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "CLIENT");
    rd_ask_text(store, "LIST");
    rd_ask_text(store, "ID");
    rd_ask_str(store, client);
    if (rd_link_call(store, &reply, NULL) != 0)
        return false;
    const bool gone = reply->type == REDIS_REPLY_STRING && reply->len < 4;
    freeReplyObject(reply);
    return gone;
}

static int call_begin(struct store *store, int64_t dead, redisReply **ret, struct redrive_err *err)
{
    rd_ask(store, "begin");
    rd_ask_text(store, store->me);
    rd_ask_int(store, store->client_id);
    rd_ask_text(store, store->run_id);
    rd_ask_int(store, LEASE_MS);
    rd_ask_int(store, dead);
    rd_ask_int(store, store->turn != NULL);
    return rd_link_call_here(store, ret, err);
}

static void read_begun(const redisReply *reply, struct begun *ret)
{
    *ret = (struct begun){.unit = rd_reply_int(reply, 1),
                          .last_seq = rd_reply_int(reply, 2),
                          .shared_version = rd_reply_int(reply, 3),
                          .commits = rd_reply_int(reply, 4),
                          .now_ms = rd_reply_int(reply, 5),
                          .meddled = rd_reply_int(reply, 6)};
    str_copy(ret->id, sizeof ret->id, rd_reply_str(reply, 7));
    str_copy(ret->history, sizeof ret->history, rd_reply_str(reply, 8));
}

/* One attempt. `dead` is the number of a unit whose holder is gone. A new connection has another
 * name, by which others see that its holder lives. */
static int try_begin(struct store *store, int64_t *dead, bool looks, struct begun *ret,
                     struct redrive_err *err)
{
    redisReply *reply = NULL;
    int rc = call_begin(store, *dead, &reply, err);
    *dead = -1;
    if (rc == REDRIVE_E_IO && !store->link) {
        rc = rd_link_open(store, err);
        if (rc == 0)
            rc = call_begin(store, -1, &reply, err);
    }
    if (rc != 0)
        return rc;
    ret->before = rd_reply_int(reply, 3);
    if (rd_reply_int(reply, 0) == 1)
        read_begun(reply, ret);
    else if (looks && rd_reply_int(reply, 2) > 0 && is_gone(store, rd_reply_str(reply, 2)))
        *dead = rd_reply_int(reply, 1);
    freeReplyObject(reply);
    return 0;
}

/* ---- Waiting ------------------------------------------------------------------------------------
 */

static void turn_open(struct store *store)
{
    char channel[sizeof store->me + 8] = "turn:";
    memcpy(channel + strlen(channel), store->me, sizeof store->me);
    store->turn = rd_ear_open(store, channel);
    store->is_deaf = !store->turn;
    store->listen_ms = LISTEN_MAX_MS;
}

static void turn_close(struct store *store)
{
    if (store->turn)
        redisFree(store->turn);
    store->turn = NULL;
}

/* A message has the words of a begin's reply. It may be an old one, of a unit that was asked for
 * sooner than the message was read. One of a program that says less is left: who asks is answered
 * with the place that it was given. */
static void read_message(const struct store *store, struct str message, struct begun *ret)
{
    int64_t numbers[7] = {0};
    const char *at = message.ptr;
    for (size_t i = 0; i < 7 && message.len > 0; i++) {
        char *end;
        numbers[i] = strtoll(at, &end, 10);
        at = *end == ' ' ? end + 1 : end;
    }
    const size_t len = strcspn(at, " ");
    if (numbers[0] != 1 || numbers[1] <= store->last_unit || at[len] != ' ')
        return;
    *ret = (struct begun){.unit = numbers[1],
                          .last_seq = numbers[2],
                          .shared_version = numbers[3],
                          .commits = numbers[4],
                          .now_ms = numbers[5],
                          .meddled = numbers[6],
                          .is_handed = true};
    str_copy(ret->id, sizeof ret->id, (struct str){at, len});
    str_copy(ret->history, sizeof ret->history, str_of(at + len + 1));
}

/* Reads what has come. */
static void hear_turn(struct store *store, struct begun *ret)
{
    redisReply *reply;
    int rc = rd_ear_read(store->turn);
    while (rc == 0 && (rc = rd_ear_next(store->turn, &reply)) == 0 && reply) {
        read_message(store, rd_reply_str(reply, 2), ret);
        freeReplyObject(reply);
    }
    if (rc != 0)
        turn_close(store);
}

static void listen_for_turn(struct store *store, struct begun *ret)
{
    const int64_t before = ret->before;
    const int64_t patience_ms = store->listen_ms * (before + 1);
    const int64_t until_ms =
        clock_monotonic_ms() + (patience_ms < LISTEN_CAP_MS ? patience_ms : LISTEN_CAP_MS);
    while (store->turn && ret->unit == 0) {
        struct pollfd at = {.fd = store->turn->fd, .events = POLLIN};
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (left_ms <= 0 || poll(&at, 1, (int)left_ms) <= 0)
            break;
        hear_turn(store, ret);
    }
    if (ret->unit != 0)
        store->listen_ms = LISTEN_MAX_MS;
    else if (before == 0 && store->listen_ms > LISTEN_MIN_MS)
        store->listen_ms /= 2;
}

/* Some time passes, or it is this one's turn. */
static void wait_a_while(struct store *store, struct begun *ret)
{
    if (store->turn) {
        listen_for_turn(store, ret);
        return;
    }
    const bool listens = store->has_waited && !store->is_deaf && !store->is_late;
    store->has_waited = true;
    if (listens) {
        turn_open(store);
        return;
    }
    const long fold = ret->before < NAP_FOLD_MAX ? (long)ret->before + 1 : NAP_FOLD_MAX;
    const struct timespec nap = {.tv_nsec = (NAP_NS + (long)rng_below(&store->rng, NAP_NS)) * fold};
    nanosleep(&nap, NULL);
}

/* One who gives up must not be given the place, nor hear later that it was. */
static int leave(struct store *store, int rc)
{
    turn_close(store);
    if (store->link) {
        rd_ask(store, "leave");
        rd_ask_text(store, store->me);
        rd_link_tell(store);
    }
    return rc;
}

static int too_busy(const struct store *store, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_IO, "the store is busy");
    err_detail(err, "other units were open for %lld ms", (long long)store->busy_wait_ms);
    return rc;
}

static int wait_to_begin(struct store *store, struct begun *ret, struct redrive_err *err)
{
    bool is_set_up = !store->creates;
    const int64_t since_ms = clock_monotonic_ms();
    int64_t dead = -1, look_at_ms = since_ms + 5;
    *ret = (struct begun){0};
    if (store->is_late)
        turn_close(store);
    for (;;) {
        const int64_t at_ms = clock_monotonic_ms();
        const bool looks = at_ms >= look_at_ms;
        if (looks)
            look_at_ms = at_ms + LOOK_EVERY_MS;
        int rc = try_begin(store, &dead, looks, ret, err);
        if (rc == REDRIVE_E_NOT_FOUND && !is_set_up) {
            is_set_up = true;
            rc = rd_set_up(store, err);
        }
        if (rc != 0)
            return leave(store, rc);
        if (ret->unit == 0 && dead < 0)
            wait_a_while(store, ret);
        if (ret->unit != 0)
            return 0;
        if (at_ms - since_ms >= store->busy_wait_ms && dead < 0)
            return leave(store, too_busy(store, err));
    }
}

/* ---- What is known ------------------------------------------------------------------------------
 */

/* Whether what is cached was read from this store: the same one, in a server that has lost nothing
 * since, neither by being started again nor by following another one for a while. */
static bool is_known(const struct store *store)
{
    return strcmp(store->known_history, store->history) == 0 &&
           strcmp(store->known_id, store->id) == 0;
}

/* Forgets rows that may not be as the server has them: nothing was kept, it is another store by
 * now, or somebody else had a unit in between. What this handle has started nobody else changes
 * without saying so. Numbers of units that were rolled back are given out again after a fail-over,
 * so that the next one is no proof. */
static void forget_rows(struct store *store, int64_t meddled)
{
    if (store->kept_unit == 0 || !is_known(store) || meddled != store->meddled)
        rd_unit_forget(store);
    else if (store->unit != store->kept_unit + 1)
        rd_entries_keep_running(store);
    store->meddled = meddled;
}

/* A server with another history may have less than it had, and a store that was emptied has
 * nothing: what is cached of it may not be so, here and in the engine, for which no version is the
 * one that it knows. No row may be known any more, for rows point to lines. */
static void forget_another(struct store *store, int64_t *ret_shared_version)
{
    if (is_known(store))
        return;
    memcpy(store->known_history, store->history, sizeof store->known_history);
    memcpy(store->known_id, store->id, sizeof store->known_id);
    rd_lines_forget(store);
    store->pauses_version = -1;
    *ret_shared_version = STORE_VERSION_UNKNOWN;
}

int redis_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                int64_t *ret_shared_version, struct redrive_err *err)
{
    struct begun begun;
    if (store->in_unit)
        return err_set(err, REDRIVE_E_STATE, "a unit is open already");
    int rc = wait_to_begin(store, &begun, err);
    if (rc != 0)
        return rc;
    store->unit = store->last_unit = begun.unit;
    memcpy(store->id, begun.id, sizeof store->id);
    memcpy(store->history, begun.history, sizeof store->history);
    forget_rows(store, begun.meddled);
    store->in_unit = true;
    store->is_handed = begun.is_handed;
    store->base.news = STORE_NEWS_ALL;
    store->last_seq = begun.last_seq;
    store->shared_version = store->shared_begun = begun.shared_version;
    store->commits_seen = begun.commits;
    store->now_ms = store->caller_time ? now_ms : begun.now_ms;
    *ret_now_ms = store->now_ms;
    *ret_shared_version = store->shared_version;
    forget_another(store, ret_shared_version);
    return 0;
}
