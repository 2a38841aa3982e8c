/* transfer.c - copies everything from one store into another. */
#include "engine/copy/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "engine/engine.h"
#include "engine/report/worker_row.h"
#include "engine/rows.h"

#define CONTENT_MAX        ((size_t)1 << 30)
#define KEYS_A_TRANSACTION 500
#define LOOK_AT_ONCE       100

/* Workers that a refusal names, and the most that it says of them. */
#define WORKERS_NAMED 3
#define NAMES_MAX     4096

/* ---- A transaction --------------------------------------------------------------------------- */

typedef int (*copy_moves_fn)(void *ctx, struct redrive_err *err);

static int try_once(struct store *store, int64_t now_ms, copy_moves_fn moves, void *ctx,
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

/* Makes a transaction in a store; again for a while when it conflicts with another process: `moves`
 * starts from the beginning each time. */
static int copy_transaction(struct store *store, int64_t now_ms, copy_moves_fn moves, void *ctx,
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
    err_hint(err, COPY_GOES_ON);
    return REDRIVE_E_IO;
}

/* ---- Whether two URLs mean one store --------------------------------------------------------- */

/* A row with a name that no other row has. */
struct probe {
    struct store *store;
    char name[32];
    struct shared_row row;
};

static int put_probe(void *ctx, struct redrive_err *err)
{
    struct probe *probe = ctx;
    struct move_result result = {0};
    return store_ops(probe->store)->shared_put(probe->store, &probe->row, 1, &result, err);
}

static int look_for_probe(struct store *store, struct str name, bool *ret, struct redrive_err *err)
{
    struct shared_page page = {0};
    int rc = store_ops(store)->shared_list(store, SHARED_WORKER, (struct str){0}, &page, err);
    *ret = rc == 0 && shared_row_find(&page, name);
    shared_page_release(&page);
    return rc;
}

int copy_is_same_store(struct store *a, struct store *b, int64_t now_ms, bool *ret,
                       struct redrive_err *err)
{
    struct probe probe = {.store = b};
    *ret = false;
    if (strcmp(store_ops(a)->scheme, store_ops(b)->scheme) != 0)
        return 0;
    (void)snprintf(probe.name, sizeof probe.name, "move-%016" PRIx64, rng_system_seed());
    probe.row =
        (struct shared_row){.kind = SHARED_WORKER, .key = str_of(probe.name), .value = STR("{}")};
    int rc = copy_transaction(b, now_ms, put_probe, &probe, err);
    if (rc < 0)
        return rc;
    rc = look_for_probe(a, probe.row.key, ret, err);
    probe.row.version = 1;
    probe.row.removed = true;
    int removed = copy_transaction(b, now_ms, put_probe, &probe, rc < 0 ? NULL : err);
    return rc < 0 ? rc : removed;
}

/* ---- Before ---------------------------------------------------------------------------------- */

static void name_worker(struct buf *out, const struct worker_info *worker)
{
    buf_printf(out, "%s%.*s", out->len > 0 ? "; " : "", (int)worker->name.len, worker->name.ptr);
    if (worker->pid != 0)
        buf_printf(out, ", process %" PRId64 " on %.*s", worker->pid, (int)worker->host.len,
                   worker->host.ptr);
}

static int refuse_workers(const struct worker_page *workers, const char *side,
                          struct redrive_err *err)
{
    const size_t n = workers->n, named = n < WORKERS_NAMED ? n : WORKERS_NAMED;
    struct buf names;
    buf_init(&names, NAMES_MAX);
    for (size_t i = 0; i < named; i++)
        name_worker(&names, &workers->workers[i]);
    if (n > named)
        buf_printf(&names, "; and %zu more", n - named);
    err_set(err, REDRIVE_E_STATE, "%zu worker%s on the %s", n, n == 1 ? " is alive" : "s are alive",
            side);
    err_detail(err, "%s", buf_cstr(&names));
    err_hint(err, "stop %s; one that crashed is forgotten after %d s; or use --force",
             n == 1 ? "it" : "them", WORKER_GONE_MS / 1000);
    buf_release(&names);
    return REDRIVE_E_STATE;
}

int copy_check_idle(struct store *store, const char *side, int64_t now_ms, struct redrive_err *err)
{
    struct worker_page workers = {0};
    int rc = workers_read(store, (struct str){0}, store_time_ms(store, now_ms), &workers, err);
    if (rc == 0 && workers.n > 0)
        rc = refuse_workers(&workers, side, err);
    worker_page_release(&workers);
    return rc;
}

static int foreign(const struct job *job, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "the destination has jobs that the source has not");
    err_detail(err, "the first is %.*s of tenant %.*s", (int)job->spec.id.len, job->spec.id.ptr,
               (int)job->spec.tenant.len, job->spec.tenant.ptr);
    err_hint(err, "name an empty store, or add to this one with --into-existing");
    return REDRIVE_E_STATE;
}

/* That the counters have been added. */
static struct counter mark_of(const struct transfer *t)
{
    return (struct counter){
        .name = STR(COPY_COUNTER), .label = str_of(t->options->name), .value = 1};
}

/* Whether a transfer of this source has come to its end before. */
static int was_done(const struct transfer *t, bool *ret, struct redrive_err *err)
{
    struct store *to = t->options->to;
    const struct counter mark = mark_of(t);
    struct counter_page there = {0};
    int rc = store_ops(to)->counters_list(to, (struct str){0}, &there, err);
    *ret = rc == 0 && copy_find_counter(&there, &mark, &(size_t){0});
    counter_page_release(&there);
    return rc;
}

/* The first job of a page that the source has not, or NULL. */
static int find_foreign(const struct transfer *t, const struct job_page *page,
                        struct job_page *found, const struct job **ret, struct redrive_err *err)
{
    struct store *from = t->options->from;
    struct job_name names[COPY_CHUNK_MAX];
    *ret = NULL;
    for (size_t i = 0; i < page->n; i++)
        names[i] = job_name_of(&page->jobs[i]);
    int rc = store_ops(from)->lookup(from, names, page->n, found, err);
    for (size_t i = 0; rc == 0 && i < page->n && !*ret; i++)
        if (i >= found->n || !is_same_job(&found->jobs[i], &page->jobs[i]))
            *ret = &page->jobs[i];
    return rc;
}

/* A destination that is not empty must come from an earlier, interrupted transfer of this source.
 */
static int check_all_ours(const struct transfer *t, uint64_t total, struct redrive_err *err)
{
    struct store *to = t->options->to;
    struct job_page page = {0}, found = {0};
    struct job_filter filter = {.limit = LOOK_AT_ONCE};
    const struct job *first = NULL;
    uint64_t done = 0;
    int rc;
    do {
        rc = store_ops(to)->list(to, &filter, &page, err);
        if (rc < 0 || page.n == 0)
            break;
        rc = find_foreign(t, &page, &found, &first, err);
        if (rc == 0 && first)
            rc = foreign(first, err);
        filter.after_seq = page.jobs[page.n - 1].status.seq;
        done += page.n;
        if (rc == 0)
            rc = copy_progress(t, "look", done, total, err);
    } while (rc == 0 && page.more);
    job_page_release(&found);
    job_page_release(&page);
    return rc;
}

static int check_destination(struct transfer *t, struct redrive_err *err)
{
    uint64_t there = 0;
    bool was_filled = false;
    int rc = was_done(t, &was_filled, err);
    if (rc == 0)
        rc = copy_count(t->options->to, &there, err);
    t->starts_empty = !was_filled && there == 0;
    if (rc == 0 && !t->options->into_existing)
        rc = check_all_ours(t, there, err);
    return rc;
}

static int look(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    int rc = 0;
    if (!o->despite_workers) {
        rc = copy_check_idle(o->from, "source", o->now_ms, err);
        if (rc == 0 && o->to)
            rc = copy_check_idle(o->to, "destination", o->now_ms, err);
    }
    if (rc == 0)
        rc = copy_count(o->from, &t->total, err);
    if (rc == 0 && o->to)
        rc = check_destination(t, err);
    return rc;
}

/* ---- Copying: each of these makes the moves of an open transaction --------------------------- */

/* What the destination has stays, unless it has no job: then it was only set up. Rows that go are
 * gathered, to be put in one call. */
static size_t choose_rows(const struct transfer *t, const struct shared_page *here,
                          const struct shared_page *there, struct shared_row *ret)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < here->n; i++) {
        const struct shared_row *found = copy_find_row(there, &here->rows[i], &at);
        const struct gate_sums sums = here->rows[i].sums;
        const struct gate_sums known = found ? found->sums : (struct gate_sums){0};
        const struct gate_sums add = {sums.used - known.used, sums.sent - known.sent};
        const bool is_same = found && str_eq(found->value, here->rows[i].value) && add.used == 0;
        if (found && (!t->starts_empty || is_same))
            continue;
        ret[n] = here->rows[i];
        ret[n].add = add;
        ret[n++].version = found ? found->version : 0;
    }
    return n;
}

static int put_kind(const struct transfer *t, const struct shared_page *here,
                    const struct shared_page *there, struct redrive_err *err)
{
    struct store *to = t->options->to;
    struct shared_row *rows = calloc(here->n + 1, sizeof *rows);
    struct move_result *results = calloc(here->n + 1, sizeof *results);
    size_t n = 0;
    int rc = 0;
    if (rows && results)
        n = choose_rows(t, here, there, rows);
    else
        rc = err_nomem(err);
    if (n > 0)
        rc = store_ops(to)->shared_put(to, rows, n, results, err);
    free(rows);
    free(results);
    return rc;
}

static int put_rows(struct transfer *t, struct redrive_err *err)
{
    const struct copy_options *o = t->options;
    struct shared_page here = {0}, there = {0};
    int rc = 0;
    for (int kind = SHARED_BREAKER; rc == 0 && kind < SHARED_KIND_COUNT; kind++) {
        if (kind == SHARED_WORKER)
            continue;
        const enum shared_kind k = (enum shared_kind)kind;
        rc = store_ops(o->from)->shared_list(o->from, k, (struct str){0}, &here, err);
        if (rc == 0)
            rc = store_ops(o->to)->shared_list(o->to, k, (struct str){0}, &there, err);
        if (rc == 0)
            rc = put_kind(t, &here, &there, err);
    }
    shared_page_release(&here);
    shared_page_release(&there);
    return rc;
}

static int import(const struct transfer *t, const struct job_set *set, uint64_t *ret_copied,
                  struct redrive_err *err)
{
    struct store *to = t->options->to;
    struct move_result results[COPY_CHUNK_MAX];
    int rc = set->n == 0 ? 0 : store_ops(to)->import(to, set->jobs, set->n, results, err);
    *ret_copied = 0;
    for (size_t i = 0; rc == 0 && i < set->n; i++)
        *ret_copied += results[i].code == 0;
    return rc;
}

/* How much a counter must grow. */
static int64_t growth(const struct transfer *t, const struct counter *source,
                      const struct counter_page *there, size_t *at, bool is_done)
{
    const struct counter *found = copy_find_counter(there, source, at);
    if (t->options->into_existing && !is_mark(source))
        return is_done ? 0 : source->value;
    const int64_t value = found ? found->value : 0;
    return value < source->value ? source->value - value : 0;
}

static int add_counters(void *ctx, struct redrive_err *err)
{
    const struct transfer *t = ctx;
    const struct copy_options *o = t->options;
    const struct counter mark = mark_of(t);
    struct counter_page here = {0}, there = {0};
    int rc = store_ops(o->from)->counters_list(o->from, (struct str){0}, &here, err);
    if (rc == 0)
        rc = store_ops(o->to)->counters_list(o->to, (struct str){0}, &there, err);
    const bool is_done = rc == 0 && copy_find_counter(&there, &mark, &(size_t){0});
    for (size_t i = 0, at = 0; rc == 0 && i < here.n; i++) {
        struct counter counter = here.counters[i];
        counter.value = growth(t, &here.counters[i], &there, &at, is_done);
        if (counter.value > 0)
            rc = store_ops(o->to)->counters_add(o->to, &counter, 1, err);
    }
    if (rc == 0 && !is_done)
        rc = store_ops(o->to)->counters_add(o->to, &mark, 1, err);
    counter_page_release(&here);
    counter_page_release(&there);
    return rc;
}

/* ---- Transactions ---------------------------------------------------------------------------- */

struct page_to_copy {
    struct transfer *t;
    const struct job_set *jobs;
    bool is_first;
    uint64_t copied; /* by this transaction */
};

static int copy_page(void *ctx, struct redrive_err *err)
{
    struct page_to_copy *page = ctx;
    int rc = page->is_first ? put_rows(page->t, err) : 0;
    return rc < 0 ? rc : import(page->t, page->jobs, &page->copied, err);
}

static int copy_jobs(struct transfer *t, struct redrive_err *err)
{
    struct job_walk walk;
    int rc = job_walk_init(&walk, t->options->from, err);
    if (rc == 0)
        rc = job_walk_next(&walk, err);
    struct page_to_copy page = {.t = t, .jobs = walk.set, .is_first = true};
    /* The first transaction is made even when there is no job, for the shared rows. */
    while (rc > 0 || (rc == 0 && page.is_first)) {
        rc = copy_transaction(t->options->to, t->options->now_ms, copy_page, &page, err);
        page.is_first = false;
        t->report->copied += rc == 0 ? page.copied : 0;
        if (rc == 0)
            rc = copy_progress(t, "copy", walk.done, t->total, err);
        if (rc == 0)
            rc = job_walk_next(&walk, err);
    }
    job_walk_release(&walk);
    return rc;
}

struct keys_to_copy {
    struct store *to;
    struct remembered_key keys[KEYS_A_TRANSACTION];
    size_t n;
};

static int copy_some_keys(void *ctx, struct redrive_err *err)
{
    const struct keys_to_copy *some = ctx;
    return store_ops(some->to)->import_keys(some->to, some->keys, some->n, err);
}

static int copy_keys(struct transfer *t, struct redrive_err *err)
{
    struct key_walk walk = {.store = t->options->from};
    const struct remembered_key *key;
    struct keys_to_copy some = {.to = t->options->to};
    int rc;
    while ((rc = key_walk_next(&walk, &key, err)) > 0) {
        some.keys[some.n++] = *key;
        /* Before the page that they stand in is gone. */
        if (some.n < KEYS_A_TRANSACTION && walk.i < walk.pages[walk.current].n)
            continue;
        rc = copy_transaction(some.to, t->options->now_ms, copy_some_keys, &some, err);
        some.n = 0;
        if (rc < 0)
            break;
    }
    key_walk_release(&walk);
    return rc;
}

static int copy(struct transfer *t, struct redrive_err *err)
{
    int rc = copy_jobs(t, err);
    if (rc == 0)
        rc = copy_keys(t, err);
    if (rc == 0)
        rc = copy_transaction(t->options->to, t->options->now_ms, add_counters, t, err);
    /* The error is about the transaction that failed; earlier ones stay. */
    if (rc < 0 && err && (t->report->copied > 0 || err->hint[0] == '\0'))
        err_hint(err, COPY_GOES_ON);
    return rc;
}

int copy_run(const struct copy_options *options, struct copy_report *ret, struct redrive_err *err)
{
    struct transfer t = {.options = options, .report = ret};
    *ret = (struct copy_report){0};
    buf_init(&t.a, CONTENT_MAX);
    buf_init(&t.b, CONTENT_MAX);
    int rc = look(&t, err);
    if (rc == 0 && !options->dry_run)
        rc = copy(&t, err);
    if (rc == 0) {
        rc = copy_check(&t, err);
        if (rc < 0 && !options->dry_run)
            err_hint(err, "everything was copied: the same command checks it again");
    }
    buf_release(&t.a);
    buf_release(&t.b);
    return rc;
}
