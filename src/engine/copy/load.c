/* load.c - batches of records into a store. */
#include "engine/copy/load.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/rng.h"
#include "engine/copy/source.h"
#include "engine/store_status.h"

/* ---- A transaction --------------------------------------------------------------------------- */

static int try_once(struct store *store, int64_t now_ms, load_moves_fn moves, void *ctx,
                    struct redrive_err *err)
{
    int64_t transaction_ms, version;
    int rc = store_ops(store)->begin(store, now_ms, &transaction_ms, &version, err);
    if (rc == 0)
        rc = moves(ctx, err);
    if (rc == 0)
        rc = store_ops(store)->commit(store, err);
    if (rc < 0)
        store_ops(store)->rollback(store);
    return rc;
}

int load_transaction(struct store *store, int64_t now_ms, load_moves_fn moves, void *ctx,
                     struct redrive_err *err)
{
    struct conflict conflict;
    struct rng rng;
    rng_seed(&rng, rng_system_seed());
    conflict_init(&conflict, &rng);
    while (conflict_try(&conflict)) {
        int rc = try_once(store, now_ms, moves, ctx, err);
        if (rc != REDRIVE_E_CANCELLED)
            return rc;
    }
    err_set(err, REDRIVE_E_IO, "other processes are in the way all the time");
    err_hint(err, LOAD_GOES_ON);
    return REDRIVE_E_IO;
}

/* ---- Finding --------------------------------------------------------------------------------- */

const struct shared_row *load_find_row(const struct shared_page *page, const struct shared_row *row,
                                       size_t *at)
{
    for (size_t k = 0; k < page->n; k++) {
        const struct shared_row *other = &page->rows[(*at + k) % page->n];
        if (str_eq(other->key, row->key) && str_eq(other->tenant, row->tenant)) {
            *at = (*at + k + 1) % page->n;
            return other;
        }
    }
    return NULL;
}

const struct counter *load_find_counter(const struct counter_page *page,
                                        const struct counter *counter, size_t *at)
{
    for (size_t k = 0; k < page->n; k++) {
        const struct counter *other = &page->counters[(*at + k) % page->n];
        if (str_eq(other->label, counter->label) && str_eq(other->name, counter->name) &&
            str_eq(other->tenant, counter->tenant)) {
            *at = (*at + k + 1) % page->n;
            return other;
        }
    }
    return NULL;
}

static struct counter mark_of(struct str name, int64_t value)
{
    return (struct counter){.name = STR(COPY_COUNTER), .label = name, .value = value};
}

static int64_t find_value(const struct counter_page *page, const struct counter *counter,
                          size_t *at)
{
    const struct counter *found = load_find_counter(page, counter, at);
    return found ? found->value : 0;
}

int load_mark(struct store *store, struct str name, int64_t *ret, struct redrive_err *err)
{
    const struct counter mark = mark_of(name, 1);
    RELEASED_BY(counter_page_release) struct counter_page there = {0};
    int rc = store_ops(store)->counters_list(store, (struct str){0}, &there, err);
    *ret = rc == 0 ? find_value(&there, &mark, &(size_t){0}) : 0;
    return rc;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* The rows that are put; those of the store stay, unless it has no job: then it was only set up. */
static size_t choose_rows(const struct load *load, const struct record_batch *batch,
                          const struct shared_page *there, struct shared_row *ret)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < batch->n; i++) {
        const struct shared_row *row = &batch->rows[i], *found = load_find_row(there, row, &at);
        const struct gate_sums known = found ? found->sums : (struct gate_sums){0};
        const struct gate_sums add = {row->sums.used - known.used, row->sums.sent - known.sent};
        const bool is_same =
            found && str_eq(found->value, row->value) && add.used == 0 && add.sent == 0;
        if (found && (load->keeps_rows || is_same))
            continue;
        ret[n] = (struct shared_row){
            .kind = row->kind,
            .tenant = row->tenant,
            .key = row->key,
            .value = row->value,
            .add = add,
            .version = found ? found->version : 0,
        };
        n++;
    }
    return n;
}

static int put_rows(const struct load *load, const struct record_batch *batch,
                    struct redrive_err *err)
{
    struct store *store = load->store;
    struct shared_row *rows = calloc(batch->n + 1, sizeof *rows);
    struct move_result *results = calloc(batch->n + 1, sizeof *results);
    RELEASED_BY(shared_page_release) struct shared_page there = {0};
    int rc = rows && results ? 0 : err_nomem(err);
    if (rc == 0)
        rc = store_ops(store)->shared_list(store, (enum shared_kind)batch->kind, (struct str){0},
                                           &there, err);
    const size_t n = rc == 0 ? choose_rows(load, batch, &there, rows) : 0;
    if (n > 0)
        rc = store_ops(store)->shared_put(store, rows, n, results, err);
    for (size_t i = 0; results && rc == 0 && i < n; i++)
        if (results[i].code != 0)
            rc = err_set(err, REDRIVE_E_CANCELLED, "another process has put a row meanwhile");
    free(rows);
    free(results);
    return rc;
}

/* ---- Jobs and counters ----------------------------------------------------------------------- */

struct batch_moves {
    const struct load *load;
    const struct record_batch *batch;
    uint64_t copied;
    struct load_refusals *refusals; /* NULL: not asked for */
};

static int import_edges(struct batch_moves *m, size_t i, struct redrive_err *err)
{
    struct load_refusals *r = m->refusals;
    struct redrive_err why = {0};
    int rc = load_edges(m->load, &m->batch->jobs[i], &why);
    if (rc == REDRIVE_E_NOT_FOUND && r) {
        if (!r->has_orphans)
            r->orphan = why;
        r->has_orphans = true;
        r->codes[i] = rc;
        return 0;
    }
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static int import_jobs(struct batch_moves *m, struct redrive_err *err)
{
    const struct load *load = m->load;
    const struct record_batch *batch = m->batch;
    struct store *store = load->store;
    struct move_result results[BATCH_MAX];
    int rc = store_ops(store)->import(store, batch->jobs, batch->n, results, err);
    for (size_t i = 0; rc == 0 && i < batch->n; i++) {
        m->copied += results[i].code == 0;
        if (m->refusals)
            m->refusals->codes[i] = results[i].code;
        if (results[i].code == 0 && batch->jobs[i].n_edges > 0)
            rc = import_edges(m, i, err);
    }
    return rc;
}

/* How much a counter must grow. A mark goes up to that of the source, too. */
static int64_t growth(const struct load *load, const struct counter *source,
                      const struct counter_page *there, size_t *at, bool is_done)
{
    if (load->adds_counters && !is_mark(source))
        return is_done ? 0 : source->value;
    const int64_t value = find_value(there, source, at);
    return value < source->value ? source->value - value : 0;
}

static int add_counters(const struct load *load, const struct record_batch *batch,
                        struct redrive_err *err)
{
    struct store *store = load->store;
    const struct counter mark = mark_of(load->name, 1);
    RELEASED_BY(counter_page_release) struct counter_page there = {0};
    int rc = store_ops(store)->counters_list(store, (struct str){0}, &there, err);
    const bool is_done = rc == 0 && !load->counts && find_value(&there, &mark, &(size_t){0}) > 0;
    for (size_t i = 0, at = 0; rc == 0 && i < batch->n; i++) {
        struct counter counter = batch->counters[i];
        counter.value = growth(load, &batch->counters[i], &there, &at, is_done);
        if (counter.value > 0)
            rc = store_ops(store)->counters_add(store, &counter, 1, err);
    }
    if (rc == 0 && !load->counts && !is_done && batch->kind == RECORD_COUNTER)
        rc = store_ops(store)->counters_add(store, &mark, 1, err);
    return rc;
}

/* ---- A batch --------------------------------------------------------------------------------- */

static int make_moves(void *ctx, struct redrive_err *err)
{
    struct batch_moves *m = ctx;
    const struct record_batch *batch = m->batch;
    struct store *store = m->load->store;
    int rc = 0;
    m->copied = 0;
    if (record_is_row(batch->kind))
        rc = put_rows(m->load, batch, err);
    else if (batch->kind == RECORD_JOB)
        rc = import_jobs(m, err);
    else if (batch->kind == RECORD_KEY)
        rc = store_ops(store)->import_keys(store, batch->keys, batch->n, err);
    else
        rc = add_counters(m->load, batch, err);
    if (rc < 0 || !m->load->counts)
        return rc;
    const struct counter mark = mark_of(m->load->name, (int64_t)batch->n);
    return store_ops(store)->counters_add(store, &mark, 1, err);
}

int load_in(const struct load *load, const struct record_batch *batch, struct load_refusals *ret,
            struct redrive_err *err)
{
    struct batch_moves moves = {.load = load, .batch = batch, .refusals = ret};
    if (ret)
        *ret = (struct load_refusals){0};
    return make_moves(&moves, err);
}

int load_take(void *ctx, const struct record_batch *batch, struct redrive_err *err)
{
    struct load *load = ctx;
    struct batch_moves moves = {.load = load, .batch = batch};
    int rc = load_transaction(load->store, load->now_ms, make_moves, &moves, err);
    load->copied += rc == 0 ? moves.copied : 0;
    return rc;
}
