/* repair.c - sets jobs aside whose rows cannot be read, and puts right what names them.
 *
 * Every step is a call that leaves the store as a repair that begins anew finds it: jobs whose rows
 * cannot be read are taken out one by one; then entries of indexes whose jobs have no row; then all
 * jobs are counted. Only the last one takes a time that grows with the store, and nothing else runs
 * on the server meanwhile.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/remains.h"

/* How many jobs are kept at once, and how many rows are read to find them. */
#define KEPT_AT_ONCE 50
#define READ_AT_ONCE 500

struct found {
    int64_t seq;
    redisReply *remains; /* key, field and value of all that there is */
};

struct repairing {
    struct store *store;
    const struct store_repair *repair;
    struct store_repaired *ret;
    struct found found[KEPT_AT_ONCE];
    size_t n;
};

static void report_progress(const struct repairing *r)
{
    if (r->repair->progress)
        r->repair->progress(r->repair->ctx);
}

/* Starts the request of a function that changes the store of this id. */
static void ask_function(struct store *store, const char *name)
{
    rd_ask(store, name);
    rd_ask_text(store, store->known_id);
}

/* ---- Jobs that cannot be read ---------------------------------------------------------------- */

/* The row among the remains of a job: it comes first. */
static struct str row_among(const redisReply *remains)
{
    const struct str key = rd_reply_str(remains, 0);
    return key.len > 1 && key.ptr[0] == 'j' ? rd_reply_str(remains, 2) : (struct str){0};
}

static void write_line(const struct repairing *r, const struct found *found, const char *why,
                       struct buf *lines)
{
    struct json_writer w;
    char key[PREFIX_MAX + 48];
    remains_begin(&w, lines, found->seq, why);
    json_open_array(&w, "fields");
    for (size_t i = 0; i + 2 < found->remains->elements; i += 3) {
        const struct str name = rd_reply_str(found->remains, i);
        (void)snprintf(key, sizeof key, "{%s}:%.*s", r->store->place.prefix, (int)name.len,
                       name.ptr);
        json_begin_object(&w);
        json_field_cstr(&w, "key", key);
        json_key(&w, "field");
        remains_put(&w, rd_reply_str(found->remains, i + 1));
        json_key(&w, "value");
        remains_put(&w, rd_reply_str(found->remains, i + 2));
        json_end_object(&w);
    }
    json_end_array(&w);
    remains_end(&w, lines);
}

static int keep_found(struct repairing *r, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf lines = BUF_MAX(REMAINS_MAX_BYTES);
    for (size_t i = 0; i < r->n; i++) {
        const bool has_row = row_among(r->found[i].remains).len > 0;
        if (r->found[i].remains->elements > 0)
            write_line(r, &r->found[i], has_row ? "its row cannot be read" : "its row is gone",
                       &lines);
    }
    if (buf_failed(&lines))
        return err_nomem(err);
    return lines.len > 0 ? r->repair->keep(r->repair->ctx, buf_str(&lines), err) : 0;
}

static int remove_found(struct repairing *r, const struct found *found, struct redrive_err *err)
{
    redisReply *reply = NULL;
    if (found->remains->elements == 0)
        return 0;
    ask_function(r->store, "set_aside");
    rd_ask_int(r->store, found->seq);
    rd_ask_str(r->store, row_among(found->remains));
    int rc = rd_link_told(r->store, &reply, err);
    if (rc == 0 && reply->type == REDIS_REPLY_INTEGER)
        r->ret->jobs += (uint64_t)reply->integer;
    freeReplyObject(reply);
    return rc;
}

static void forget_found(struct repairing *r)
{
    for (size_t i = 0; i < r->n; i++)
        freeReplyObject(r->found[i].remains);
    r->n = 0;
}

/* Keeps what was found, then takes it out. */
static int set_found_aside(struct repairing *r, struct redrive_err *err)
{
    int64_t seqs[KEPT_AT_ONCE];
    for (size_t i = 0; i < r->n; i++)
        seqs[i] = r->found[i].seq;
    int rc = r->n > 0 ? keep_found(r, err) : 0;
    if (rc == 0 && r->n > 0)
        rc = r->repair->leave(r->repair->ctx, seqs, r->n, err);
    for (size_t i = 0; rc == 0 && i < r->n; i++)
        rc = remove_found(r, &r->found[i], err);
    forget_found(r);
    report_progress(r);
    return rc;
}

/* Whether a row cannot be read; a negative code if that is not known. */
static int is_unreadable(struct store *store, int64_t seq, struct str bytes,
                         struct redrive_err *err)
{
    struct row row;
    int rc = rd_row_unpack(store, seq, bytes, &row, err);
    if (rc != REDRIVE_E_CORRUPT)
        return rc;
    if (err)
        *err = (struct redrive_err){0};
    return 1;
}

/* A job that seemed to have no row, or one that cannot be read: looks again. */
static int add_found(struct repairing *r, int64_t seq, struct redrive_err *err)
{
    redisReply *remains = NULL;
    rd_ask_read(r->store, "remains");
    rd_ask_int(r->store, seq);
    int rc = rd_link_read(r->store, &remains, err);
    if (rc != 0)
        return rc;
    rc = is_unreadable(r->store, seq, row_among(remains), err);
    if (rc <= 0) {
        freeReplyObject(remains);
        return rc;
    }
    r->found[r->n++] = (struct found){.seq = seq, .remains = remains};
    return r->n == KEPT_AT_ONCE ? set_found_aside(r, err) : 0;
}

static int find_in_page(struct repairing *r, const redisReply *reply, struct redrive_err *err)
{
    int rc = 0;
    for (size_t at = 1; rc == 0 && at < reply->elements; at += 2) {
        const int64_t seq = rd_reply_int(reply, at);
        rc = is_unreadable(r->store, seq, rd_reply_str(reply, at + 1), err);
        if (rc > 0)
            rc = add_found(r, seq, err);
    }
    return rc;
}

/* Jobs that have a row. */
static int set_rows_aside(struct repairing *r, struct redrive_err *err)
{
    struct walk walk = {.states = STATES_ALL};
    int rc = 0;
    while (rc == 0 && !walk.is_over) {
        redisReply *reply = NULL;
        rc = rd_walk_read(r->store, &walk, READ_AT_ONCE, false, &reply, err);
        if (rc == 0)
            rc = find_in_page(r, reply, err);
        freeReplyObject(reply);
        report_progress(r);
    }
    return rc;
}

/* Jobs of a tenant that have none. */
static int set_lost_aside(struct repairing *r, int64_t tenant, struct redrive_err *err)
{
    char key[RD_DIGITS_MAX + 2], from[RD_DIGITS_MAX] = "-inf";
    int rc = 0;
    (void)snprintf(key, sizeof key, "y:%lld", (long long)tenant);
    while (rc == 0 && from[0] != '\0') {
        redisReply *reply = NULL;
        rd_ask_read(r->store, "lost");
        rd_ask_text(r->store, key);
        rd_ask_text(r->store, from);
        rc = rd_link_read(r->store, &reply, err);
        for (size_t i = 1; rc == 0 && i < reply->elements; i++)
            rc = add_found(r, rd_reply_int(reply, i), err);
        if (rc == 0)
            str_copy(from, sizeof from, rd_reply_str(reply, 0));
        freeReplyObject(reply);
    }
    return rc;
}

/* ---- Indexes --------------------------------------------------------------------------------- */

static int sweep(struct repairing *r, const char *kind, struct str name, const char *first,
                 struct redrive_err *err)
{
    char from[RD_DIGITS_MAX];
    int rc = 0;
    str_copy(from, sizeof from, str_of(first));
    while (rc == 0 && from[0] != '\0') {
        redisReply *reply = NULL;
        ask_function(r->store, "sweep");
        rd_ask_text(r->store, kind);
        rd_ask_str(r->store, name);
        rd_ask_text(r->store, from);
        rc = rd_link_told(r->store, &reply, err);
        if (rc == 0) {
            r->ret->entries += (uint64_t)rd_reply_int(reply, 1);
            str_copy(from, sizeof from, rd_reply_str(reply, 0));
        }
        freeReplyObject(reply);
    }
    return rc;
}

static int sweep_numbered(struct repairing *r, const char *kind, const char *name, int64_t number,
                          const char *first, struct redrive_err *err)
{
    char key[RD_DIGITS_MAX + 4];
    (void)snprintf(key, sizeof key, "%s%lld", name, (long long)number);
    return sweep(r, kind, str_of(key), first, err);
}

static int sweep_times(struct repairing *r, struct redrive_err *err)
{
    int rc = sweep(r, "ranked", STR("x"), "0", err);
    if (rc == 0)
        rc = sweep(r, "ranked", STR("d"), "0", err);
    for (int state = 0; rc == 0 && state < REDRIVE_STATE_COUNT; state++)
        if (STATES_ENDED >> state & 1)
            rc = sweep_numbered(r, "ranked", "e:", state, "0", err);
    return rc;
}

static int sweep_partitions(struct repairing *r, int64_t n, struct redrive_err *err)
{
    int rc = 0;
    for (int64_t i = 1; rc == 0 && i <= n; i++) {
        rc = sweep_numbered(r, "ready", "", i, "-inf", err);
        if (rc == 0)
            rc = sweep_numbered(r, "locked", "", i, "0", err);
        report_progress(r);
    }
    return rc;
}

/* A gate's name with a letter before it. */
static int sweep_gate(struct repairing *r, struct str gate, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf key = BUF_MAX(1 << 20);
    buf_puts(&key, "p:");
    buf_add_str(&key, gate);
    if (buf_failed(&key))
        return err_nomem(err);
    int rc = sweep(r, "ranked", buf_str(&key), "0", err);
    key.data[0] = 'q';
    if (rc == 0)
        rc = sweep(r, "chunks", buf_str(&key), "-inf", err);
    return rc == 0 ? sweep(r, "parked", gate, "0", err) : rc;
}

static int sweep_gates(struct repairing *r, struct redrive_err *err)
{
    char key[PREFIX_MAX + 16];
    redisReply *reply = NULL;
    (void)snprintf(key, sizeof key, "{%s}:l", r->store->place.prefix);
    rd_ask_command(r->store, "HKEYS");
    rd_ask_text(r->store, key);
    int rc = rd_link_call(r->store, &reply, err);
    for (size_t i = 0; rc == 0 && i < reply->elements; i++)
        rc = sweep_gate(r, rd_reply_str(reply, i), err);
    freeReplyObject(reply);
    return rc;
}

/* Ids, unique keys and edges are in keys of which there is no list. `name` is without the prefix.
 */
static int sweep_key(struct repairing *r, struct str name, struct redrive_err *err)
{
    const struct str rest = {name.ptr + 2, name.len - 2};
    switch (name.ptr[0]) {
    case 'i': return sweep(r, "ids", name, "0", err);
    case 'k': return sweep(r, "ranked", name, "0", err);
    default: return sweep(r, "edges", rest, "0", err);
    }
}

static int sweep_keys(struct repairing *r, struct redrive_err *err)
{
    char cursor[RD_DIGITS_MAX] = "0";
    RELEASED_BY(buf_release) struct buf pattern = BUF_MAX(2 * PREFIX_MAX + 16);
    const char *const prefix = r->store->place.prefix;
    const size_t skipped = strlen(prefix) + 3; /* {prefix}: */
    int rc = 0;
    buf_putc(&pattern, '{');
    for (const char *p = prefix; *p; p++)
        buf_printf(&pattern, "%s%c", strchr("*?[]^\\", *p) ? "\\" : "", *p);
    buf_puts(&pattern, "}:[ikg]:*");
    if (buf_failed(&pattern))
        return err_nomem(err);
    do {
        redisReply *reply = NULL;
        rd_ask_command(r->store, "SCAN");
        rd_ask_text(r->store, cursor);
        rd_ask_text(r->store, "MATCH");
        rd_ask_str(r->store, buf_str(&pattern));
        rd_ask_text(r->store, "COUNT");
        rd_ask_int(r->store, 1000);
        rc = rd_link_call(r->store, &reply, err);
        const redisReply *keys = rc == 0 && reply->type == REDIS_REPLY_ARRAY && reply->elements > 1
                                     ? reply->element[1]
                                     : NULL;
        for (size_t i = 0; rc == 0 && keys && i < keys->elements; i++) {
            const struct str key = rd_reply_str(keys, i);
            if (key.len > skipped + 2)
                rc = sweep_key(r, (struct str){key.ptr + skipped, key.len - skipped}, err);
        }
        str_copy(cursor, sizeof cursor, keys ? rd_reply_str(reply, 0) : STR("0"));
        freeReplyObject(reply);
        report_progress(r);
    } while (rc == 0 && strcmp(cursor, "0") != 0);
    return rc;
}

/* ---- The slot -------------------------------------------------------------------------------- */

static int recount(struct repairing *r, struct redrive_err *err)
{
    redisReply *reply = NULL;
    ask_function(r->store, "recount");
    int rc = rd_link_told(r->store, &reply, err);
    if (rc == 0 && reply->type == REDIS_REPLY_INTEGER)
        r->ret->counts += (uint64_t)reply->integer;
    freeReplyObject(reply);
    return rc;
}

/* How many tenants and partitions have got a number. */
static int read_numbers(struct store *store, int64_t *ret_tenants, int64_t *ret_partitions,
                        struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_command(store, "HMGET");
    rd_ask_text(store, store->root);
    rd_ask_text(store, "tenants");
    rd_ask_text(store, "partitions");
    int rc = rd_link_call(store, &reply, err);
    if (rc != 0)
        return rc;
    *ret_tenants = rd_reply_int(reply, 0);
    *ret_partitions = rd_reply_int(reply, 1);
    freeReplyObject(reply);
    return 0;
}

int redis_repair(struct store *store, const struct store_repair *repair, struct store_repaired *ret,
                 struct redrive_err *err)
{
    struct repairing r = {.store = store, .repair = repair, .ret = ret};
    int64_t n_tenants = 0, n_partitions = 0;
    *ret = (struct store_repaired){0};
    int rc = read_numbers(store, &n_tenants, &n_partitions, err);
    if (rc == 0)
        rc = set_rows_aside(&r, err);
    for (int64_t i = 1; rc == 0 && i <= n_tenants; i++)
        rc = set_lost_aside(&r, i, err);
    if (rc == 0)
        rc = set_found_aside(&r, err);
    forget_found(&r);
    if (rc == 0)
        rc = sweep_times(&r, err);
    if (rc == 0)
        rc = sweep_partitions(&r, n_partitions, err);
    for (int64_t i = 1; rc == 0 && i <= n_tenants; i++)
        rc = sweep_numbered(&r, "chunks", "y:", i, "-inf", err);
    if (rc == 0)
        rc = sweep_gates(&r, err);
    if (rc == 0)
        rc = sweep_keys(&r, err);
    return rc == 0 ? recount(&r, err) : rc;
}
