/* source.c - reads everything that a store holds, page by page. */
#include "engine/copy/source.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* How many jobs the first page has. */
#define FIRST_PAGE 64

struct job_set *job_set_new(void)
{
    return calloc(1, sizeof(struct job_set));
}

void job_set_free(struct job_set *set)
{
    if (!set)
        return;
    attempt_pages_release(set->histories, set->n);
    job_page_release(&set->page);
    arena_release(&set->edges);
    free(set);
}

/* The id of a job, by its seq, in the set's memory; absent: it is gone. `known` has those that were
 * read before. */
static int read_id(struct job_set *set, struct store *store, struct map *known, int64_t seq,
                   struct str *ret, struct redrive_err *err)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    const struct str key = {(const char *)&seq, sizeof seq};
    char *id = map_get(known, key);
    struct job_page page = {0};
    int rc = 0;
    if (!id) {
        rc = store_ops(store)->list(store, &filter, &page, err);
        const bool is_there = rc == 0 && page.n == 1 && page.jobs[0].status.seq == seq;
        id = arena_dup(&set->edges, is_there ? page.jobs[0].spec.id : STR(""));
        if (rc == 0 && (!id || map_put(known, key, id) != 0))
            rc = err_nomem(err);
    }
    job_page_release(&page);
    *ret = rc == 0 ? str_of(id) : (struct str){0};
    return rc;
}

/* The edges of one job, of those of all from *at on. A parent that is gone is left out: its edge
 * has been decided. */
static int name_edges(struct job_set *set, struct store *store, struct map *known,
                      const struct edge_page *page, size_t *at, struct imported_job *ret,
                      struct redrive_err *err)
{
    const int64_t child = ret->job->status.seq;
    size_t n = 0, end = *at;
    while (end < page->n && page->edges[end].child == child)
        end++;
    struct copied_edge *edges = arena_array(&set->edges, end - *at, sizeof *edges);
    int rc = 0;
    if (!edges)
        return err_nomem(err);
    for (; rc == 0 && *at < end; ++*at) {
        const struct job_edge *edge = &page->edges[*at];
        edges[n] = (struct copied_edge){.rule = (uint32_t)after_rule_number(edge->rule),
                                        .outcome = (uint32_t)edge->outcome};
        rc = read_id(set, store, known, edge->parent, &edges[n].parent, err);
        n += rc == 0 && edges[n].parent.len > 0;
    }
    ret->edges = edges;
    ret->n_edges = n;
    return rc;
}

/* Reads what the jobs of the set wait for. */
static int read_edges(struct job_set *set, struct store *store, struct redrive_err *err)
{
    int64_t seqs[BATCH_MAX];
    RELEASED_BY(edge_page_release) struct edge_page page = {0};
    struct map known;
    size_t n = 0, at = 0;
    arena_release(&set->edges);
    for (size_t i = 0; i < set->n; i++)
        if (set->page.jobs[i].status.parents > 0)
            seqs[n++] = set->page.jobs[i].status.seq;
    if (n == 0)
        return 0;
    map_init(&known, 1);
    int rc = store_ops(store)->edges(store, EDGES_FROM_PARENTS, seqs, n, &page, err);
    for (size_t i = 0; rc == 0 && i < set->n; i++) {
        if (set->page.jobs[i].status.parents == 0)
            continue;
        at = edge_page_first(&page, EDGES_FROM_PARENTS, set->page.jobs[i].status.seq);
        rc = name_edges(set, store, &known, &page, &at, &set->jobs[i], err);
    }
    map_release(&known);
    return rc;
}

/* Reads the histories of the page's jobs, which are then the set. */
static int read_histories(struct job_set *set, struct store *store, struct redrive_err *err)
{
    int64_t seqs[BATCH_MAX];
    attempt_pages_release(set->histories, set->n);
    set->n = set->page.n;
    for (size_t i = 0; i < set->n; i++)
        seqs[i] = set->page.jobs[i].status.seq;
    int rc = store_ops(store)->history(store, seqs, set->n, set->histories, err);
    for (size_t i = 0; rc == 0 && i < set->n; i++)
        set->jobs[i] = (struct imported_job){&set->page.jobs[i], set->histories[i].attempts,
                                             set->histories[i].n, NULL, 0};
    return rc == 0 ? read_edges(set, store, err) : rc;
}

int job_set_lookup(struct job_set *set, struct store *store, const struct imported_job *jobs,
                   size_t n, struct redrive_err *err)
{
    struct job_name names[BATCH_MAX];
    for (size_t i = 0; i < n; i++)
        names[i] = job_name_of(jobs[i].job);
    int rc = store_ops(store)->lookup(store, names, n, &set->page, err);
    return rc < 0 ? rc : read_histories(set, store, err);
}

/* A walk over the jobs of a store by seq. */
struct job_walk {
    const struct source *source;
    struct job_set *set; /* the page */
    size_t limit;
    int64_t after_seq;
    uint64_t done; /* jobs so far, with this page */
};

static int job_walk_init(struct job_walk *walk, const struct source *source,
                         struct redrive_err *err)
{
    *walk = (struct job_walk){.source = source, .set = job_set_new(), .limit = FIRST_PAGE};
    return walk->set ? 0 : err_nomem(err);
}

static size_t bytes_of(const struct imported_job *imported)
{
    const struct job *job = imported->job;
    size_t bytes = sizeof *job + job->spec.payload.len + job->status.result.len;
    for (size_t i = 0; i < imported->n_attempts; i++) {
        const struct job_error *error = &imported->attempts[i].error;
        bytes += sizeof(struct job_attempt) + error->message.len + error->stacktrace.len;
    }
    return bytes;
}

/* In another store it would be taken for what was submitted. */
static int refuse_damaged(const struct job *job, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CORRUPT, "job '%.*s' is damaged", (int)job->spec.id.len,
            job->spec.id.ptr);
    err_hint(err, "`redrive doctor` lists damaged jobs; edit their payloads or remove them");
    return REDRIVE_E_CORRUPT;
}

/* The next page: 1, 0 after the last, or a negative code. Large jobs make small pages. */
static int job_walk_next(struct job_walk *walk, struct redrive_err *err)
{
    const struct job_filter filter = {
        .tenant = walk->source->tenant, .after_seq = walk->after_seq, .limit = walk->limit};
    struct store *store = walk->source->store;
    struct job_set *set = walk->set;
    size_t bytes = 0;
    int rc = store_ops(store)->list(store, &filter, &set->page, err);
    if (rc == 0)
        rc = read_histories(set, store, err);
    for (size_t i = 0; i < set->page.n && rc == 0; i++)
        if (set->page.jobs[i].is_damaged)
            rc = refuse_damaged(&set->page.jobs[i], err);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < set->n; i++)
        bytes += bytes_of(&set->jobs[i]);
    if (set->n > 0)
        walk->after_seq = set->jobs[set->n - 1].job->status.seq;
    walk->done += set->n;
    walk->limit = bytes > BATCH_BYTES ? walk->limit / 2 : walk->limit * 2;
    walk->limit = walk->limit < 1 ? 1 : walk->limit;
    walk->limit = walk->limit < BATCH_MAX ? walk->limit : BATCH_MAX;
    return set->n > 0;
}

static int give_jobs(const struct source *source, record_take_fn take, void *ctx,
                     struct redrive_err *err)
{
    struct job_walk walk;
    int rc = job_walk_init(&walk, source, err);
    while (rc == 0 && (rc = job_walk_next(&walk, err)) > 0) {
        const struct record_batch batch = {RECORD_JOB, walk.set->n, {.jobs = walk.set->jobs}};
        rc = take(ctx, &batch, err);
        if (rc == 0 && source->progress)
            rc = source->progress(source->progress_ctx, walk.done, err);
    }
    job_set_free(walk.set);
    return rc;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

void key_walk_init(struct key_walk *walk, struct store *store, struct str tenant)
{
    *walk = (struct key_walk){.store = store, .tenant = tenant};
}

void key_walk_release(struct key_walk *walk)
{
    remembered_key_page_release(&walk->pages[0]);
    remembered_key_page_release(&walk->pages[1]);
}

static bool key_walk_has(const struct key_walk *walk, const struct remembered_key *key)
{
    return walk->tenant.len == 0 || str_eq(key->tenant, walk->tenant);
}

/* Where the next page starts lies in the one before, which must outlive the read. */
static int key_walk_turn(struct key_walk *walk, struct redrive_err *err)
{
    const struct remembered_key_page *page = &walk->pages[walk->current];
    struct remembered_key after = {.tenant = walk->tenant};
    if (page->n > 0)
        after = page->keys[page->n - 1];
    walk->current = !walk->current;
    walk->started = true;
    walk->i = 0;
    return store_ops(walk->store)
        ->remembered_keys(walk->store, after.tenant, after.key, BATCH_MAX,
                          &walk->pages[walk->current], err);
}

int key_walk_next(struct key_walk *walk, const struct remembered_key **ret, struct redrive_err *err)
{
    const struct remembered_key_page *page = &walk->pages[walk->current];
    if (walk->i == page->n) {
        if (walk->started && !page->more)
            return 0;
        int rc = key_walk_turn(walk, err);
        page = &walk->pages[walk->current];
        if (rc < 0 || page->n == 0)
            return rc;
    }
    if (!key_walk_has(walk, &page->keys[walk->i]))
        return 0;
    *ret = &page->keys[walk->i++];
    return 1;
}

int key_walk_batch(struct key_walk *walk, struct record_batch *ret, struct redrive_err *err)
{
    const struct remembered_key *key;
    int rc = key_walk_next(walk, &key, err);
    if (rc <= 0)
        return rc;
    const struct remembered_key_page *page = &walk->pages[walk->current];
    *ret = (struct record_batch){RECORD_KEY, 1, {.keys = key}};
    while (walk->i < page->n && key_walk_has(walk, &page->keys[walk->i])) {
        walk->i++;
        ret->n++;
    }
    return rc;
}

static int give_keys(const struct source *source, record_take_fn take, void *ctx,
                     struct redrive_err *err)
{
    RELEASED_BY(key_walk_release) struct key_walk walk;
    struct record_batch batch;
    int rc;
    key_walk_init(&walk, source->store, source->tenant);
    while ((rc = key_walk_batch(&walk, &batch, err)) > 0) {
        rc = take(ctx, &batch, err);
        if (rc < 0)
            break;
    }
    return rc;
}

/* ---- What is small enough to be listed ------------------------------------------------------- */

static int give_rows(const struct source *source, enum shared_kind kind, record_take_fn take,
                     void *ctx, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    /* Definitions of tasks belong to no tenant. */
    struct str tenant = source->tenant;
    if (kind == SHARED_TASK)
        tenant = (struct str){0};
    int rc = store_ops(source->store)->shared_list(source->store, kind, tenant, &page, err);
    const struct record_batch batch = {(enum record_kind)kind, page.n, {.rows = page.rows}};
    if (rc == 0 && page.n > 0)
        rc = take(ctx, &batch, err);
    return rc;
}

/* Those that are marks, or those that are not. */
static int give_some_counters(const struct counter_page *page, enum record_kind kind,
                              record_take_fn take, void *ctx, struct redrive_err *err)
{
    struct counter *some = calloc(page->n + 1, sizeof *some);
    size_t n = 0;
    if (!some)
        return err_nomem(err);
    for (size_t i = 0; i < page->n; i++)
        if (is_mark(&page->counters[i]) == (kind == RECORD_MARK))
            some[n++] = page->counters[i];
    const struct record_batch batch = {kind, n, {.counters = some}};
    int rc = take(ctx, &batch, err);
    free(some);
    return rc;
}

static int give_counters(const struct source *source, record_take_fn take, void *ctx,
                         struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page page = {0};
    int rc = store_ops(source->store)->counters_list(source->store, source->tenant, &page, err);
    if (rc == 0)
        rc = give_some_counters(&page, RECORD_COUNTER, take, ctx, err);
    return rc < 0 ? rc : give_some_counters(&page, RECORD_MARK, take, ctx, err);
}

/* ---- Everything ------------------------------------------------------------------------------ */

int source_give(const struct source *source, record_take_fn take, void *ctx,
                struct redrive_err *err)
{
    int rc = 0;
    for (int kind = 0; rc == 0 && kind < SHARED_KIND_COUNT; kind++)
        if (kind != SHARED_WORKER)
            rc = give_rows(source, (enum shared_kind)kind, take, ctx, err);
    if (rc == 0)
        rc = give_jobs(source, take, ctx, err);
    if (rc == 0)
        rc = give_keys(source, take, ctx, err);
    return rc == 0 ? give_counters(source, take, ctx, err) : rc;
}

int source_count(struct store *store, struct str tenant, uint64_t *ret, struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page partitions = {0};
    int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, tenant, &partitions, err);
    *ret = 0;
    for (size_t i = 0; i < partitions.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            *ret += partitions.counts[i].by_state[state];
    return rc;
}

int source_freeze(struct store *store, bool *ret_is_snapshot, struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(store);
    *ret_is_snapshot = ops->snapshot || !(ops->capabilities & STORE_SHARED);
    return ops->snapshot ? ops->snapshot(store, true, err) : 0;
}

void source_thaw(struct store *store)
{
    if (store_ops(store)->snapshot)
        (void)store_ops(store)->snapshot(store, false, NULL);
}
