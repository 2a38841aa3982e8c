/* gates.c - rows of breakers and limits, which transactions put often and several processes at
 * once.
 *
 * What is only added to the sums of a limit waits for the commit, and is sent after everything
 * else: the row is locked from then on, and no longer than the commit takes. Its sums come back
 * with the answer. If they do not fit the transaction is refused.
 *
 * A put must find the row at the version that the engine has seen. The handle knows which one it
 * has read or written last. A put at that version is taken to be right: it waits for the commit,
 * where it is sent after everything else and raises an error if it was wrong, so that nothing of
 * the transaction happens. Then all versions are forgotten. A put at another version, or of a row
 * that the handle has not seen, is made at once and answered.
 */
#include <stdlib.h>

#include "store/postgres/private.h"

struct gate_put {
    struct shared_row row;
    size_t n; /* its place in the transaction */
    bool is_sent;
    bool tells; /* the commit's answer has its sums */
};

static bool is_gate(enum shared_kind kind)
{
    return kind == SHARED_BREAKER || kind == SHARED_BUCKET;
}

static int compare_str(struct str a, struct str b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter > 0 ? memcmp(a.ptr, b.ptr, shorter) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

int pg_shared_compare(const struct shared_row *a, const struct shared_row *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    int order = compare_str(a->tenant, b->tenant);
    return order != 0 ? order : compare_str(a->key, b->key);
}

/* ---- Versions as this handle has seen them last ---------------------------------------------- */

static void gate_key(const struct shared_row *row, struct buf *key)
{
    buf_init(key, SIZE_MAX);
    (void)buf_putc(key, (char)row->kind);
    (void)buf_add_str(key, row->tenant);
    (void)buf_putc(key, '\0');
    (void)buf_add_str(key, row->key);
}

/* 0: it has seen none. */
static int64_t version_seen(const struct store *store, const struct shared_row *row)
{
    struct buf key;
    gate_key(row, &key);
    const int64_t version = buf_failed(&key) ? 0 : map_get_number(&store->gates, buf_str(&key));
    buf_release(&key);
    return version;
}

static void note_version(struct store *store, const struct shared_row *row, int64_t version)
{
    struct buf key;
    gate_key(row, &key);
    if (version == 0)
        (void)map_remove(&store->gates, buf_str(&key));
    /* Without memory a version of before may stay: that put is refused, and all is forgotten. */
    else if (!buf_failed(&key))
        (void)map_put_number(&store->gates, buf_str(&key), version);
    buf_release(&key);
}

void pg_gate_seen(struct store *store, const struct shared_row *row)
{
    if (is_gate(row->kind))
        note_version(store, row, row->version);
}

void pg_gates_forget(struct store *store)
{
    const uint64_t seed = store->gates.seed;
    map_release(&store->gates);
    map_init(&store->gates, seed);
}

/* ---- Puts of the open transaction ------------------------------------------------------------ */

/* The one that has put its value. */
static struct gate_put *find_put(const struct store *store, const struct shared_row *row)
{
    for (size_t i = 0; i < store->n_puts; i++)
        if (!store->puts[i].row.is_delta && pg_shared_compare(&store->puts[i].row, row) == 0)
            return &store->puts[i];
    return NULL;
}

static bool note_put(struct store *store, const struct shared_row *row, bool is_sent)
{
    if (store->n_puts == store->puts_capacity) {
        const size_t capacity = store->puts_capacity ? store->puts_capacity * 2 : 16;
        struct gate_put *grown = arena_array(&store->arena, capacity, sizeof *grown);
        if (!grown)
            return false;
        if (store->n_puts > 0)
            memcpy(grown, store->puts, store->n_puts * sizeof *grown);
        store->puts = grown;
        store->puts_capacity = capacity;
    }
    struct gate_put put = {.row = *row, .n = store->n_puts, .is_sent = is_sent};
    put.row.tenant = arena_str(&store->arena, row->tenant);
    put.row.key = arena_str(&store->arena, row->key);
    put.row.value = is_sent ? (struct str){NULL, 0} : arena_str(&store->arena, row->value);
    if (store->arena.failed)
        return false;
    store->puts[store->n_puts++] = put;
    return true;
}

bool pg_gate_waits(const struct store *store, const struct shared_row *row)
{
    for (size_t i = 0; i < store->n_puts; i++)
        if (!store->puts[i].is_sent && pg_shared_compare(&store->puts[i].row, row) == 0)
            return true;
    return false;
}

bool pg_gate_put(struct store *store, const struct shared_row *row)
{
    if (row->is_delta)
        return note_put(store, row, false);
    return is_gate(row->kind) && row->version > 0 && !find_put(store, row) &&
           version_seen(store, row) == row->version && note_put(store, row, false);
}

/* What the transaction leaves behind is known; a second put of the same row counts. */
void pg_gate_was_put(struct store *store, const struct shared_row *row)
{
    struct gate_put *put = is_gate(row->kind) ? find_put(store, row) : NULL;
    if (put) {
        put->row.version = row->version;
        put->row.removed = row->removed;
    } else if (is_gate(row->kind)) {
        (void)note_put(store, row, true);
    }
}

static int by_name(const void *left, const void *right)
{
    const struct gate_put *a = left, *b = right;
    const int order = pg_shared_compare(&a->row, &b->row);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static enum statement statement_of(const struct shared_row *row)
{
    if (row->removed)
        return STATEMENT_GATE_REMOVE;
    return row->is_delta ? STATEMENT_GATE_ADD : STATEMENT_GATE_WRITE;
}

/* In the order of their names, so that no two transactions wait for each other crosswise. */
static int flush(struct store *store, bool is_commit, struct redrive_err *err)
{
    int rc = 0;
    if (store->n_puts > 1)
        qsort(store->puts, store->n_puts, sizeof *store->puts, by_name);
    for (size_t i = 0; rc == 0 && i < store->n_puts; i++) {
        struct gate_put *put = &store->puts[i];
        if (put->is_sent)
            continue;
        put->is_sent = true;
        put->tells = is_commit && !put->row.removed;
        pg_args_shared(&store->args, &put->row);
        rc = pg_send(store, statement_of(&put->row), put->tells, err);
    }
    return rc;
}

int pg_gates_flush(struct store *store, struct redrive_err *err)
{
    return flush(store, false, err);
}

int pg_gates_commit(struct store *store, struct redrive_err *err)
{
    return flush(store, true, err);
}

size_t pg_gates_answered(struct store *store)
{
    size_t n = 0;
    for (size_t i = 0; i < store->n_puts && n < store->n_results; i++)
        if (store->puts[i].tells)
            pg_merged_read(store->results[n++], &store->puts[i].row);
    return n;
}

void pg_gates_learn(struct store *store, bool is_committed)
{
    for (size_t i = 0; is_committed && i < store->n_puts; i++) {
        const struct shared_row *row = &store->puts[i].row;
        if (!row->is_delta)
            note_version(store, row, row->removed ? 0 : row->version + 1);
    }
    store->puts = NULL;
    store->n_puts = store->puts_capacity = 0;
}
