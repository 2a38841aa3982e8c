/* shared.c - what processes share: rows with versions, and counters. */
#include <stdlib.h>

#include "base/err.h"
#include "store/postgres/private.h"

/* ---- Arguments and answers of a put ------------------------------------------------------------
 */

/* The arguments of a put of a row that is there. */
static void add_put(struct args *args, const struct shared_row *row)
{
    pg_args_int4(args, (int32_t)row->kind);
    pg_args_name(args, row->tenant);
    pg_args_name(args, row->key);
    pg_args_int8(args, row->version);
    pg_args_int8(args, row->add.used);
    if (row->removed)
        return;
    pg_args_int8(args, row->add.sent);
    pg_args_int8(args, row->max_used);
    if (!row->is_delta)
        pg_args_bytes(args, row->value);
}

/* Hands the sums and the version after a put to the caller. */
static void read_merged(const PGresult *result, const struct shared_row *row)
{
    if (row->merged)
        *row->merged = (struct merged_gate){{pg_get_int(result, 0, 0), pg_get_int(result, 0, 1)},
                                            pg_get_int(result, 0, 2)};
}

/* ---- Breakers and limits --------------------------------------------------------------------- */

/* Rows of breakers and limits, which several processes put often and at the same time; and those of
 * tenants that are moved: a mover that is frozen before its commit must not keep other processes
 * from taking the move back.
 *
 * An addition to the sums of a limit waits for the commit, and is sent after everything else: the
 * row is locked only for as long as the commit takes. Its new sums come with the answer. If they
 * exceed the limit, the transaction is refused.
 *
 * A put must find the row at the version that the engine has seen. The handle remembers which
 * version it has read or written last. A put at that version waits for the commit, too, and raises
 * an error if the row has another version by then, so that nothing of the transaction is committed.
 * Then all versions are forgotten. A put at another version, or of a row that the handle has not
 * seen, is made at once and answered. */
struct gate_put {
    struct shared_row row;
    size_t n; /* its place in the transaction */
    bool is_sent;
    bool is_told; /* the answer to the commit has its sums */
};

static bool is_gate(enum shared_kind kind)
{
    return kind == SHARED_BREAKER || kind == SHARED_LIMIT || kind == SHARED_TENANT;
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
    /* Without memory an older version may stay: a put at it is refused, and all are forgotten. */
    else if (!buf_failed(&key))
        (void)map_put_number(&store->gates, buf_str(&key), version);
    buf_release(&key);
}

/* Notes the version of a row that was read: a put at this version may wait for the commit. */
static void gate_seen(struct store *store, const struct shared_row *row)
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

/* The put of the row's value. */
static struct gate_put *find_put(const struct store *store, const struct shared_row *row)
{
    for (size_t i = 0; i < store->n_puts; i++)
        if (!store->puts[i].row.is_delta && shared_row_order(&store->puts[i].row, row) == 0)
            return &store->puts[i];
    return NULL;
}

static bool note_put(struct store *store, const struct shared_row *row, bool is_sent)
{
    struct gate_put *grown =
        page_grow(&store->arena, store->puts, store->n_puts, sizeof *store->puts);
    if (!grown)
        return false;
    store->puts = grown;
    struct gate_put put = {.row = *row, .n = store->n_puts, .is_sent = is_sent};
    put.row.tenant = arena_str(&store->arena, row->tenant);
    put.row.key = arena_str(&store->arena, row->key);
    put.row.value = is_sent ? (struct str){NULL, 0} : arena_str(&store->arena, row->value);
    if (store->arena.failed)
        return false;
    store->puts[store->n_puts++] = put;
    return true;
}

/* Whether an earlier put of the same row waits for the commit. */
static bool gate_waits(const struct store *store, const struct shared_row *row)
{
    for (size_t i = 0; i < store->n_puts; i++)
        if (!store->puts[i].is_sent && shared_row_order(&store->puts[i].row, row) == 0)
            return true;
    return false;
}

/* Whether this put may wait for the commit; if so it is noted. */
static bool gate_put_later(struct store *store, const struct shared_row *row)
{
    if (row->is_delta)
        return note_put(store, row, false);
    return is_gate(row->kind) && row->version > 0 && !find_put(store, row) &&
           version_seen(store, row) == row->version && note_put(store, row, false);
}

/* Notes a put that was made at once: the version after it is known. */
static void gate_was_put(struct store *store, const struct shared_row *row)
{
    struct gate_put *put = is_gate(row->kind) ? find_put(store, row) : NULL;
    if (put) {
        put->row.version = row->version;
        put->row.removed = row->removed;
    } else if (is_gate(row->kind)) {
        (void)note_put(store, row, true);
    }
}

static int by_row(const void *left, const void *right)
{
    const struct gate_put *a = left, *b = right;
    const int order = shared_row_order(&a->row, &b->row);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

static enum statement statement_of(const struct shared_row *row)
{
    if (row->removed)
        return STATEMENT_GATE_REMOVE;
    return row->is_delta ? STATEMENT_GATE_ADD : STATEMENT_GATE_WRITE;
}

/* Sends the puts that wait, in the order of their names, so that no two transactions deadlock. With
 * `is_commit` the answer begins with their sums. */
static int send_puts(struct store *store, bool is_commit, struct redrive_err *err)
{
    int rc = 0;
    if (store->n_puts > 1)
        qsort(store->puts, store->n_puts, sizeof *store->puts, by_row);
    for (size_t i = 0; rc == 0 && i < store->n_puts; i++) {
        struct gate_put *put = &store->puts[i];
        if (put->is_sent)
            continue;
        put->is_sent = true;
        put->is_told = is_commit && !put->row.removed;
        add_put(&store->args, &put->row);
        rc = pg_send(store, statement_of(&put->row), put->is_told, err);
    }
    return rc;
}

int pg_gates_commit(struct store *store, struct redrive_err *err)
{
    return send_puts(store, true, err);
}

size_t pg_gates_answered(struct store *store)
{
    size_t n = 0;
    for (size_t i = 0; i < store->n_puts && n < store->n_results; i++)
        if (store->puts[i].is_told)
            read_merged(store->results[n++], &store->puts[i].row);
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
    store->n_puts = 0;
}

/* ---- Rows with versions ---------------------------------------------------------------------- */

struct put {
    const struct shared_row *row;
    size_t n;     /* its place in the request */
    bool is_sent; /* and waits for an answer */
};

/* All transactions lock rows in this order, so that no two deadlock. */
static int by_name(const void *left, const void *right)
{
    const struct put *a = left, *b = right;
    const int order = shared_row_order(a->row, b->row);
    return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
}

/* Whether it would be refused in any case: there is no row yet. */
static bool is_refused_anyway(const struct shared_row *row)
{
    const bool is_too_many = row->max_used > 0 && row->add.used > row->max_used;
    return row->version == 0 && (row->removed || is_too_many);
}

static int send_put(struct store *store, const struct shared_row *row, struct redrive_err *err)
{
    int rc = gate_waits(store, row) ? send_puts(store, false, err) : 0;
    if (rc != 0)
        return rc;
    struct args *args = &store->args;
    if (row->version != 0) {
        add_put(args, row);
        return pg_send(store, row->removed ? STATEMENT_SHARED_REMOVE : STATEMENT_SHARED_WRITE, true,
                       err);
    }
    pg_args_int4(args, (int32_t)row->kind);
    pg_args_name(args, row->tenant);
    pg_args_name(args, row->key);
    pg_args_int8(args, row->add.used);
    pg_args_int8(args, row->add.sent);
    pg_args_bytes(args, row->value);
    return pg_send(store, STATEMENT_SHARED_ADD, true, err);
}

static void note_answer(struct store *store, const struct shared_row *row, bool is_done,
                        struct move_result *ret)
{
    *ret = (struct move_result){.code = is_done ? 0 : REDRIVE_E_STATE};
    store->bumps += is_done && shared_put_is_notified(row);
}

int postgres_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                        struct move_result *ret, struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    pg_shared_forget(store);
    struct put *puts = rc == 0 ? arena_array(&store->arena, n, sizeof *puts) : NULL;
    if (!puts)
        return rc != 0 ? rc : err_nomem(err);
    for (size_t i = 0; i < n; i++)
        puts[i] = (struct put){.row = &rows[i], .n = i};
    if (n > 1)
        qsort(puts, n, sizeof *puts, by_name);
    bool any_sent = false;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const struct shared_row *row = puts[i].row;
        if (row->merged)
            *row->merged = MERGED_UNKNOWN;
        if (!row->is_delta && is_refused_anyway(row)) {
            ret[puts[i].n] = (struct move_result){.code = REDRIVE_E_STATE};
        } else if (gate_put_later(store, row)) {
            note_answer(store, row, true, &ret[puts[i].n]);
        } else if (row->is_delta) {
            rc = err_nomem(err);
        } else {
            any_sent = puts[i].is_sent = true;
            rc = send_put(store, row, err);
        }
    }
    if (rc == 0 && any_sent)
        rc = pg_sync(store, err);
    size_t answer = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (!puts[i].is_sent)
            continue;
        const PGresult *result = store->results[answer++];
        const bool is_done = PQcmdTuples((PGresult *)result)[0] == '1';
        note_answer(store, puts[i].row, is_done, &ret[puts[i].n]);
        if (!is_done)
            continue;
        gate_was_put(store, puts[i].row);
        if (!puts[i].row->removed)
            read_merged(result, puts[i].row);
    }
    return rc;
}

static void add_kind(struct store *store, enum shared_kind kind, struct str tenant)
{
    pg_args_int4(&store->args, (int32_t)kind);
    pg_args_name(&store->args, tenant);
}

int pg_shared_send(struct store *store, enum shared_kind kind, struct str tenant,
                   struct redrive_err *err)
{
    add_kind(store, kind, tenant);
    return pg_send(store, STATEMENT_SHARED_LIST, true, err);
}

static int fill_shared(struct store *store, enum shared_kind kind, const PGresult *result,
                       struct shared_page *ret, struct redrive_err *err)
{
    const size_t n = (size_t)PQntuples(result);
    ret->rows = arena_array(&ret->arena, n, sizeof *ret->rows);
    for (size_t i = 0; ret->rows && i < n; i++) {
        struct str value = pg_get_raw(result, (int)i, 3);
        if (value.ptr)
            value = arena_str(&ret->arena, value);
        ret->rows[ret->n] = (struct shared_row){
            .kind = kind,
            .tenant = pg_get_text(result, (int)i, 0, &ret->arena),
            .key = pg_get_text(result, (int)i, 1, &ret->arena),
            .version = pg_get_int(result, (int)i, 2),
            .value = value,
            .sums = {pg_get_int(result, (int)i, 4), pg_get_int(result, (int)i, 5)},
        };
        gate_seen(store, &ret->rows[ret->n++]);
    }
    if (!ret->arena.failed)
        return 0;
    shared_page_release(ret);
    return err_nomem(err);
}

/* ---- All kinds at once -------------------------------------------------------------------------
 *
 * An engine that has seen a new shared version reads all kinds one after the other, from the first
 * on: they are read ahead in one round trip.
 */

#define AHEAD_KINDS SHARED_WORKER /* those that are cached come first */

void pg_shared_forget(struct store *store)
{
    for (int kind = 0; store->ahead && kind < AHEAD_KINDS; kind++)
        shared_page_release(&store->ahead[kind]);
    store->ahead = NULL;
    PQclear(pg_scanned_cancels(store));
}

static int read_ahead(struct store *store, struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    for (int kind = 0; rc == 0 && kind < AHEAD_KINDS; kind++)
        rc = pg_shared_send(store, (enum shared_kind)kind, (struct str){NULL, 0}, err);
    if (rc == 0)
        rc = pg_sync(store, err);
    if (rc != 0)
        return rc;
    store->ahead = arena_array(&store->arena, AHEAD_KINDS, sizeof *store->ahead);
    if (!store->ahead)
        return err_nomem(err);
    for (int kind = 0; rc == 0 && kind < AHEAD_KINDS; kind++)
        rc = fill_shared(store, (enum shared_kind)kind, store->results[kind], &store->ahead[kind],
                         err);
    return rc;
}

int postgres_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                         struct shared_page *ret, struct redrive_err *err)
{
    const PGresult *result;
    shared_page_release(ret);
    const bool is_ahead = store->in_transaction && tenant.len == 0 && shared_is_cached(kind);
    int rc = store->in_transaction ? send_puts(store, false, err) : 0;
    if (rc == 0 && is_ahead && !store->ahead && kind == SHARED_BREAKER)
        rc = read_ahead(store, err);
    if (rc != 0)
        return rc;
    if (is_ahead && store->ahead && store->ahead[kind].rows) {
        *ret = store->ahead[kind];
        store->ahead[kind] = (struct shared_page){0};
        return 0;
    }
    PGresult *cancels = kind == SHARED_CANCEL && tenant.len == 0 ? pg_scanned_cancels(store) : NULL;
    if (cancels) {
        rc = fill_shared(store, kind, cancels, ret, err);
        PQclear(cancels);
        return rc;
    }
    add_kind(store, kind, tenant);
    rc = pg_read(store, STATEMENT_SHARED_LIST, NULL, &result, err);
    return rc == 0 ? fill_shared(store, kind, result, ret, err) : rc;
}

/* ---- Counters -------------------------------------------------------------------------------- */

int postgres_counters_add(struct store *store, const struct counter *counters, size_t n,
                          struct redrive_err *err)
{
    struct args *args = &store->args;
    int rc = pg_transaction_needed(store, err);
    if (rc != 0 || n == 0)
        return rc;
    pg_args_rows(args, store->types.counters);
    for (size_t i = 0; i < n; i++) {
        pg_row_begin(args);
        pg_field_name(args, counters[i].tenant);
        pg_field_name(args, counters[i].name);
        pg_field_name(args, counters[i].label);
        pg_field_int8(args, counters[i].value);
        pg_row_end(args);
    }
    pg_args_array_end(args);
    store->n_appended += n;
    return pg_send(store, STATEMENT_COUNTERS_ADD, false, err);
}

int postgres_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                           struct redrive_err *err)
{
    const PGresult *result;
    counter_page_release(ret);
    pg_args_name(&store->args, tenant);
    int rc = pg_read(store, STATEMENT_COUNTERS_LIST, NULL, &result, err);
    const size_t n = rc == 0 ? (size_t)PQntuples(result) : 0;
    ret->counters = arena_array(&ret->arena, n, sizeof *ret->counters);
    for (size_t i = 0; ret->counters && i < n; i++)
        ret->counters[ret->n++] = (struct counter){
            .tenant = pg_get_text(result, (int)i, 0, &ret->arena),
            .name = pg_get_text(result, (int)i, 1, &ret->arena),
            .label = pg_get_text(result, (int)i, 2, &ret->arena),
            .value = pg_get_int(result, (int)i, 3),
        };
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0)
        counter_page_release(ret);
    return rc;
}
