/* jobs.c - reads of jobs over all shards: pages in one order, jobs by name, their history. */
#include <stdlib.h>

#include "base/err.h"
#include "store/shards/tenants.h"

static void name_jobs(struct job_page *page, size_t shard)
{
    for (size_t i = 0; i < page->n; i++)
        page->jobs[i].status.seq = shard_seq(page->jobs[i].status.seq, shard);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* The filter as this shard understands it; false: it has none of the jobs. What follows a job in an
 * order from the end is what has a lower number: with 1 that is none. */
static bool filter_of(const struct job_filter *filter, size_t shard, struct job_filter *ret)
{
    *ret = *filter;
    if (filter->after_seq > 0 && filter->order == ORDER_OLDEST)
        ret->after_seq = shard_seq_from(filter->after_seq + 1, shard) - 1;
    else if (filter->after_seq > 0)
        ret->after_seq = shard_seq_from(filter->after_seq, shard);
    if (filter->after_seq > 0 && filter->order != ORDER_OLDEST && ret->after_seq < 1)
        ret->after_seq = 1;
    if (ret->after_seq < 0)
        ret->after_seq = 0;
    if (filter->until_seq > 0 && filter->order == ORDER_OLDEST) {
        ret->until_seq = shard_seq_from(filter->until_seq + 1, shard) - 1;
        return ret->until_seq > 0;
    }
    if (filter->until_seq > 0)
        ret->until_seq = shard_seq_from(filter->until_seq, shard);
    return true;
}

static int list_one(struct sharded *s, size_t shard, const struct job_filter *filter,
                    struct job_page *ret, struct redrive_err *err)
{
    struct job_filter own;
    struct store *store = s->stores[shard];
    if (!filter_of(filter, shard, &own)) {
        job_page_release(ret);
        return 0;
    }
    int rc = store_ops(store)->list(store, &own, ret, err);
    name_jobs(ret, shard);
    return shards_fail_at(s, shard, rc, err);
}

/* Whether `a` comes before `b`. */
static bool is_before(enum job_order order, const struct job *a, const struct job *b)
{
    const struct job_status *x = &a->status, *y = &b->status;
    if (order == ORDER_FINISHED && x->finished_ms != y->finished_ms)
        return x->finished_ms > y->finished_ms;
    return order == ORDER_OLDEST ? x->seq < y->seq : x->seq > y->seq;
}

/* The page that has the next job; `n`: none has. */
static size_t next_page(enum job_order order, const struct job_page *pages, const size_t *at,
                        size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (at[i] < pages[i].n &&
            (best == n || is_before(order, &pages[i].jobs[at[i]], &pages[best].jobs[at[best]])))
            best = i;
    return best;
}

static int merge_jobs(struct job_page *pages, size_t n, const struct job_filter *filter,
                      struct job_page *ret, struct redrive_err *err)
{
    size_t at[SHARDS_MAX] = {0}, total = 0;
    for (size_t i = 0; i < n; i++) {
        total += pages[i].n;
        job_page_add_left_out(ret, &pages[i]);
        ret->more |= pages[i].more;
    }
    ret->more |= total > filter->limit;
    ret->jobs = arena_array(&ret->arena, total, sizeof *ret->jobs);
    if (!ret->jobs)
        return err_nomem(err);
    for (size_t from;
         ret->n < filter->limit && (from = next_page(filter->order, pages, at, n)) < n;)
        ret->jobs[ret->n++] = pages[from].jobs[at[from]++];
    for (size_t i = 0; i < n; i++)
        arena_adopt(&ret->arena, &pages[i].arena);
    return 0;
}

int shards_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    struct job_page pages[SHARDS_MAX] = {0};
    int rc = 0;
    job_page_release(ret);
    if (filter->tenant.len > 0) {
        size_t at;
        rc = shards_reach(s, filter->tenant, &at, err);
        return rc < 0 ? rc : list_one(s, at, filter, ret, err);
    }
    for (size_t i = 0; i < s->urls.n && rc == 0; i++)
        rc = list_one(s, i, filter, &pages[i], err);
    if (rc == 0)
        rc = merge_jobs(pages, s->urls.n, filter, ret, err);
    for (size_t i = 0; i < s->urls.n; i++)
        job_page_release(&pages[i]);
    return rc;
}

/* ---- By name --------------------------------------------------------------------------------- */

static int lookup_one(struct sharded *s, size_t shard, const struct job_name *names, size_t n,
                      struct job_page *ret, struct redrive_err *err)
{
    struct store *store = s->stores[shard];
    struct job_name own[STORE_PAGE_MAX];
    size_t n_own = 0;
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        size_t at;
        rc = shards_reach(s, names[i].tenant, &at, err);
        if (rc == 0 && at == shard)
            own[n_own++] = names[i];
    }
    if (n_own == 0 || rc < 0)
        return rc;
    rc = store_ops(store)->lookup(store, own, n_own, ret, err);
    name_jobs(ret, shard);
    return shards_fail_at(s, shard, rc, err);
}

static bool is_named(const struct job_page *page, size_t at, const struct job_name *name)
{
    return at < page->n && str_eq(page->jobs[at].spec.tenant, name->tenant) &&
           str_eq(page->jobs[at].spec.id, name->id);
}

/* Each page is in the order of the names. */
static int merge_named(struct sharded *s, struct job_page *pages, const struct job_name *names,
                       size_t n, struct job_page *ret, struct redrive_err *err)
{
    size_t at[SHARDS_MAX] = {0};
    ret->jobs = arena_array(&ret->arena, n, sizeof *ret->jobs);
    if (!ret->jobs)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const size_t from = shards_at(s, names[i].tenant);
        if (is_named(&pages[from], at[from], &names[i]))
            ret->jobs[ret->n++] = pages[from].jobs[at[from]++];
    }
    for (size_t i = 0; i < s->urls.n; i++)
        arena_adopt(&ret->arena, &pages[i].arena);
    return 0;
}

int shards_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                  struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    struct job_page pages[SHARDS_MAX] = {0};
    job_page_release(ret);
    int rc = store_check_count(n, err);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++)
        rc = lookup_one(s, i, names, n, &pages[i], err);
    if (rc == 0)
        rc = merge_named(s, pages, names, n, ret, err);
    for (size_t i = 0; i < s->urls.n; i++)
        job_page_release(&pages[i]);
    return rc;
}

/* ---- History --------------------------------------------------------------------------------- */

static int history_one(struct sharded *s, size_t shard, const int64_t *seqs, size_t n,
                       struct attempt_page *ret, struct redrive_err *err)
{
    struct store *store = s->stores[shard];
    int64_t own[STORE_PAGE_MAX];
    size_t n_own = 0;
    for (size_t i = 0; i < n; i++)
        if (shard_of_seq(seqs[i]) == shard)
            own[n_own++] = shard_own_seq(seqs[i]);
    if (n_own == 0)
        return 0;
    struct attempt_page *pages = calloc(n_own, sizeof *pages);
    if (!pages)
        return err_nomem(err);
    int rc = store_ops(store)->history(store, own, n_own, pages, err);
    for (size_t i = 0, at = 0; i < n && rc == 0; i++)
        if (shard_of_seq(seqs[i]) == shard)
            ret[i] = pages[at++];
    if (rc < 0)
        attempt_pages_release(pages, n_own);
    free(pages);
    return shards_fail_at(s, shard, rc, err);
}

int shards_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                   struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    attempt_pages_release(ret, n);
    int rc = store_check_count(n, err);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++)
        rc = history_one(s, i, seqs, n, ret, err);
    if (rc < 0)
        attempt_pages_release(ret, n);
    return rc;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

/* Both ends of an edge are of one tenant, and so of one shard. */
static int edges_one(struct sharded *s, size_t shard, enum edge_side side, const int64_t *seqs,
                     size_t n, struct edge_page *ret, struct redrive_err *err)
{
    struct store *store = s->stores[shard];
    struct edge_page page = {0};
    int64_t own[STORE_PAGE_MAX];
    size_t n_own = 0;
    for (size_t i = 0; i < n; i++)
        if (shard_of_seq(seqs[i]) == shard)
            own[n_own++] = shard_own_seq(seqs[i]);
    if (n_own == 0)
        return 0;
    int rc = store_ops(store)->edges(store, side, own, n_own, &page, err);
    rc = shards_fail_at(s, shard, rc, err);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        struct job_edge edge = page.edges[i];
        edge.parent = shard_seq(edge.parent, shard);
        edge.child = shard_seq(edge.child, shard);
        if (!edge_page_add(ret, &edge))
            rc = err_nomem(err);
    }
    edge_page_release(&page);
    return rc;
}

int shards_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                 struct edge_page *ret, struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    edge_page_release(ret);
    int rc = store_check_count(n, err);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++)
        rc = edges_one(s, i, side, seqs, n, ret, err);
    if (rc < 0)
        edge_page_release(ret);
    edge_page_sort(ret, side);
    return rc;
}

/* ---- Dead letters ---------------------------------------------------------------------------- */

/* Adds a group to those of the same errors, if there are any. */
static void add_group(struct group_page *ret, const struct group_count *group)
{
    for (size_t i = 0; i < ret->n; i++) {
        struct group_count *same = &ret->groups[i];
        if (same->fingerprint != group->fingerprint)
            continue;
        same->count += group->count;
        if (group->first_ms < same->first_ms)
            same->first_ms = group->first_ms;
        if (group->last_ms > same->last_ms) {
            same->last_ms = group->last_ms;
            same->example = group->example;
        }
        return;
    }
    ret->groups[ret->n++] = *group;
}

static int groups_one(struct sharded *s, size_t shard, const struct job_filter *filter,
                      struct group_page *ret, struct redrive_err *err)
{
    struct store *store = s->stores[shard];
    struct job_filter most = *filter;
    /* A group that is small on each shard may be large on all of them together. */
    most.limit = STORE_PAGE_MAX;
    int rc = store_ops(store)->groups(store, &most, ret, err);
    for (size_t i = 0; i < ret->n; i++)
        ret->groups[i].example.status.seq = shard_seq(ret->groups[i].example.status.seq, shard);
    return shards_fail_at(s, shard, rc, err);
}

static int merge_groups(struct group_page *pages, size_t n, size_t limit, struct group_page *ret,
                        struct redrive_err *err)
{
    size_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += pages[i].n;
    ret->groups = arena_array(&ret->arena, total, sizeof *ret->groups);
    if (!ret->groups)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < pages[i].n; k++)
            add_group(ret, &pages[i].groups[k]);
        arena_adopt(&ret->arena, &pages[i].arena);
    }
    if (ret->n > 1)
        qsort(ret->groups, ret->n, sizeof *ret->groups, group_count_order);
    if (ret->n > limit)
        ret->n = limit;
    return 0;
}

int shards_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                  struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    struct group_page pages[SHARDS_MAX] = {0};
    group_page_release(ret);
    int rc = store_check_limit(filter->limit, "groups", err);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++)
        if (filter->tenant.len == 0 || shards_at(s, filter->tenant) == i)
            rc = groups_one(s, i, filter, &pages[i], err);
    if (rc == 0)
        rc = merge_groups(pages, s->urls.n, filter->limit, ret, err);
    for (size_t i = 0; i < s->urls.n; i++)
        group_page_release(&pages[i]);
    return rc;
}

int shards_causes(struct store *store, const struct job_filter *filter,
                  void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                  struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    int rc = 0;
    for (size_t i = 0; i < s->urls.n && rc == 0; i++) {
        struct store *shard = s->stores[i];
        if (filter->tenant.len == 0 || shards_at(s, filter->tenant) == i)
            rc = shards_fail_at(s, i, store_ops(shard)->causes(shard, filter, add, ctx, err), err);
    }
    return rc;
}
