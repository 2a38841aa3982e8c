/* figures.c - counts, shared rows, counters and facts over all shards. */
#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/shards/tenants.h"

/* How long a wait is at the most: no shard tells a handle of all shards that it has changed. */
#define WAIT_MAX_MS 50

/* Whether a shard is asked about a tenant. */
static bool is_asked(struct sharded *s, size_t shard, struct str tenant)
{
    return tenant.len == 0 || shards_at(s, tenant) == shard;
}

/* Adds the `n` rows of a shard's page, and its memory, to an array of *n_all rows. */
static bool add_rows(struct arena *arena, void **all, size_t *n_all, const void *rows, size_t n,
                     size_t size, struct arena *from)
{
    char *grown = arena_array(arena, *n_all + n, size);
    if (!grown)
        return false;
    if (*n_all > 0)
        memcpy(grown, *all, *n_all * size);
    if (n > 0)
        memcpy(grown + *n_all * size, rows, n * size);
    *all = grown;
    *n_all += n;
    arena_adopt(arena, from);
    return true;
}

static void sort_rows(void *rows, size_t n, size_t size, int (*order)(const void *, const void *))
{
    if (n > 1)
        qsort(rows, n, size, order);
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static void add_count(struct job_count *to, const struct job_count *from)
{
    to->jobs += from->jobs;
    to->used += from->used;
    for (size_t i = 0; i < REDRIVE_STATE_COUNT; i++)
        to->by_state[i] += from->by_state[i];
    to->oldest_ready_ms = earlier(to->oldest_ready_ms, from->oldest_ready_ms);
    to->next_due_ms = earlier(to->next_due_ms, from->next_due_ms);
    to->paused |= from->paused;
}

static void merge_counts(struct count_page *page)
{
    size_t n = 0;
    sort_rows(page->counts, page->n, sizeof *page->counts, job_count_order);
    for (size_t i = 0; i < page->n; i++) {
        if (n > 0 && job_count_order(&page->counts[n - 1], &page->counts[i]) == 0)
            add_count(&page->counts[n - 1], &page->counts[i]);
        else
            page->counts[n++] = page->counts[i];
    }
    page->n = n;
}

int shards_counts(struct store *store, enum count_kind kind, struct str tenant,
                  struct count_page *ret, struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    int rc = 0;
    count_page_release(ret);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++) {
        struct store *shard = s->stores[i];
        struct count_page page = {0};
        if (!is_asked(s, i, tenant))
            continue;
        rc = shards_fail_at(s, i, store_ops(shard)->counts(shard, kind, tenant, &page, err), err);
        if (rc == 0 && !add_rows(&ret->arena, (void **)&ret->counts, &ret->n, page.counts, page.n,
                                 sizeof *page.counts, &page.arena))
            rc = err_nomem(err);
        count_page_release(&page);
    }
    if (rc < 0)
        count_page_release(ret);
    else
        merge_counts(ret);
    return rc;
}

int shards_counts_around(struct store *store, enum count_kind kind, struct str tenant,
                         struct count_page *ret, struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    size_t at;
    int rc = shards_reach(s, tenant, &at, err);
    if (rc < 0)
        return rc;
    struct store *shard = s->stores[at];
    rc = store_ops(shard)->counts(shard, kind, (struct str){0}, ret, err);
    return shards_fail_at(s, at, rc, err);
}

/* ---- What processes share -------------------------------------------------------------------- */

/* Rows that are the tenant's alone are on its shard. Definitions of tasks are on every shard, all
 * alike. The state of an alert is on every shard, and is that shard's; so is the row of a worker.
 */
static bool is_of_tenant(enum shared_kind kind)
{
    return kind != SHARED_TASK && kind != SHARED_ALERT && kind != SHARED_WORKER;
}

static void drop_copies(struct shared_page *page)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        if (n == 0 || shared_row_order(&page->rows[n - 1], &page->rows[i]) != 0)
            page->rows[n++] = page->rows[i];
    page->n = n;
}

int shards_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                       struct shared_page *ret, struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    int rc = 0;
    shared_page_release(ret);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++) {
        struct store *shard = s->stores[i];
        struct shared_page page = {0};
        if (is_of_tenant(kind) && !is_asked(s, i, tenant))
            continue;
        rc = shards_fail_at(s, i, store_ops(shard)->shared_list(shard, kind, tenant, &page, err),
                            err);
        if (rc == 0 && !add_rows(&ret->arena, (void **)&ret->rows, &ret->n, page.rows, page.n,
                                 sizeof *page.rows, &page.arena))
            rc = err_nomem(err);
        shared_page_release(&page);
    }
    if (rc < 0) {
        shared_page_release(ret);
        return rc;
    }
    sort_rows(ret->rows, ret->n, sizeof *ret->rows, shared_row_order);
    if (kind == SHARED_TASK)
        drop_copies(ret);
    return 0;
}

int shards_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                           size_t limit, struct remembered_key_page *ret, struct redrive_err *err)
{
    (void)store, (void)after_tenant, (void)after_key, (void)limit, (void)ret;
    return err_set(err, REDRIVE_E_STATE, "not with shards yet: copy each shard by itself");
}

int shards_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                     bool *ret, struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    const size_t at = shards_at(s, tenant);
    struct store *shard = s->stores[at];
    return shards_fail_at(s, at, store_ops(shard)->keys_held(shard, tenant, keys, n, ret, err),
                          err);
}

/* ---- Counters -------------------------------------------------------------------------------- */

static void merge_counters(struct counter_page *page)
{
    size_t n = 0;
    sort_rows(page->counters, page->n, sizeof *page->counters, counter_order);
    for (size_t i = 0; i < page->n; i++) {
        if (n > 0 && counter_order(&page->counters[n - 1], &page->counters[i]) == 0)
            page->counters[n - 1].value += page->counters[i].value;
        else
            page->counters[n++] = page->counters[i];
    }
    page->n = n;
}

/* What was counted before a tenant was moved stays where it was counted. */
int shards_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                         struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    int rc = 0;
    counter_page_release(ret);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++) {
        struct store *shard = s->stores[i];
        struct counter_page page = {0};
        if (!is_asked(s, i, tenant) && !shards_was_moved(s, tenant))
            continue;
        rc = shards_fail_at(s, i, store_ops(shard)->counters_list(shard, tenant, &page, err), err);
        if (rc == 0 && !add_rows(&ret->arena, (void **)&ret->counters, &ret->n, page.counters,
                                 page.n, sizeof *page.counters, &page.arena))
            rc = err_nomem(err);
        counter_page_release(&page);
    }
    if (rc < 0)
        counter_page_release(ret);
    else
        merge_counters(ret);
    return rc;
}

/* ---- Care ------------------------------------------------------------------------------------ */

/* Sizes are sums; texts are those of the first shard that has any. */
static void add_facts(struct store_facts *all, const struct store_facts *one)
{
    if (one->version_found < all->version_found)
        all->version_found = one->version_found;
    all->bytes += one->bytes;
    all->log_bytes += one->log_bytes;
    all->loss = all->loss ? all->loss : one->loss;
    all->loss_hint = all->loss_hint ? all->loss_hint : one->loss_hint;
    all->library_hint = all->library_hint ? all->library_hint : one->library_hint;
}

int shards_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    int rc = 0;
    *ret = (struct store_facts){0};
    for (size_t i = 0; i < s->urls.n && rc == 0; i++) {
        struct store_facts one = {0};
        rc = shards_fail_at(s, i, store_ops(s->stores[i])->facts(s->stores[i], &one, err), err);
        if (i == 0)
            *ret = one;
        else
            add_facts(ret, &one);
    }
    ret->path = NULL;
    return rc;
}

int shards_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                  struct redrive_err *err)
{
    struct sharded *s = sharded_of(store);
    int rc = 0;
    for (size_t i = 0; i < s->urls.n && rc == 0; i++)
        rc = shards_fail_at(s, i, store_ops(s->stores[i])->verify(s->stores[i], progress, ctx, err),
                            err);
    return rc;
}

int shards_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                struct redrive_err *err)
{
    (void)store, (void)err;
    if (ret_notification)
        *ret_notification = 0;
    (void)poll(NULL, 0, (int)(timeout_ms < WAIT_MAX_MS ? timeout_ms : WAIT_MAX_MS));
    return 0;
}
