/* shared.c - what processes share: rows with versions, and counters. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

int rd_scan_hash(struct store *store, const char *key,
                 int (*each)(void *ctx, struct str field, struct str value,
                             struct redrive_err *err),
                 void *ctx, struct redrive_err *err)
{
    char cursor[24] = "0";
    int rc = 0;
    while (rc == 0) {
        redisReply *reply = NULL;
        rd_ask_read(store, "scan");
        rd_ask_text(store, key);
        rd_ask_text(store, cursor);
        rc = rd_link_read(store, &reply, err);
        if (rc != 0)
            return rc;
        str_copy(cursor, sizeof cursor, rd_reply_str(reply, 0));
        for (size_t i = 1; rc == 0 && i + 1 < reply->elements; i += 2)
            rc = each(ctx, rd_reply_str(reply, i), rd_reply_str(reply, i + 1), err);
        freeReplyObject(reply);
        if (strcmp(cursor, "0") == 0)
            return rc;
    }
    return rc;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

void rd_shared_key(enum shared_kind kind, char ret[16])
{
    snprintf(ret, 16, "s:%d", (int)kind);
}

/* A row's name in the maps of the store. */
static struct str name_of(struct store *store, struct str key, struct str field)
{
    buf_reset(&store->row);
    rd_add_part(&store->row, key);
    buf_add_str(&store->row, field);
    return buf_str(&store->row);
}

void rd_shared_learn(struct store *store, struct str name, int64_t version)
{
    /* What is not known is read. */
    if (map_put_number(&store->shared_known, name, version + 1) != 0)
        map_remove(&store->shared_known, name);
}

void rd_shared_forget(struct store *store, struct str key, struct str field)
{
    map_remove(&store->shared_known, name_of(store, key, field));
}

/* The version of a row that a value begins with; 0: there is none. */
static int64_t version_of(struct str value)
{
    return value.len > 0 ? strtoll(value.ptr, NULL, 10) : 0;
}

/* Finds out the version of a row in the server. If the one that is known is the one that the caller
 * knows it need not be read: the commit compares it. */
static int find_version(struct store *store, const struct shared_write *write, int64_t wanted,
                        int64_t *ret, struct redrive_err *err)
{
    const struct str name[] = {str_of(write->key), write->field};
    const int64_t known = map_get_number(&store->shared_known, name_of(store, name[0], name[1]));
    struct cell *cell;
    *ret = wanted;
    if (known == wanted + 1)
        return 0;
    int rc = rd_cells_get(store, name, 1, &cell, err);
    if (rc == 0) {
        *ret = version_of(cell->stored);
        rd_shared_learn(store, name_of(store, name[0], name[1]), *ret);
    }
    return rc;
}

/* What the transaction has put in the place of a row, or would. */
static int find_write(struct store *store, const struct shared_row *row, struct shared_write **ret,
                      struct redrive_err *err)
{
    struct shared_write write = {.version = -1, .now = -1};
    rd_shared_key(row->kind, write.key);
    buf_reset(&store->row);
    rd_add_part(&store->row, row->tenant);
    rd_add_part(&store->row, row->key);
    write.field = rd_transaction_dup(store, buf_str(&store->row));
    *ret = map_get(&store->shared_writes, name_of(store, str_of(write.key), write.field));
    if (!*ret) {
        *ret = arena_alloc(&store->arena, sizeof **ret);
        if (!*ret)
            return err_nomem(err);
        **ret = write;
    }
    const bool is_any = row->is_delta && row->version == 0;
    if (is_any || (*ret)->version >= 0)
        return 0;
    int rc = find_version(store, *ret, row->version, &(*ret)->version, err);
    (*ret)->now = (*ret)->version;
    return rc;
}

/* Whether the transaction may put it, as far as is known before its commit. */
static bool is_at_version(const struct shared_write *write, const struct shared_row *row)
{
    const bool is_any = row->is_delta && row->version == 0;
    const bool needs_row = row->is_delta || row->removed;
    return (is_any || write->now == row->version) && !(needs_row && write->now == 0);
}

static int put_one(struct store *store, const struct shared_row *row, struct move_result *ret,
                   struct redrive_err *err)
{
    struct shared_write *write;
    int rc = find_write(store, row, &write, err);
    *ret = (struct move_result){0};
    if (rc != 0)
        return rc;
    if (!is_at_version(write, row)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    write->add.used += row->add.used;
    write->add.sent += row->add.sent;
    rd_limit_guard(store, write, row);
    if (!row->is_delta) {
        write->is_put = true;
        write->now = row->removed ? 0 : row->version + 1;
        write->value = rd_transaction_dup(store, row->value);
    }
    if (row->merged) {
        *row->merged = MERGED_UNKNOWN;
        write->merged = row->merged;
    }
    store->shared_puts += shared_put_is_notified(row);
    rc = map_put(&store->shared_writes, name_of(store, str_of(write->key), write->field), write);
    return rc != 0 || store->arena.failed ? err_nomem(err) : 0;
}

int redis_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                     struct move_result *ret, struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_one(store, &rows[i], &ret[i], err);
    return rc;
}

/* A row as the server has it: its version, and the value. */
static void pack_row(const struct shared_write *write, struct buf *ret)
{
    buf_reset(ret);
    if (write->now == 0)
        return;
    buf_printf(ret, "%" PRId64 " ", write->now);
    buf_add_str(ret, write->value);
}

void rd_rely_on_no_pause(struct store *store, const struct partition *partition)
{
    char key[16];
    if (store->relied_partition == partition->id)
        return;
    store->relied_partition = partition->id;
    rd_shared_key(SHARED_PAUSE, key);
    buf_reset(&store->row);
    rd_add_part(&store->row, partition->tenant);
    rd_add_part(&store->row, partition->queue);
    const struct str words[] = {buf_str(&store->row), {0}};
    rd_ops_add(&store->checks, 'H', str_of(key), NULL, 0, words, 2);
}

void rd_shared_collect(struct store *store)
{
    MAP_FOREACH (&store->shared_writes, slot) {
        const struct shared_write *write = slot->value;
        char version[RD_DIGITS_MAX] = "+";
        if (write->version >= 0)
            rd_digits(write->version, version);
        pack_row(write, &store->row);
        const struct str key = str_of(write->key), seen[] = {write->field, str_of(version)};
        const struct str words[] = {write->field, buf_str(&store->row)};
        rd_ops_add(&store->checks, 'S', key, NULL, 0, seen, 2);
        if (write->is_put)
            rd_ops_add(&store->ops, write->now > 0 ? 'H' : 'D', key, NULL, 0, words,
                       write->now > 0 ? 2 : 1);
        store->ops.failed |= buf_failed(&store->row) != 0;
    }
    /* Sums are told with the versions of the rows, as they are then. */
    MAP_FOREACH (&store->shared_writes, slot)
        if (rd_is_limit(slot->value))
            rd_limit_collect(store, slot->value);
}

struct shared_reader {
    struct store *store;
    char key_in_store[16];
    enum shared_kind kind;
    struct str tenant;
    struct shared_page *page;
    size_t capacity;
};

static int add_row(struct shared_reader *r, struct str field, struct str value,
                   struct redrive_err *err)
{
    struct arena *arena = &r->page->arena;
    struct shared_row row = {.kind = r->kind};
    char *end = NULL;
    if (!rd_take_part(&field, arena, &row.tenant) || !rd_take_part(&field, arena, &row.key))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "a shared row is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, row.tenant))
        return 0;
    row.version = value.len > 0 ? strtoll(value.ptr, &end, 10) : 0;
    if (!end || *end != ' ')
        return err_set(err, REDRIVE_E_CORRUPT, "a shared row is damaged");
    row.value =
        rd_page_dup(arena, (struct str){end + 1, value.len - (size_t)(end + 1 - value.ptr)});
    if (r->page->n == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16;
        struct shared_row *grown = arena_array(arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (r->page->n > 0)
            memcpy(grown, r->page->rows, r->page->n * sizeof *grown);
        r->page->rows = grown;
        r->capacity = capacity;
    }
    r->page->rows[r->page->n++] = row;
    return arena->failed ? err_nomem(err) : 0;
}

/* A row of the server; what the transaction has put in its place is added later. */
static int read_row(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct shared_reader *r = ctx;
    const struct str name = name_of(r->store, str_of(r->key_in_store), field);
    const struct shared_write *write = map_get(&r->store->shared_writes, name);
    if (write && write->is_put)
        return 0;
    rd_shared_learn(r->store, name, version_of(value));
    return add_row(r, field, value, err);
}

static int add_writes(struct shared_reader *r, struct redrive_err *err)
{
    struct buf value;
    int rc = 0;
    buf_init(&value, (size_t)1 << 30);
    MAP_FOREACH (&r->store->shared_writes, slot) {
        const struct shared_write *write = slot->value;
        if (rc != 0 || !write->is_put || write->now == 0 ||
            strcmp(write->key, r->key_in_store) != 0)
            continue;
        pack_row(write, &value);
        rc = buf_failed(&value) ? err_nomem(err) : add_row(r, write->field, buf_str(&value), err);
    }
    buf_release(&value);
    return rc;
}

bool rd_has_gates(const struct store *store)
{
    const unsigned gates = 1u << SHARED_BREAKER | 1u << SHARED_BUCKET;
    return (store->shared_listed & gates) == gates;
}

int rd_shared_changed(struct store *store, struct redrive_err *err)
{
    int rc = err_set(err, REDRIVE_E_CANCELLED, "something that processes share has changed");
    err_detail(err, "it was at %lld, and is at %lld", (long long)store->shared_version,
               (long long)store->told.shared_version);
    err_hint(err, "do it again");
    return rc;
}

int rd_shared_check(struct store *store, struct redrive_err *err)
{
    return rd_has_gates(store) || store->shared_version == store->told.shared_version
               ? 0
               : rd_shared_changed(store, err);
}

/* In a transaction all kinds that are cached are read with the first, since whoever wants one wants
 * them all: as of one moment. */
static int read_all_kinds(struct store *store, struct redrive_err *err)
{
    char key[16];
    rd_ask_read(store, "shared");
    for (int kind = 0; shared_is_cached((enum shared_kind)kind); kind++) {
        rd_shared_key((enum shared_kind)kind, key);
        rd_ask_text(store, key);
    }
    rd_ask_text(store, "limits");
    return rd_link_read(store, &store->shared_reply, err);
}

static int read_rows(struct shared_reader *r, struct redrive_err *err)
{
    struct store *store = r->store;
    const redisReply *rows = NULL;
    int rc = 0;
    if (store->in_transaction && shared_is_cached(r->kind) && !store->shared_reply)
        rc = read_all_kinds(store, err);
    if (rc != 0)
        return rc;
    if (shared_is_cached(r->kind) && store->shared_reply &&
        (size_t)r->kind < store->shared_reply->elements)
        rows = store->shared_reply->element[r->kind];
    if (!rows || rows->type != REDIS_REPLY_ARRAY)
        return rd_scan_hash(store, r->key_in_store, read_row, r, err);
    for (size_t i = 0; rc == 0 && i + 1 < rows->elements; i += 2)
        rc = read_row(r, rd_reply_str(rows, i), rd_reply_str(rows, i + 1), err);
    store->shared_listed |= r->tenant.len == 0 ? 1u << r->kind : 0;
    return rc;
}

int rd_shared_order(const void *left, const void *right)
{
    const struct shared_row *a = left, *b = right;
    const int order = str_compare(a->tenant, b->tenant);
    return order != 0 ? order : str_compare(a->key, b->key);
}

int redis_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                      struct shared_page *ret, struct redrive_err *err)
{
    shared_page_release(ret);
    struct shared_reader reader = {.store = store, .kind = kind, .tenant = tenant, .page = ret};
    rd_shared_key(kind, reader.key_in_store);
    int rc = read_rows(&reader, err);
    if (rc == 0)
        rc = add_writes(&reader, err);
    if (rc != 0) {
        shared_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->rows, ret->n, sizeof *ret->rows, rd_shared_order);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (n == 0 || rd_shared_order(&ret->rows[n - 1], &ret->rows[i]) != 0)
            ret->rows[n++] = ret->rows[i];
    ret->n = n;
    rc = kind == SHARED_BUCKET ? rd_limits_read(store, ret, err) : 0;
    if (rc != 0)
        shared_page_release(ret);
    return rc;
}

/* ---- Counters -------------------------------------------------------------------------------- */

int redis_counters_add(struct store *store, const struct counter *counters, size_t n,
                       struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        buf_reset(&store->row);
        rd_add_part(&store->row, counters[i].tenant);
        rd_add_part(&store->row, counters[i].name);
        rd_add_part(&store->row, counters[i].label);
        rd_ops_sum(&store->ops, STR("c"), buf_str(&store->row), counters[i].value);
        if (buf_failed(&store->row) || store->ops.failed)
            rc = err_nomem(err);
    }
    return rc;
}

struct counter_reader {
    struct str tenant;
    struct counter_page *page;
    size_t capacity;
};

static int read_counter(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct counter_reader *r = ctx;
    struct arena *arena = &r->page->arena;
    struct counter c = {.value = value.len > 0 ? strtoll(value.ptr, NULL, 10) : 0};
    if (!rd_take_part(&field, arena, &c.tenant) || !rd_take_part(&field, arena, &c.name) ||
        !rd_take_part(&field, arena, &c.label))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "a counter is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, c.tenant))
        return 0;
    if (r->page->n == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16;
        struct counter *grown = arena_array(arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (r->page->n > 0)
            memcpy(grown, r->page->counters, r->page->n * sizeof *grown);
        r->page->counters = grown;
        r->capacity = capacity;
    }
    r->page->counters[r->page->n++] = c;
    return 0;
}

static int counter_order(const void *left, const void *right)
{
    const struct counter *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    if (order == 0)
        order = str_compare(a->name, b->name);
    return order != 0 ? order : str_compare(a->label, b->label);
}

int redis_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                        struct redrive_err *err)
{
    counter_page_release(ret);
    struct counter_reader reader = {.tenant = tenant, .page = ret};
    int rc = rd_scan_hash(store, "c", read_counter, &reader, err);
    if (rc != 0) {
        counter_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->counters, ret->n, sizeof *ret->counters, counter_order);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (n == 0 || counter_order(&ret->counters[n - 1], &ret->counters[i]) != 0)
            ret->counters[n++] = ret->counters[i];
    ret->n = n;
    return 0;
}
