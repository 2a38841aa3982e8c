/* nodes.c - where the store is: the URL, its servers and, in a cluster, the node that serves its
 * slot. */
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
#define GREETING_S 2

/* How often a look follows nodes that each name another one. */
#define HOPS_MAX 5

#define NAP_NS 50000000

/* One look. */
struct look {
    int64_t until_ms;
    struct node dead; /* one that does not answer, though others may still name it */
};

/* ---- The URL --------------------------------------------------------------------------------- */

#define DEFAULT_PORT   6379
#define DEFAULT_PREFIX "redrive"

/* Text with an at sign may be part of a password, and is not shown. */
static int wrong_url(const char *what, struct str text, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_INVALID, "the URL of the Redis store has %s", what);
    if (text.len > 0 && !memchr(text.ptr, '@', text.len))
        err_detail(err, "'%.*s'", (int)text.len, text.ptr);
    err_hint(err, "write redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DB][?prefix=NAME], "
                  "or redis:/PATH/OF/SOCKET");
    return rc;
}

/* Cuts off what is before a byte, and the byte; false: the byte is not there. */
static bool cut(struct str *text, char at, struct str *ret)
{
    const char *found = text->len > 0 ? memchr(text->ptr, at, text->len) : NULL;
    if (!found)
        return false;
    *ret = (struct str){text->ptr, (size_t)(found - text->ptr)};
    text->len -= ret->len + 1;
    text->ptr = found + 1;
    return true;
}

/* The same from the end: cuts off what follows the byte. */
static bool cut_tail(struct str *text, char at, struct str *ret)
{
    const char *found = text->len > 0 ? memrchr(text->ptr, at, text->len) : NULL;
    if (!found)
        return false;
    *ret = (struct str){found + 1, text->len - (size_t)(found + 1 - text->ptr)};
    text->len = (size_t)(found - text->ptr);
    return true;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A copy with %XX resolved; NULL: no memory. */
static char *decoded(struct str text)
{
    char *copy = str_dup(text);
    size_t n = 0;
    for (size_t i = 0; copy && i < text.len; i++) {
        const bool is_escape = text.ptr[i] == '%' && i + 2 < text.len;
        const int high = is_escape ? hex(text.ptr[i + 1]) : -1;
        const int low = is_escape ? hex(text.ptr[i + 2]) : -1;
        const unsigned char byte = (unsigned char)(high * 16 + low);
        if (high < 0 || low < 0) {
            copy[n++] = text.ptr[i];
            continue;
        }
        memcpy(&copy[n++], &byte, 1);
        i += 2;
    }
    if (copy)
        copy[n] = '\0';
    return copy;
}

static bool number(struct str text, int max, int *ret)
{
    int n = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || n > max / 10)
            return false;
        n = n * 10 + text.ptr[i] - '0';
    }
    *ret = n;
    return text.len > 0 && n <= max;
}

static int parse_query(struct str query, struct place *ret, struct redrive_err *err)
{
    struct str name = query;
    if (!str_starts_with(query, STR("prefix="))) {
        (void)cut(&query, '=', &name);
        return wrong_url("a setting that is not known", name, err);
    }
    struct str prefix = {query.ptr + 7, query.len - 7};
    for (size_t i = 0; i < prefix.len; i++)
        if (strchr("{}:&?#", prefix.ptr[i]) || (unsigned char)prefix.ptr[i] <= ' ')
            return wrong_url("a prefix that cannot be part of a key", prefix, err);
    if (prefix.len == 0 || prefix.len >= PREFIX_MAX)
        return wrong_url("a prefix that is empty or too long", prefix, err);
    str_copy(ret->prefix, sizeof ret->prefix, prefix);
    return 0;
}

static int parse_user(struct str text, struct place *ret, struct redrive_err *err)
{
    struct str user = {0};
    if (cut(&text, ':', &user) && user.len > 0 && !(ret->user = decoded(user)))
        return err_nomem(err);
    ret->password = decoded(text);
    return ret->password ? 0 : err_nomem(err);
}

static int add_node(struct place *place, struct str host, int port, struct redrive_err *err)
{
    struct node *node = &place->nodes[place->n_nodes];
    if (host.len >= sizeof node->host)
        return wrong_url("an address that is too long", host, err);
    if (place->n_nodes == NODES_GIVEN_MAX)
        return wrong_url("more addresses than eight", host, err);
    str_copy(node->host, sizeof node->host, host);
    node->port = port;
    place->n_given = ++place->n_nodes;
    place->at = place->nodes[0];
    return 0;
}

static int parse_host(struct str text, struct place *ret, struct redrive_err *err)
{
    struct str port_text = {0};
    int port = DEFAULT_PORT;
    if (text.len > 0 && text.ptr[0] == '[') {
        struct str host;
        text = (struct str){text.ptr + 1, text.len - 1};
        if (!cut(&text, ']', &host))
            return wrong_url("an address without its ]", text, err);
        if (text.len > 0 && text.ptr[0] == ':')
            port_text = (struct str){text.ptr + 1, text.len - 1};
        text = host;
    } else {
        (void)cut_tail(&text, ':', &port_text);
    }
    if (port_text.ptr && (!number(port_text, 65535, &port) || port == 0))
        return wrong_url("a port that is none", port_text, err);
    return add_node(ret, text.len > 0 ? text : STR("127.0.0.1"), port, err);
}

static int parse_hosts(struct str text, struct place *ret, struct redrive_err *err)
{
    struct str one;
    int rc = 0;
    while (rc == 0 && cut(&text, ',', &one))
        rc = parse_host(one, ret, err);
    return rc == 0 ? parse_host(text, ret, err) : rc;
}

static int parse_socket(struct str text, struct place *ret, struct redrive_err *err)
{
    char *path = decoded(text);
    if (!path)
        return err_nomem(err);
    int rc = add_node(ret, str_of(path), 0, err);
    free(path);
    return rc;
}

int rd_place_parse(struct str text, struct place *ret, struct redrive_err *err)
{
    struct str query = {0}, db = {0}, user = {0};
    int rc = 0;
    *ret = (struct place){.prefix = DEFAULT_PREFIX};
    if (cut_tail(&text, '?', &query))
        rc = parse_query(query, ret, err);
    if (rc == 0 && !str_starts_with(text, STR("//"))) {
        if (text.len == 0 || text.ptr[0] != '/')
            return wrong_url("no // after redis:", text, err);
        return parse_socket(text, ret, err);
    }
    if (rc != 0)
        return rc;
    text = (struct str){text.ptr + 2, text.len - 2};
    if (cut_tail(&text, '/', &db) && db.len > 0 && !number(db, 1 << 20, &ret->db))
        return wrong_url("a database that is no number", db, err);
    struct str hosts = text;
    if (cut_tail(&text, '@', &hosts)) {
        user = text;
        rc = parse_user(user, ret, err);
    }
    return rc == 0 ? parse_hosts(hosts, ret, err) : rc;
}

void rd_place_release(struct place *place)
{
    free(place->user);
    free(place->password);
    *place = (struct place){0};
}

/* ---- Addresses ------------------------------------------------------------------------------- */

static bool node_is(const struct node *a, const struct node *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

static bool says(struct str text, const char *word)
{
    return str_starts_with(text, str_of(word));
}

bool rd_says_nowhere(struct str text)
{
    return says(text, "CLUSTERDOWN");
}

bool rd_says_later(struct str text)
{
    return says(text, "ASK ") || says(text, "TRYAGAIN") || rd_says_nowhere(text);
}

bool rd_says_elsewhere(struct str text)
{
    return says(text, "MOVED ") || says(text, "READONLY") || rd_says_later(text);
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
        if (node_is(&place->nodes[i], node))
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
    redisReply *slot = redisCommand(store->link, "CLUSTER KEYSLOT %s", store->root);
    redisReply *slots = redisCommand(store->link, "CLUSTER SLOTS");
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
    redisReply *info = redisCommand(store->link, "INFO replication cluster");
    store->is_cluster = str_is(rd_info_line(info, "cluster_enabled:"), "1");
    const bool follows = !store->is_cluster && str_is(rd_info_line(info, "role:"), "slave");
    freeReplyObject(info);
    return follows;
}

/* Connects to place->at, whatever its role is. */
static int visit(struct store *store, struct look *look, struct redrive_err *err)
{
    struct place *place = &store->place;
    const struct timeval greeting = {.tv_sec = GREETING_S};
    if (node_is(&place->at, &look->dead))
        return REDRIVE_E_IO;
    rd_link_close(store);
    store->link = rd_link_connect(place, err);
    if (!store->link) {
        look->dead = place->at;
        return REDRIVE_E_IO;
    }
    if (place->n_nodes > 1)
        redisSetTimeout(store->link, greeting);
    int rc = rd_link_greet(store->link, place, err);
    if (store->link->err)
        look->dead = place->at;
    if (rc == 0 && learn_role(store) && place->n_given > 1)
        rc = rd_link_error(STR("READONLY it follows another one"), err);
    if (rc == 0)
        redisSetTimeout(store->link, rd_patience(place));
    return rc;
}

/* The reply of the node to a request with a key of the store: an error says where the store is. */
static redisReply *ask_for_slot(struct store *store, const struct look *look)
{
    const int64_t nowhere_ms = clock_monotonic_ms() + NOWHERE_MS;
    for (;;) {
        redisReply *reply = redisCommand(store->link, "EXISTS %s", store->root);
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
        if (node_is(&asked, &store->place.at))
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
        redisSetTimeout(store->link, rd_patience(&store->place));
    }
    return is_here ? 0
                   : err_set(err, REDRIVE_E_IO, "the nodes of the Redis cluster name each other");
}

/* Whether other nodes would answer the same: the user or the URL is wrong. */
static bool is_final(int rc)
{
    return rc == 0 || rc == REDRIVE_E_DENIED || rc == REDRIVE_E_INVALID || rc == REDRIVE_E_NOMEM;
}

int rd_link_open(struct store *store, struct redrive_err *err)
{
    struct place *place = &store->place;
    struct look look = {.until_ms = clock_monotonic_ms() + LOOK_MS};
    const struct node first = place->at;
    /* Its notifications come from the node that is left. */
    rd_listener_close(store);
    int rc = follow(store, &first, &look, err);
    for (size_t i = 0; i < place->n_nodes && !is_final(rc); i++) {
        if (clock_monotonic_ms() >= look.until_ms)
            break;
        if (!node_is(&place->nodes[i], &first))
            rc = follow(store, &place->nodes[i], &look, err);
    }
    if (rc != 0) {
        rd_link_close(store);
        place->at = first;
    }
    return rc;
}
