/* turns.c - ready jobs of many partitions: tenants in turn. */
#include <stdlib.h>

#include "base/err.h"
#include "store/page.h"
#include "store/sqlite/private.h"

/* A claim among many partitions. Tenants have their turns one after the other, from the one after
 * the last. When a tenant's turn comes, one look into the index of ready jobs for each of its
 * partitions finds their heads, and the best of these is read and taken. Once the page is full no
 * other tenant is looked at: the cost depends on the number of jobs that are asked for and on the
 * partitions of the tenants that they come from. No cursor on the jobs stays open. */
struct head {
    struct partition *partition;
    struct partition_place place;
    bool has_row;
    int64_t priority;
    int64_t seq;
};

struct turns {
    struct store *store;
    const struct claim_filter *filter;
    size_t limit;
    struct page_maker *maker;
    struct claim_totals *totals;
    bool is_cut; /* the next job has more bytes than are left */

    bool has_left_out; /* a tenant had only jobs of tasks that have reached their limits */
    int64_t turn_ends; /* the tenant before it: the next claim begins with the one left out */

    /* The tenants that have had their first turn: the heads of a tenant side by side. */
    struct head *heads;
    size_t n;
    size_t capacity;

    /* Partitions in the order of turns, from an array or from a statement. */
    struct partition **partitions;
    size_t n_partitions;
    size_t first; /* of the array to have its turn */
    size_t given;
    sqlite3_stmt *st;
    bool has_wrapped;
    int64_t last_tenant;    /* before the first turn */
    struct partition *next; /* has been read: of the tenant whose turn comes next */
    struct partition_place next_place;
};

/* ---- Which partitions are wanted ---------------------------------------------------------------
 */

static int pause_key(struct store *store, struct str tenant, struct str queue, struct str *ret)
{
    buf_reset(&store->scratch);
    buf_add(&store->scratch, &tenant.len, sizeof tenant.len);
    buf_add_str(&store->scratch, tenant);
    int rc = buf_add_str(&store->scratch, queue);
    *ret = buf_str(&store->scratch);
    return rc;
}

int claim_read_pauses(struct store *store, struct redrive_err *err)
{
    if (store->pauses_version == store->shared_version)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_PAUSES, err);
    if (!st)
        return store->last_error;
    uint64_t seed = store->pauses.seed;
    map_release(&store->pauses);
    map_init(&store->pauses, seed);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct str key;
        if (pause_key(store, column_str(st, 0), column_str(st, 1), &key) != 0 ||
            map_put(&store->pauses, key, store) != 0) {
            sqlite3_reset(st);
            return err_nomem(err);
        }
    }
    if (rc == 0)
        store->pauses_version = store->shared_version;
    return rc;
}

bool claim_wants(struct store *store, const struct claim_filter *filter,
                 const struct partition *partition, struct partition_place *ret)
{
    struct str key;
    *ret = (struct partition_place){claim_find(filter->queues, filter->n_queues, partition->queue),
                                    claim_find(filter->tasks, filter->n_tasks, partition->task)};
    if (filter->tenant.len && !str_eq(filter->tenant, partition->tenant))
        return false;
    if ((filter->n_queues && ret->queue == filter->n_queues) ||
        (filter->n_tasks && ret->task == filter->n_tasks))
        return false;
    return store->pauses.count == 0 ||
           pause_key(store, partition->tenant, partition->queue, &key) != 0 ||
           !map_get(&store->pauses, key);
}

/* ---- Whose turn it is ------------------------------------------------------------------------ */

static int by_tenant(const void *left, const void *right)
{
    const struct partition *a = *(struct partition *const *)left,
                           *b = *(struct partition *const *)right;
    return (a->tenant_id > b->tenant_id) - (a->tenant_id < b->tenant_id);
}

static void start_array(struct turns *t)
{
    qsort(t->partitions, t->n_partitions, sizeof(struct partition *), by_tenant);
    while (t->first < t->n_partitions && t->partitions[t->first]->tenant_id <= t->last_tenant)
        t->first++;
}

static int find_tenant(struct store *store, struct str name, int64_t *ret, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_TENANT_FIND, err);
    if (!st)
        return store->last_error;
    bind_key(st, 1, name);
    int rc = sql_step(store, st, err);
    if (rc > 0)
        *ret = sqlite3_column_int64(st, 0);
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static void bind_tenants(struct turns *t, int64_t first, int64_t last)
{
    sqlite3_reset(t->st);
    bind_int(t->st, 1, first);
    bind_int(t->st, 2, last);
}

/* The counts of the partitions say which of them have ready jobs. */
static int start_statement(struct turns *t, struct redrive_err *err)
{
    struct store *store = t->store;
    int64_t only = 0;
    int rc = partitions_flush(store, err);
    t->has_wrapped = t->filter->tenant.len > 0;
    if (rc == 0 && t->has_wrapped)
        rc = find_tenant(store, t->filter->tenant, &only, err);
    if (rc != 0)
        return rc;
    t->st = sql_use(store, STATEMENT_READY_TURNS, err);
    if (!t->st)
        return store->last_error;
    if (t->has_wrapped)
        bind_tenants(t, only, only);
    else
        bind_tenants(t, t->last_tenant + 1, INT64_MAX);
    return 0;
}

/* 1, 0 at the end of the circle, or a negative code. */
static int next_partition(struct turns *t, struct partition **ret, struct redrive_err *err)
{
    if (!t->st) {
        if (t->given == t->n_partitions)
            return 0;
        *ret = t->partitions[(t->first + t->given++) % t->n_partitions];
        return 1;
    }
    int rc = sql_step(t->store, t->st, err);
    if (rc == 0 && !t->has_wrapped) {
        t->has_wrapped = true;
        bind_tenants(t, INT64_MIN, t->last_tenant);
        rc = sql_step(t->store, t->st, err);
    }
    if (rc <= 0)
        return rc;
    rc = partition_numbered(t->store, sqlite3_column_int64(t->st, 0), ret, err);
    return rc == 0 ? 1 : rc;
}

/* Goes on to the next partition that is wanted. */
static int next_wanted(struct turns *t, struct redrive_err *err)
{
    struct partition *partition;
    int rc;
    t->next = NULL;
    while ((rc = next_partition(t, &partition, err)) > 0)
        if (claim_wants(t->store, t->filter, partition, &t->next_place)) {
            t->next = partition;
            return 0;
        }
    return rc;
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* The partition is in the upper bits of the sort keys of ready jobs: see jobs_by_sort_key. */
#define PARTITION_BITS 32

static int read_place(struct store *store, sqlite3_stmt *st, int64_t *ret_priority,
                      int64_t *ret_seq, struct redrive_err *err)
{
    int rc = sql_step(store, st, err);
    if (rc <= 0)
        return rc;
    *ret_seq = sqlite3_column_int64(st, 0);
    *ret_priority = INT32_MAX - (sqlite3_column_int64(st, 1) & UINT32_MAX);
    sqlite3_reset(st);
    return 1;
}

int ready_after(struct store *store, int64_t partition_id, int64_t *priority, int64_t *seq,
                struct redrive_err *err)
{
    const int64_t first = partition_id << PARTITION_BITS;
    const int64_t sort_key =
        *priority == READY_START ? first - 1 : (first | (INT32_MAX - *priority));
    sqlite3_stmt *st;
    if (*priority != READY_START) {
        st = sql_use(store, STATEMENT_READY_SAME, err);
        if (!st)
            return store->last_error;
        bind_int(st, 1, sort_key);
        bind_int(st, 2, *seq);
        int rc = read_place(store, st, priority, seq, err);
        if (rc != 0)
            return rc;
    }
    st = sql_use(store, STATEMENT_READY_BELOW, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, sort_key);
    bind_int(st, 2, first | UINT32_MAX);
    return read_place(store, st, priority, seq, err);
}

static int advance(struct turns *t, struct head *head, struct redrive_err *err)
{
    int rc = ready_after(t->store, head->partition->id, &head->priority, &head->seq, err);
    head->has_row = rc > 0;
    return rc < 0 ? rc : 0;
}

static int add_head(struct turns *t, struct redrive_err *err)
{
    if (t->n == t->capacity) {
        size_t capacity = t->capacity ? t->capacity * 2 : 16;
        struct head *grown = realloc(t->heads, capacity * sizeof *grown);
        if (!grown)
            return err_nomem(err);
        t->heads = grown;
        t->capacity = capacity;
    }
    struct head *head = &t->heads[t->n];
    *head = (struct head){.partition = t->next, .place = t->next_place, .priority = READY_START};
    int rc = advance(t, head, err);
    t->n += rc == 0 && head->has_row;
    return rc;
}

/* Adds the heads of the next tenant that has any; none at the end of the circle. */
static int add_tenant(struct turns *t, struct redrive_err *err)
{
    const size_t before = t->n;
    int rc = 0;
    while (t->next && t->n == before && rc == 0) {
        const int64_t tenant_id = t->next->tenant_id;
        while (t->next && t->next->tenant_id == tenant_id && rc == 0) {
            rc = add_head(t, err);
            if (rc == 0)
                rc = next_wanted(t, err);
        }
    }
    return rc;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

static bool is_over(const struct turns *t)
{
    return t->maker->page->n >= t->limit || t->is_cut;
}

static bool precedes(const struct head *a, const struct head *b)
{
    if (a->place.queue != b->place.queue)
        return a->place.queue < b->place.queue;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->seq < b->seq;
}

static bool may_go(const struct turns *t, const struct head *head)
{
    return head->has_row && !claim_totals_is_full(t->totals, head->place.task);
}

/* A job whose row is damaged is left out, so that it does not stop the others. */
static int take(struct turns *t, const struct head *head, struct redrive_err *err)
{
    struct job_page *page = t->maker->page;
    int rc = page_add_numbered(t->maker, head->seq, err);
    if (rc != 0)
        return sql_leave_out(t->store, page, rc, err);
    const struct job *job = &page->jobs[page->n - 1];
    if (job->status.state != REDRIVE_STATE_QUEUED) {
        page->n--;
        return 0;
    }
    t->is_cut = !claim_totals_fits(t->totals, job->spec.payload.len);
    if (t->is_cut)
        page->n--;
    else
        claim_totals_add(t->totals, head->place.task, job->spec.payload.len);
    return 0;
}

/* The next claim begins with the first tenant that was left out because its tasks had reached their
 * limits: otherwise it could be left out every time. */
static void leave_out(struct turns *t)
{
    if (t->has_left_out)
        return;
    t->has_left_out = true;
    t->turn_ends = t->store->last_tenant;
}

/* The turn of the tenant whose heads start at `i`; *ret_end is where the next one's do. 1: one was
 * taken or passed over; 0: the tenant has none left that may go. */
static int turn(struct turns *t, size_t i, size_t *ret_end, struct redrive_err *err)
{
    const int64_t tenant_id = t->heads[i].partition->tenant_id;
    struct head *best = NULL;
    bool has_any = false;
    for (; i < t->n && t->heads[i].partition->tenant_id == tenant_id; i++) {
        has_any |= t->heads[i].has_row;
        if (may_go(t, &t->heads[i]) && (!best || precedes(&t->heads[i], best)))
            best = &t->heads[i];
    }
    *ret_end = i;
    if (!best && has_any)
        leave_out(t);
    if (!best)
        return 0;
    int rc = take(t, best, err);
    if (rc != 0 || t->is_cut)
        return rc;
    if (!t->filter->tenant.len)
        t->store->last_tenant = tenant_id;
    rc = advance(t, best, err);
    return rc == 0 ? 1 : rc;
}

static bool is_any_left(const struct turns *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (may_go(t, &t->heads[i]))
            return true;
    return false;
}

/* The first turn of every tenant. At its end the page is full, or all tenants are known. */
static int first_round(struct turns *t, struct redrive_err *err)
{
    int rc = next_wanted(t, err);
    while (rc == 0) {
        const size_t first = t->n;
        size_t end;
        if (is_over(t) && is_any_left(t))
            return 0;
        rc = add_tenant(t, err);
        if (rc != 0 || t->n == first || is_over(t))
            return rc;
        rc = turn(t, first, &end, err);
        rc = rc < 0 ? rc : 0;
    }
    return rc;
}

static int further_rounds(struct turns *t, struct redrive_err *err)
{
    bool moved = true;
    while (moved && !is_over(t)) {
        moved = false;
        for (size_t i = 0; i < t->n && !is_over(t);) {
            int rc = turn(t, i, &i, err);
            if (rc < 0)
                return rc;
            moved |= rc > 0;
        }
    }
    return 0;
}

int turns_take(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
               struct partition **partitions, size_t n_partitions, struct claim_totals *totals,
               struct redrive_err *err)
{
    struct turns t = {
        .store = maker->store,
        .filter = filter,
        .limit = limit,
        .maker = maker,
        .totals = totals,
        .partitions = partitions,
        .n_partitions = n_partitions,
        .last_tenant = maker->store->last_tenant,
    };
    int rc = 0;
    if (partitions)
        start_array(&t);
    else
        rc = start_statement(&t, err);
    if (rc == 0)
        rc = first_round(&t, err);
    if (rc == 0)
        rc = further_rounds(&t, err);
    if (rc == 0)
        maker->page->more = is_any_left(&t);
    if (t.has_left_out)
        t.store->last_tenant = t.turn_ends;
    if (t.st)
        sqlite3_reset(t.st);
    free(t.heads);
    return rc;
}
