/* place.c - reads the URL of a Redis store. */
#include "store/redis/net/place.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"

#define DEFAULT_PORT          6379
#define DEFAULT_SENTINEL_PORT 26379
#define DEFAULT_PREFIX        "redrive"

/* Text with an at sign may be part of a password, and is not shown. */
static int wrong_url(const char *what, struct str text, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_INVALID, "the URL of the Redis store has %s", what);
    if (text.len > 0 && !memchr(text.ptr, '@', text.len))
        err_detail(err, "'%.*s'", (int)text.len, text.ptr);
    err_hint(err, "write redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DB][?prefix=NAME], "
                  "rediss://... with TLS, or redis:/PATH/OF/SOCKET");
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

/* A copy with %XX resolved; NULL: no memory. */
static char *decoded(struct str text)
{
    char *copy = str_dup(text);
    size_t n = 0;
    for (size_t i = 0; copy && i < text.len; i++) {
        const bool is_escape = text.ptr[i] == '%' && i + 2 < text.len;
        const int high = is_escape ? str_hex_digit(text.ptr[i + 1]) : -1;
        const int low = is_escape ? str_hex_digit(text.ptr[i + 2]) : -1;
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

static int parse_prefix(struct str prefix, struct place *ret, struct redrive_err *err)
{
    for (size_t i = 0; i < prefix.len; i++)
        if (strchr("{}:&?#", prefix.ptr[i]) || (unsigned char)prefix.ptr[i] <= ' ')
            return wrong_url("a prefix that cannot be part of a key", prefix, err);
    if (prefix.len == 0 || prefix.len >= PREFIX_MAX)
        return wrong_url("a prefix that is empty or too long", prefix, err);
    str_copy(ret->prefix, sizeof ret->prefix, prefix);
    return 0;
}

/* Only the name of a setting is shown: its value may be a password. */
static int parse_setting(struct str name, struct str value, struct place *ret,
                         struct redrive_err *err)
{
    const struct {
        const char *name;
        char **ret;
        bool is_of_tls;
    } texts[] = {
        {"sentinel", &ret->sentinel, false},
        {"sslrootcert", &ret->tls.ca, true},
        {"sslcert", &ret->tls.cert, true},
        {"sslkey", &ret->tls.key, true},
        {"server_name", &ret->tls.server_name, true},
    };
    if (str_is(name, "prefix"))
        return parse_prefix(value, ret, err);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (!str_is(name, texts[i].name))
            continue;
        if (texts[i].is_of_tls && !ret->tls.is_on)
            return wrong_url("a setting of TLS, which only rediss:// has", name, err);
        if (value.len == 0 || *texts[i].ret)
            return wrong_url("a setting that is empty or given twice", name, err);
        *texts[i].ret = decoded(value);
        return *texts[i].ret ? 0 : err_nomem(err);
    }
    return wrong_url("a setting that is not known", name, err);
}

static int parse_query(struct str query, struct place *ret, struct redrive_err *err)
{
    /* With an at sign it may be the end of a password, of which no part is shown. */
    const bool is_doubtful = query.len > 0 && memchr(query.ptr, '@', query.len);
    int rc = 0;
    for (bool is_last = false; rc == 0 && !is_last;) {
        struct str value, name;
        is_last = !cut(&query, '&', &value);
        if (is_last)
            value = query;
        if (!cut(&value, '=', &name))
            return wrong_url("a setting that is not known", (struct str){0}, err);
        rc = parse_setting(name, value, ret, is_doubtful ? NULL : err);
        if (rc != 0 && is_doubtful)
            wrong_url("a setting that cannot be used", (struct str){0}, err);
    }
    if (rc == 0 && !ret->tls.cert != !ret->tls.key)
        rc = wrong_url("only one of sslcert and sslkey", (struct str){0}, err);
    return rc;
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
    int port = ret->sentinel ? DEFAULT_SENTINEL_PORT : DEFAULT_PORT;
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

int rd_place_parse(struct str text, bool is_tls, struct place *ret, struct redrive_err *err)
{
    struct str query = {0}, db = {0}, user = {0};
    int rc = 0;
    *ret = (struct place){.prefix = DEFAULT_PREFIX, .tls = {.is_on = is_tls}};
    if (cut_tail(&text, '?', &query))
        rc = parse_query(query, ret, err);
    if (rc == 0 && !str_starts_with(text, STR("//"))) {
        if (is_tls || text.len == 0 || text.ptr[0] != '/')
            return wrong_url(is_tls ? "no // after rediss:" : "no // after redis:", text, err);
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
    if (place->password)
        explicit_bzero(place->password, strlen(place->password));
    free(place->password);
    free(place->sentinel);
    free(place->tls.ca);
    free(place->tls.cert);
    free(place->tls.key);
    free(place->tls.server_name);
    *place = (struct place){0};
}

bool rd_place_has_others(const struct place *place)
{
    return place->n_nodes > 1 || place->sentinel;
}

bool rd_node_is(const struct node *a, const struct node *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}

const char *rd_node_text(const struct node *node, char ret[NODE_TEXT_MAX])
{
    const bool is_ipv6 = strchr(node->host, ':') != NULL;
    if (node->port == 0)
        snprintf(ret, NODE_TEXT_MAX, "%s", node->host);
    else
        snprintf(ret, NODE_TEXT_MAX, "%s%s%s:%d", is_ipv6 ? "[" : "", node->host,
                 is_ipv6 ? "]" : "", node->port);
    return ret;
}
