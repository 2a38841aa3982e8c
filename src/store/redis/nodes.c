/* nodes.c - where the store is: the servers of the URL, the primary that Sentinels name and, in a
 * cluster, the node that serves the store's slot. */
#include <stdlib.h>
#include <time.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/redis/link.h"
#include "store/redis/private.h"

/* How long one look for the store may take; the last server that is asked may take longer. */
#define LOOK_MS 3000

/* How long a node is asked that knows no node which serves the store, if there are others. */
#define NOWHERE_MS 500

/* How long a server that is one of several may take for a greeting. */
#define GREETING_MS 2000

/* How often a look follows nodes that each name another one. */
#define HOPS_MAX 5

#define NAP_NS 50000000

/* One look. */
struct look {
    int64_t until_ms;
    struct node dead; /* one that does not answer, though others may still name it */
};

/* ---- Connecting ------------------------------------------------------------------------------ */

/* How long to wait for an answer. A single server may be slow for seconds and still answer: its log
 * is on a disk that stalls, or a function of another program runs, which it reports (BUSY) only
 * after five seconds. An early error would only make the outcome unknown. Where there are several
 * servers one of them may take over: ten seconds are longer than most stalls, and shorter than the
 * fifteen after which a cluster fails over. If the wait was too short, the transaction is lost, or
 * its outcome is asked for. */
#define PATIENCE_MS      30000
#define PATIENCE_MANY_MS 10000

/* How long to wait for a connection; shorter where there are other servers to ask. */
#define CONNECT_MS      5000
#define CONNECT_MANY_MS 1000

static int64_t patience_ms(const struct place *place)
{
    return rd_place_has_others(place) ? PATIENCE_MANY_MS : PATIENCE_MS;
}

int rd_link_connect(const struct place *place, struct rd_wire **ret, struct redrive_err *err)
{
    int rc = rd_wire_open(&place->at, &place->tls,
                          rd_place_has_others(place) ? CONNECT_MANY_MS : CONNECT_MS, ret, err);
    if (rc == 0)
        rd_wire_set_limit(*ret, patience_ms(place));
    return rc;
}

static int expect_ok(struct rd_wire *link, redisReply *reply, struct redrive_err *err)
{
    int rc = 0;
    if (!reply)
        rc = rd_wire_explain(link, err);
    else if (reply->type == REDIS_REPLY_ERROR)
        rc = rd_link_error((struct str){reply->str, reply->len}, err);
    freeReplyObject(reply);
    return rc;
}

static int log_in(struct rd_wire *link, const struct place *place, struct redrive_err *err)
{
    if (!place->password)
        return 0;
    return expect_ok(link,
                     place->user ? rd_wire_command(link, "AUTH %s %s", place->user, place->password)
                                 : rd_wire_command(link, "AUTH %s", place->password),
                     err);
}

int rd_link_greet(struct rd_wire *link, const struct place *place, struct redrive_err *err)
{
    int rc = log_in(link, place, err);
    if (rc == 0 && place->db != 0)
        rc = expect_ok(link, rd_wire_command(link, "SELECT %d", place->db), err);
    if (rc == 0)
        rc = expect_ok(link, rd_wire_command(link, "PING"), err);
    return rc;
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool says(struct str text, const char *word)
{
    return str_starts_with(text, str_of(word));
}

/* A node that does not know its own address has the one where it was asked. */
static bool address(const struct place *place, struct str host, long long port, struct node *ret)
{
    *ret = place->at;
    if (port <= 0 || port > 65535 || host.len >= sizeof ret->host || str_is(host, "?"))
        return false;
    if (host.len > 0)
        str_copy(ret->host, sizeof ret->host, host);
    else if (place->at.port == 0)
        str_copy(ret->host, sizeof ret->host, STR("127.0.0.1"));
    ret->port = (int)port;
    return true;
}

/* MOVED 3999 10.0.0.7:6381 */
void rd_node_told(struct place *place, struct str text)
{
    struct node node;
    if (!says(text, "MOVED "))
        return;
    const char *colon = memrchr(text.ptr, ':', text.len);
    const char *space = memrchr(text.ptr, ' ', text.len);
    if (!colon || colon < space)
        return;
    const struct str host = {space + 1, (size_t)(colon - space - 1)};
    if (address(place, host, strtol(colon + 1, NULL, 10), &node))
        place->at = node;
}

/* ---- The nodes of a cluster ------------------------------------------------------------------ */

static void remember(struct place *place, const struct node *node)
{
    for (size_t i = 0; i < place->n_nodes; i++)
        if (rd_node_is(&place->nodes[i], node))
            return;
    if (place->n_nodes < NODES_MAX)
        place->nodes[place->n_nodes++] = *node;
}

/* The nodes of a range of slots: its first and last slot, then each node as address, port and more.
 */
static void remember_range(struct place *place, const redisReply *range)
{
    for (size_t i = 2; i < range->elements; i++) {
        struct node node;
        if (address(place, rd_reply_str(range->element[i], 0), rd_reply_int(range->element[i], 1),
                    &node))
            remember(place, &node);
    }
}

/* The nodes of the store's slot come first: one of them takes over when this one is gone. A user
 * without the right to ask knows only the nodes of the URL. */
static void learn_nodes(struct store *store)
{
    struct place *place = &store->place;
    redisReply *slot = rd_wire_command(store->link, "CLUSTER KEYSLOT %s", store->root);
    redisReply *slots = rd_wire_command(store->link, "CLUSTER SLOTS");
    if (slot && slots && slot->type == REDIS_REPLY_INTEGER && slots->type == REDIS_REPLY_ARRAY) {
        place->n_nodes = place->n_given;
        for (int others = 0; others < 2; others++)
            for (size_t i = 0; i < slots->elements; i++) {
                const redisReply *range = slots->element[i];
                const bool is_ours = rd_reply_int(range, 0) <= slot->integer &&
                                     slot->integer <= rd_reply_int(range, 1);
                if (is_ours == (others == 0))
                    remember_range(place, range);
            }
    }
    freeReplyObject(slot);
    freeReplyObject(slots);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* Learns whether the server is in a cluster. Returns whether it is a replica outside of a cluster;
 * a replica in a cluster names its primary by itself. */
static bool learn_role(struct store *store)
{
    redisReply *info = rd_wire_command(store->link, "INFO replication cluster");
    store->is_cluster = str_is(rd_info_line(info, "cluster_enabled:"), "1");
    const bool follows = !store->is_cluster && str_is(rd_info_line(info, "role:"), "slave");
    freeReplyObject(info);
    return follows;
}

/* Connects to place->at, whatever its role is. */
static int visit(struct store *store, struct look *look, struct redrive_err *err)
{
    struct place *place = &store->place;
    if (rd_node_is(&place->at, &look->dead))
        return REDRIVE_E_IO;
    rd_link_close(store);
    int rc = rd_link_connect(place, &store->link, err);
    if (rc != 0) {
        look->dead = place->at;
        return rc;
    }
    if (rd_place_has_others(place))
        rd_wire_set_limit(store->link, GREETING_MS);
    rc = rd_link_greet(store->link, place, err);
    if (*rd_wire_error(store->link))
        look->dead = place->at;
    if (rc == 0 && learn_role(store) && (place->n_given > 1 || place->sentinel))
        rc = rd_link_error(STR("READONLY it follows another one"), err);
    if (rc == 0)
        rd_wire_set_limit(store->link, patience_ms(place));
    return rc;
}

/* The reply of the node to a request with a key of the store: an error says where the store is. */
static redisReply *ask_for_slot(struct store *store, const struct look *look)
{
    const int64_t nowhere_ms = clock_monotonic_ms() + NOWHERE_MS;
    for (;;) {
        redisReply *reply = rd_wire_command(store->link, "EXISTS %s", store->root);
        if (!reply || reply->type != REDIS_REPLY_ERROR)
            return reply;
        const struct str text = {reply->str, reply->len};
        const bool asks_others = rd_says_nowhere(text) && store->place.n_nodes > 1;
        if (!rd_says_later(text) || clock_monotonic_ms() >= look->until_ms ||
            (asks_others && clock_monotonic_ms() >= nowhere_ms))
            return reply;
        freeReplyObject(reply);
        const struct timespec nap = {.tv_nsec = NAP_NS};
        nanosleep(&nap, NULL);
    }
}

/* Whether the node in use serves the store's slot; if not, place->at is the one that does. */
static int find_slot(struct store *store, const struct look *look, bool *ret_here,
                     struct redrive_err *err)
{
    const struct node asked = store->place.at;
    redisReply *reply = ask_for_slot(store, look);
    int rc = 0;
    *ret_here = false;
    if (!reply)
        return rd_link_broken(store, err);
    if (reply->type == REDIS_REPLY_ERROR) {
        const struct str text = {reply->str, reply->len};
        rd_node_told(&store->place, text);
        if (rd_node_is(&asked, &store->place.at))
            rc = rd_link_error(text, err);
    } else {
        *ret_here = true;
    }
    freeReplyObject(reply);
    return rc;
}

/* Goes from a node to the one that it names, and so on. */
static int follow(struct store *store, const struct node *from, struct look *look,
                  struct redrive_err *err)
{
    bool is_here = false;
    store->place.at = *from;
    for (int hops = 0; hops < HOPS_MAX && !is_here; hops++) {
        int rc = visit(store, look, err);
        if (rc == 0 && store->is_cluster)
            rc = find_slot(store, look, &is_here, err);
        if (rc != 0 || !store->is_cluster)
            return rc;
    }
    if (is_here) {
        learn_nodes(store);
        rd_wire_set_limit(store->link, patience_ms(&store->place));
    }
    return is_here ? 0
                   : err_set(err, REDRIVE_E_IO, "the nodes of the Redis cluster name each other");
}

/* Whether the user, the URL or a certificate is wrong. Another node may be right all the same: the
 * first such error is told when no node is. */
static bool is_refusal(int rc)
{
    return rc == REDRIVE_E_DENIED || rc == REDRIVE_E_INVALID;
}

static bool is_final(int rc)
{
    return rc == 0 || rc == REDRIVE_E_NOMEM;
}

static void keep_refusal(int rc, const struct redrive_err *err, struct redrive_err *kept)
{
    if (is_refusal(rc) && kept->code == 0)
        *kept = *err;
}

/* The error of a look in which no node would do. */
static int refused_or(int rc, const struct redrive_err *kept, struct redrive_err *err)
{
    if (kept->code == 0 || is_final(rc))
        return rc;
    *err = *kept;
    return kept->code;
}

static int try_nodes(struct store *store, struct look *look, struct redrive_err *err)
{
    const struct place *place = &store->place;
    const struct node first = place->at;
    struct redrive_err kept = {0};
    int rc = follow(store, &first, look, err);
    keep_refusal(rc, err, &kept);
    for (size_t i = 0; i < place->n_nodes && !is_final(rc); i++) {
        if (clock_monotonic_ms() >= look->until_ms)
            break;
        if (!rd_node_is(&place->nodes[i], &first))
            rc = follow(store, &place->nodes[i], look, err);
        keep_refusal(rc, err, &kept);
    }
    return refused_or(rc, &kept, err);
}

/* ---- Sentinels ------------------------------------------------------------------------------- */

/* A Sentinel may want a password; if so, it is that of the URL. */
static int ask_for_primary(struct rd_wire *wire, const struct place *place, redisReply **ret,
                           struct redrive_err *err)
{
    static const char QUESTION[] = "SENTINEL get-master-addr-by-name %s";
    *ret = rd_wire_command(wire, QUESTION, place->sentinel);
    if (*ret && (*ret)->type == REDIS_REPLY_ERROR && says(str_of((*ret)->str), "NOAUTH") &&
        place->password) {
        freeReplyObject(*ret);
        *ret = NULL;
        int rc = log_in(wire, place, err);
        if (rc != 0)
            return rc;
        *ret = rd_wire_command(wire, QUESTION, place->sentinel);
    }
    return *ret ? 0 : rd_wire_explain(wire, err);
}

/* Sets place->at to what a Sentinel has answered. */
static int take_primary(struct place *place, const redisReply *reply, struct redrive_err *err)
{
    struct node primary;
    char where[NODE_TEXT_MAX];
    if (reply->type == REDIS_REPLY_ERROR)
        return rd_link_error((struct str){reply->str, reply->len}, err);
    if (!address(place, rd_reply_str(reply, 0), rd_reply_int(reply, 1), &primary)) {
        int rc = err_set(err, REDRIVE_E_INVALID, "the Sentinel at %s knows no primary '%s'",
                         rd_node_text(&place->at, where), place->sentinel);
        err_hint(err, "sentinel=NAME has the name of its line `sentinel monitor NAME ...`");
        return rc;
    }
    place->at = primary;
    return 0;
}

/* Sets place->at to the primary that a Sentinel names. */
static int ask_sentinel(struct place *place, const struct node *sentinel, struct redrive_err *err)
{
    struct rd_wire *wire = NULL;
    redisReply *reply = NULL;
    place->at = *sentinel;
    int rc = rd_link_connect(place, &wire, err);
    if (rc != 0)
        return rc;
    rd_wire_set_limit(wire, GREETING_MS);
    rc = ask_for_primary(wire, place, &reply, err);
    if (rc == 0)
        rc = take_primary(place, reply, err);
    freeReplyObject(reply);
    rd_wire_close(wire);
    return rc;
}

/* After a primary has gone the Sentinels name it until they have chosen another one. */
static int try_sentinels(struct store *store, struct look *look, struct redrive_err *err)
{
    struct place *place = &store->place;
    for (;;) {
        struct redrive_err kept = {0};
        bool is_named = false;
        int rc = REDRIVE_E_IO;
        for (size_t i = 0; i < place->n_given && !is_final(rc); i++) {
            if (i > 0 && clock_monotonic_ms() >= look->until_ms)
                break;
            rc = ask_sentinel(place, &place->nodes[i], err);
            is_named = is_named || rc == 0;
            if (rc == 0)
                rc = visit(store, look, err);
            keep_refusal(rc, err, &kept);
        }
        rc = refused_or(rc, &kept, err);
        if (is_final(rc) || is_refusal(rc) || !is_named || clock_monotonic_ms() >= look->until_ms)
            return rc;
        const struct timespec nap = {.tv_nsec = NAP_NS};
        nanosleep(&nap, NULL);
    }
}

int rd_link_open(struct store *store, struct redrive_err *err)
{
    struct place *place = &store->place;
    struct look look = {.until_ms = clock_monotonic_ms() + LOOK_MS};
    const struct node first = place->at;
    /* Its notifications come from the node that is left. */
    rd_listener_close(store);
    int rc = place->sentinel ? try_sentinels(store, &look, err) : try_nodes(store, &look, err);
    if (rc != 0) {
        rd_link_close(store);
        place->at = first;
    }
    return rc;
}
