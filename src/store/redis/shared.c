/* shared.c - what processes share: rows with versions, and counters. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

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

/* The hash that has the rows of a kind. */
static void shared_key(enum shared_kind kind, char ret[16])
{
    snprintf(ret, 16, "s:%d", (int)kind);
}

/* ---- Sums of limits ----------------------------------------------------------------------------
 *
 * Slots in use, and candidates, of each limit. They are kept in the hash `limits`, under the names
 * of the rows. A transaction says what it adds, and how many slots are allowed; its commit checks
 * that (CHECKS.L), adds, and returns the new sums. The sums themselves are not compared, so that
 * transactions that add do not conflict.
 */

static bool is_limit(const struct shared_write *write)
{
    char key[16];
    shared_key(SHARED_LIMIT, key);
    return strcmp(write->key, key) == 0;
}

/* The commit checks whether a limit has room for what the transaction adds. */
static void guard_limit(struct store *store, const struct shared_write *write,
                        const struct shared_row *row)
{
    char add[RD_DIGITS_MAX], max[RD_DIGITS_MAX];
    const bool is_guarded = row->removed || (row->add.used > 0 && row->max_used > 0);
    if (row->kind != SHARED_LIMIT || !is_guarded)
        return;
    rd_digits(write->add.used, add);
    rd_digits(row->removed ? 0 : row->max_used, max);
    const struct str words[] = {write->field, str_of(add), str_of(max)};
    rd_ops_add(&store->checks, 'L', STR("limits"), NULL, 0, words, 3);
}

static bool note_asked(struct store *store, struct shared_write *write)
{
    if (!store->sums_asked)
        store->sums_asked =
            arena_array(&store->arena, store->shared_writes.count, sizeof(struct shared_write *));
    if (store->sums_asked)
        store->sums_asked[store->n_sums_asked++] = write;
    return store->sums_asked != NULL;
}

/* Adds to the sums at the commit, whose answer has the new ones; those of a removed limit go. */
static void collect_limit(struct store *store, struct shared_write *write)
{
    char used[RD_DIGITS_MAX], sent[RD_DIGITS_MAX];
    rd_digits(write->add.used, used);
    rd_digits(write->add.sent, sent);
    const struct str words[] = {write->field, str_of(used), str_of(sent)};
    if (write->is_put && write->now == 0)
        rd_ops_add(&store->ops, 'D', STR("limits"), NULL, 0, words, 1);
    else if (note_asked(store, write))
        rd_ops_add(&store->ops, 'L', STR("limits"), NULL, 0, words, 3);
}

void rd_limits_merged(struct store *store, const redisReply *reply)
{
    for (size_t i = 0; i < store->n_sums_asked && 3 * i + 3 < reply->elements; i++)
        if (store->sums_asked[i]->merged)
            *store->sums_asked[i]->merged = (struct merged_gate){
                {rd_reply_int(reply, 3 * i + 1), rd_reply_int(reply, 3 * i + 2)},
                rd_reply_int(reply, 3 * i + 3)};
}

int rd_page_add_limits(struct job_page *page, const redisReply *reply, struct redrive_err *err)
{
    for (size_t i = 0; i + 2 < reply->elements; i += 3) {
        struct limit_sums limit = {
            .sums = {rd_reply_int(reply, i + 1), rd_reply_int(reply, i + 2)}};
        struct str name = rd_reply_str(reply, i);
        if (!rd_take_part(&name, &page->arena, &limit.tenant) ||
            !rd_take_part(&name, &page->arena, &limit.key))
            break;
        job_page_add_limit(page, &limit);
    }
    return page->arena.failed ? err_nomem(err) : 0;
}

/* The row in a page, which is sorted; NULL: it is not there, or its name cannot be read. */
static struct shared_row *find_row(struct shared_page *page, struct str field)
{
    struct shared_row wanted = {.kind = SHARED_LIMIT};
    if (page->n == 0 || !rd_take_part(&field, &page->arena, &wanted.tenant) ||
        !rd_take_part(&field, &page->arena, &wanted.key))
        return NULL;
    return bsearch(&wanted, page->rows, page->n, sizeof *page->rows, shared_row_order);
}

static int read_sums(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct shared_page *page = ctx;
    struct shared_row *row = find_row(page, field);
    const char *end = NULL;
    if (row && value.len > 0)
        row->sums.used = rd_number(value.ptr, &end);
    if (end && *end == ' ')
        row->sums.sent = rd_number(end + 1, NULL);
    return page->arena.failed ? err_nomem(err) : 0;
}

static void add_own(struct shared_page *page, const struct shared_write *write)
{
    struct shared_row *row = find_row(page, write->field);
    if (!row)
        return;
    row->sums.used += write->add.used;
    row->sums.sent += write->add.sent;
    if (row->sums.used < 0)
        row->sums.used = 0;
    if (row->sums.sent < 0)
        row->sums.sent = 0;
}

/* Fills in the sums of a page of limits, with what the transaction adds. */
static int read_limits(struct store *store, struct shared_page *page, struct redrive_err *err)
{
    const redisReply *all = store->shared_reply, *sums = NULL;
    int rc = 0;
    if (all && all->elements > 0)
        sums = all->element[all->elements - 1];
    if (!sums || sums->type != REDIS_REPLY_ARRAY)
        rc = rd_scan_hash(store, "limits", read_sums, page, err);
    else
        for (size_t i = 0; rc == 0 && i + 1 < sums->elements; i += 2)
            rc = read_sums(page, rd_reply_str(sums, i), rd_reply_str(sums, i + 1), err);
    MAP_FOREACH (&store->shared_writes, slot)
        if (is_limit(slot->value))
            add_own(page, slot->value);
    return rc == 0 && page->arena.failed ? err_nomem(err) : rc;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

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
    /* Without memory the version is read again. */
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
    return value.len > 0 ? rd_number(value.ptr, NULL) : 0;
}

/* The version of a row in the server. It need not be read if the last known one is that of the put:
 * the commit checks it. */
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

/* The write of the transaction for a row; a new one if there is none. */
static int find_write(struct store *store, const struct shared_row *row, struct shared_write **ret,
                      struct redrive_err *err)
{
    struct shared_write write = {.version = -1, .now = -1};
    shared_key(row->kind, write.key);
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
    guard_limit(store, write, row);
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
    shared_key(SHARED_PAUSE, key);
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
    /* After the puts, because the answer has the versions of the rows as well. */
    MAP_FOREACH (&store->shared_writes, slot)
        if (is_limit(slot->value))
            collect_limit(store, slot->value);
}

struct shared_reader {
    struct store *store;
    char key_in_store[16];
    enum shared_kind kind;
    struct str tenant;
    struct shared_page *page;
};

static int add_row(struct shared_reader *r, struct str field, struct str value,
                   struct redrive_err *err)
{
    struct arena *arena = &r->page->arena;
    struct shared_row row = {.kind = r->kind};
    const char *end = NULL;
    if (!rd_take_part(&field, arena, &row.tenant) || !rd_take_part(&field, arena, &row.key))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "a shared row is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, row.tenant))
        return 0;
    row.version = value.len > 0 ? rd_number(value.ptr, &end) : 0;
    if (!end || *end != ' ')
        return err_set(err, REDRIVE_E_CORRUPT, "a shared row is damaged");
    row.value =
        rd_page_dup(arena, (struct str){end + 1, value.len - (size_t)(end + 1 - value.ptr)});
    struct shared_row *grown = page_grow(arena, r->page->rows, r->page->n, sizeof *grown);
    if (!grown)
        return err_nomem(err);
    r->page->rows = grown;
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
    RELEASED_BY(buf_release) struct buf value = BUF_MAX((size_t)1 << 30);
    int rc = 0;
    MAP_FOREACH (&r->store->shared_writes, slot) {
        const struct shared_write *write = slot->value;
        if (rc != 0 || !write->is_put || write->now == 0 ||
            strcmp(write->key, r->key_in_store) != 0)
            continue;
        pack_row(write, &value);
        rc = buf_failed(&value) ? err_nomem(err) : add_row(r, write->field, buf_str(&value), err);
    }
    return rc;
}

bool rd_has_gates(const struct store *store)
{
    const unsigned gates = 1u << SHARED_BREAKER | 1u << SHARED_LIMIT;
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

/* In a transaction the first read of a cached kind reads all of them, as of one moment: a caller
 * that reads one reads them all. */
static int read_all_kinds(struct store *store, struct redrive_err *err)
{
    char key[16];
    rd_ask_read(store, "shared");
    for (int kind = 0; shared_is_cached((enum shared_kind)kind); kind++) {
        shared_key((enum shared_kind)kind, key);
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

int redis_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                      struct shared_page *ret, struct redrive_err *err)
{
    shared_page_release(ret);
    struct shared_reader reader = {.store = store, .kind = kind, .tenant = tenant, .page = ret};
    shared_key(kind, reader.key_in_store);
    int rc = read_rows(&reader, err);
    if (rc == 0)
        rc = add_writes(&reader, err);
    if (rc != 0) {
        shared_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->rows, ret->n, sizeof *ret->rows, shared_row_order);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (n == 0 || shared_row_order(&ret->rows[n - 1], &ret->rows[i]) != 0)
            ret->rows[n++] = ret->rows[i];
    ret->n = n;
    rc = kind == SHARED_LIMIT ? read_limits(store, ret, err) : 0;
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
};

static int read_counter(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct counter_reader *r = ctx;
    struct arena *arena = &r->page->arena;
    struct counter c = {.value = value.len > 0 ? rd_number(value.ptr, NULL) : 0};
    if (!rd_take_part(&field, arena, &c.tenant) || !rd_take_part(&field, arena, &c.name) ||
        !rd_take_part(&field, arena, &c.label))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "a counter is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, c.tenant))
        return 0;
    struct counter *grown = page_grow(arena, r->page->counters, r->page->n, sizeof *grown);
    if (!grown)
        return err_nomem(err);
    r->page->counters = grown;
    r->page->counters[r->page->n++] = c;
    return 0;
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
