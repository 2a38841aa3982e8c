/* entries.c - what a transaction has read or made: rows of jobs, and fields of hashes. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

struct entry RD_ENTRY_GONE, RD_ENTRY_UNREADABLE;

static struct str seq_key(const int64_t *seq)
{
    return (struct str){(const char *)(const void *)seq, sizeof *seq};
}

struct str rd_transaction_dup(struct store *store, struct str s)
{
    return s.len > 0 ? arena_str(&store->arena, s) : (struct str){0};
}

static bool is_stored_running(const struct entry *entry)
{
    return entry->stored.len > 0 && entry->stored.ptr[0] == REDRIVE_STATE_RUNNING;
}

static struct entry *find_entry(struct store *store, int64_t seq)
{
    return map_get(&store->entries, seq_key(&seq));
}

struct entry *rd_entry_known(struct store *store, int64_t seq)
{
    struct entry *e = find_entry(store, seq);
    return e && e->transaction == store->transaction ? e : NULL;
}

struct entry *rd_entry_moved(struct store *store, int64_t seq)
{
    struct entry *e = store->n_dirty > 0 ? find_entry(store, seq) : NULL;
    return e && e->is_dirty ? e : NULL;
}

static struct entry *entry_add(struct store *store, int64_t seq)
{
    struct entry *entry = arena_alloc(&store->arena, sizeof *entry);
    if (!entry || map_put(&store->entries, seq_key(&seq), entry) != 0)
        return NULL;
    *entry = (struct entry){.seq = seq, .transaction = store->transaction};
    return entry;
}

/* Whether the entry stays as it is, whatever these bytes of the server have. */
static bool entry_stays(const struct store *store, const struct entry *entry, struct str bytes)
{
    return entry->is_dirty || entry->relied == store->transaction ||
           (entry->is_there && str_eq(entry->stored, bytes));
}

int rd_entry_learn(struct store *store, int64_t seq, struct str bytes, struct entry **ret,
                   struct redrive_err *err)
{
    struct entry *entry = find_entry(store, seq);
    *ret = NULL;
    if (entry && entry_stays(store, entry, bytes)) {
        entry->transaction = store->transaction;
        *ret = entry;
        return 0;
    }
    if (entry)
        *entry = (struct entry){.seq = seq};
    else
        entry = entry_add(store, seq);
    if (!entry)
        return err_nomem(err);
    entry->stored = rd_transaction_dup(store, bytes);
    int rc = store->arena.failed ? err_nomem(err)
                                 : rd_row_unpack(store, seq, entry->stored, &entry->now, err);
    entry->transaction = rc == 0 ? store->transaction : 0; /* a damaged row is not known */
    entry->is_there = rc == 0;
    *ret = rc == 0 ? entry : NULL;
    return rc;
}

struct entry *rd_entry_new(struct store *store, const struct row *row)
{
    struct entry *entry = entry_add(store, row->job.status.seq);
    if (!entry)
        return NULL;
    entry->now = *row;
    entry->is_there = true;
    return entry;
}

void rd_entry_forget(struct store *store, int64_t seq)
{
    struct entry *e = find_entry(store, seq);
    if (e)
        e->is_mine = false;
}

void rd_entries_distrust(struct store *store)
{
    MAP_FOREACH (&store->entries, slot)
        ((struct entry *)slot->value)->is_mine = false;
}

/* Whether the row may spare the next transaction a read. After its lease another process ends the
 * attempt; if it was settled elsewhere, this is what ends its time here. One that the transaction
 * was about to change is in use. */
static bool is_worth_keeping(const struct store *store, const struct entry *e)
{
    return e->is_mine && is_stored_running(e) &&
           (e->is_dirty || e->now.job.status.lease_until_ms > store->now_ms);
}

static size_t kept_bytes(const struct entry *e)
{
    return sizeof *e + e->stored.len;
}

static size_t sum_worth_keeping(const struct store *store)
{
    size_t bytes = 0;
    MAP_FOREACH (&store->entries, slot)
        bytes += is_worth_keeping(store, slot->value) ? kept_bytes(slot->value) : 0;
    return bytes;
}

/* The latest start first. */
static int compare_starts(const void *a, const void *b)
{
    const int64_t x = (*(struct entry *const *)a)->now.job.status.started_ms;
    const int64_t y = (*(struct entry *const *)b)->now.job.status.started_ms;
    return (x < y) - (x > y);
}

/* Of the rows that are worth keeping, distrusts those that have started first, until the others
 * take no more than so many bytes. Without memory it distrusts all. */
static void drop_oldest(struct store *store, size_t most_bytes)
{
    struct entry **all = calloc(store->entries.count, sizeof(struct entry *));
    size_t n = 0, bytes = 0;
    if (!all) {
        rd_entries_distrust(store);
        return;
    }
    MAP_FOREACH (&store->entries, slot)
        if (is_worth_keeping(store, slot->value))
            all[n++] = slot->value;
    qsort(all, n, sizeof(struct entry *), compare_starts);
    for (size_t i = 0; i < n; i++) {
        bytes += kept_bytes(all[i]);
        all[i]->is_mine = bytes <= most_bytes;
    }
    free(all);
}

void rd_entries_keep_running(struct store *store)
{
    if (sum_worth_keeping(store) > RD_RUNNING_BYTES_MAX)
        drop_oldest(store, RD_RUNNING_BYTES_MAX / 2);
    struct arena arena = store->arena;
    struct map entries = store->entries;
    bool failed = false;
    arena_init(&store->arena);
    map_init(&store->entries, entries.seed);
    rd_map_empty(&store->cells);
    MAP_FOREACH (&entries, slot) {
        const struct entry *e = slot->value;
        if (!is_worth_keeping(store, e))
            continue;
        struct entry *kept;
        failed |= rd_entry_learn(store, e->seq, e->stored, &kept, NULL) != 0;
        if (kept)
            kept->is_mine = true;
    }
    map_release(&entries);
    arena_release(&arena);
    store->n_kept = 0;
    store->n_running = store->entries.count;
    store->running_bytes = store->arena.bytes;
    if (failed)
        rd_transaction_forget(store);
}

static int grow(void **list, size_t n, size_t *capacity, struct redrive_err *err)
{
    if (n < *capacity)
        return 0;
    const size_t more = *capacity ? 2 * *capacity : 64;
    void *grown = realloc(*list, more * sizeof(void *));
    if (!grown)
        return err_nomem(err);
    *list = grown;
    *capacity = more;
    return 0;
}

int rd_entry_changed(struct store *store, struct entry *entry, struct redrive_err *err)
{
    const struct job_spec *spec = &entry->now.job.spec;
    if (entry->is_dirty)
        return 0;
    if (spec->unique_key.len > 0 && entry->stored.len > 0) {
        const struct digest digest = rd_digest_of(spec->tenant, spec->unique_key);
        if (map_put(&store->dirty_keys, digest_str(&digest), entry) != 0)
            return err_nomem(err);
    }
    int rc = grow((void **)&store->dirty, store->n_dirty, &store->dirty_capacity, err);
    if (rc == 0) {
        store->dirty[store->n_dirty++] = entry;
        entry->is_dirty = true;
    }
    return rc;
}

void rd_entry_rely(struct store *store, struct entry *entry)
{
    char bucket[RD_DIGITS_MAX];
    const char low = (char)entry->seq;
    if (entry->stored.len == 0 || entry->relied == store->transaction)
        return;
    const struct str words[] = {{&low, 1}, rd_row_version(entry->stored)};
    entry->relied = store->transaction;
    rd_digits(entry->seq >> 8, bucket);
    rd_ops_add(&store->checks, 'J', str_of(bucket), NULL, 0, words, 2);
}

void rd_entry_use_kept(struct store *store, int64_t seq, uint64_t token)
{
    struct entry *e = find_entry(store, seq);
    if (!e || e->transaction == store->transaction || !e->is_mine || !is_stored_running(e) ||
        e->now.job.status.token != token)
        return;
    e->transaction = store->transaction;
    rd_entry_rely(store, e);
}

int rd_entries_get(struct store *store, const int64_t *seqs, size_t n, struct entry *unreadable,
                   struct entry **ret, struct redrive_err *err)
{
    size_t n_missing = 0;
    rd_ask_read(store, "rows");
    rd_ask_text(store, "0");
    for (size_t i = 0; i < n; i++) {
        ret[i] = rd_entry_known(store, seqs[i]);
        if (ret[i])
            continue;
        rd_ask_int(store, seqs[i] > 0 ? seqs[i] : 0);
        n_missing++;
    }
    redisReply *reply = NULL;
    int rc = n_missing > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0, at = 0; rc == 0 && i < n; i++) {
        if (!ret[i] && at < n_missing) {
            struct str bytes = rd_reply_str(reply, at++);
            if (bytes.len > 0)
                rc = rd_entry_learn(store, seqs[i], bytes, &ret[i], err);
            if (rc == REDRIVE_E_CORRUPT && unreadable) {
                ret[i] = unreadable;
                rc = 0;
                if (err)
                    *err = (struct redrive_err){0};
                continue;
            }
        }
        if (ret[i] && !ret[i]->is_there)
            ret[i] = NULL;
    }
    freeReplyObject(reply);
    return rc;
}

/* ---- Fields of hashes ------------------------------------------------------------------------ */

static void cell_name(struct store *store, struct str key, struct str field)
{
    buf_reset(&store->row);
    rd_add_part(&store->row, key);
    buf_add_str(&store->row, field);
}

struct cell *rd_cell_known(struct store *store, struct str key, struct str field)
{
    cell_name(store, key, field);
    struct cell *cell = map_get(&store->cells, buf_str(&store->row));
    return cell && cell->transaction == store->transaction ? cell : NULL;
}

static struct cell *cell_add(struct store *store, struct str key, struct str field)
{
    struct cell *cell = arena_alloc(&store->arena, sizeof *cell);
    if (!cell)
        return NULL;
    *cell = (struct cell){.transaction = store->transaction,
                          .key = rd_transaction_dup(store, key),
                          .field = rd_transaction_dup(store, field)};
    cell_name(store, key, field);
    return map_put(&store->cells, buf_str(&store->row), cell) == 0 ? cell : NULL;
}

int rd_cells_get(struct store *store, const struct str *names, size_t n, struct cell **ret,
                 struct redrive_err *err)
{
    size_t n_missing = 0;
    redisReply *reply = NULL;
    rd_ask_read(store, "cells");
    for (size_t i = 0; i < n; i++) {
        ret[i] = rd_cell_known(store, names[2 * i], names[2 * i + 1]);
        if (ret[i])
            continue;
        rd_ask_str(store, names[2 * i]);
        rd_ask_str(store, names[2 * i + 1]);
        n_missing++;
    }
    int rc = n_missing > 0 ? rd_link_read(store, &reply, err) : 0;
    for (size_t i = 0, at = 0; rc == 0 && i < n; i++) {
        if (ret[i])
            continue;
        /* The same field may be in the list twice. */
        ret[i] = rd_cell_known(store, names[2 * i], names[2 * i + 1]);
        if (!ret[i] && (ret[i] = cell_add(store, names[2 * i], names[2 * i + 1]))) {
            ret[i]->stored = ret[i]->now = rd_transaction_dup(store, rd_reply_str(reply, at));
            ret[i]->is_read = true;
        }
        if (!ret[i])
            rc = err_nomem(err);
        at++;
    }
    freeReplyObject(reply);
    return rc;
}

int rd_cell_put(struct store *store, struct cell *cell, struct str value, struct redrive_err *err)
{
    cell->now = rd_transaction_dup(store, value);
    if (store->arena.failed)
        return err_nomem(err);
    if (cell->is_dirty)
        return 0;
    int rc =
        grow((void **)&store->dirty_cells, store->n_dirty_cells, &store->dirty_cells_capacity, err);
    if (rc == 0) {
        store->dirty_cells[store->n_dirty_cells++] = cell;
        cell->is_dirty = true;
    }
    return rc;
}

int rd_cell_put_beside(struct store *store, struct str key, struct str field, struct str value,
                       struct redrive_err *err)
{
    struct cell *cell = rd_cell_known(store, key, field);
    if (!cell)
        cell = cell_add(store, key, field);
    return cell ? rd_cell_put(store, cell, value, err) : err_nomem(err);
}
