/* sum.c - how many jobs there are: counts, groups and causes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many partitions are asked for at a time. */
#define PARTITIONS_AT_ONCE ((uint32_t)200)

/* What the server returns of a partition that has jobs. */
struct partition_sum {
    const struct partition *partition;
    uint64_t by_state[REDRIVE_STATE_COUNT];
    int64_t oldest_seq; /* of the queued ones; 0: there is none */
    int64_t oldest_created_ms;
    int64_t next_due_ms;
};

/* A row that cannot be read is empty, without any time. */
static int unpack_readable(struct store *store, int64_t seq, struct str bytes, struct row *ret,
                           struct redrive_err *err)
{
    int rc = rd_row_unpack(store, seq, bytes, ret, err);
    if (rc != REDRIVE_E_CORRUPT)
        return rc;
    if (err)
        *err = (struct redrive_err){0};
    *ret = (struct row){0};
    return 0;
}

static int read_sum(struct store *store, const redisReply *reply, size_t at,
                    struct partition_sum *ret, struct redrive_err *err)
{
    struct row row;
    *ret = (struct partition_sum){0};
    int rc = rd_partition_numbered(store, (uint32_t)rd_reply_int(reply, at), &ret->partition, err);
    const struct str counts = rd_reply_str(reply, at + 1);
    for (const char *p = counts.ptr; p && rc == 0 && p < counts.ptr + counts.len;) {
        const char *end;
        const int64_t state = rd_number(p, &end), n = rd_number(end, &end);
        if (state >= 0 && state < REDRIVE_STATE_COUNT)
            ret->by_state[state] = (uint64_t)n;
        p = end + 1;
    }
    const struct str oldest = rd_reply_str(reply, at + 3), first = rd_reply_str(reply, at + 4);
    if (rc == 0 && oldest.len > 0) {
        ret->oldest_seq = rd_reply_int(reply, at + 2);
        rc = unpack_readable(store, ret->oldest_seq, oldest, &row, err);
        ret->oldest_seq = row.job.status.seq;
        ret->oldest_created_ms = row.job.status.created_ms;
    }
    if (rc == 0 && first.len > 0) {
        rc = unpack_readable(store, 0, first, &row, err);
        ret->next_due_ms = row.job.status.process_after_ms;
    }
    return rc;
}

/* The sums of all partitions of a tenant, or of all, that have jobs. The caller frees them. */
static int read_sums(struct store *store, struct str tenant, struct partition_sum **ret,
                     size_t *ret_n, struct redrive_err *err)
{
    *ret = NULL;
    *ret_n = 0;
    int rc = rd_partitions_refresh(store, err);
    if (rc != 0)
        return rc;
    const uint32_t n = store->n_partitions;
    *ret = calloc((size_t)n + 1, sizeof **ret);
    if (!*ret)
        return err_nomem(err);
    for (uint32_t i = 1; rc == 0 && i <= n;) {
        redisReply *reply = NULL;
        uint32_t asked = 0;
        rd_ask_read(store, "sums");
        for (; i <= n && asked < PARTITIONS_AT_ONCE; i++)
            if (store->partitions[i] &&
                (tenant.len == 0 || str_eq(store->partitions[i]->tenant, tenant))) {
                rd_ask_int(store, i);
                asked++;
            }
        if (asked == 0)
            break;
        rc = rd_link_read(store, &reply, err);
        const size_t n_told = rc == 0 ? reply->elements : 0;
        for (size_t at = 0; rc == 0 && at < n_told && at < 5 * (size_t)asked; at += 5) {
            rc = read_sum(store, reply, at, &(*ret)[*ret_n], err);
            *ret_n += rc == 0;
        }
        freeReplyObject(reply);
    }
    return rc;
}

/* ---- Queues and partitions ------------------------------------------------------------------- */

static int partition_order(const void *left, const void *right)
{
    const struct partition *a = ((const struct partition_sum *)left)->partition;
    const struct partition *b = ((const struct partition_sum *)right)->partition;
    int order = str_compare(a->tenant, b->tenant);
    if (order == 0)
        order = str_compare(a->queue, b->queue);
    return order != 0 ? order : str_compare(a->task, b->task);
}

static struct job_count *add_count(struct count_page *page, struct str tenant, struct str queue,
                                   struct str task)
{
    struct job_count *count = &page->counts[page->n++];
    count->tenant = rd_page_dup(&page->arena, tenant);
    count->queue = rd_page_dup(&page->arena, queue);
    count->task = rd_page_dup(&page->arena, task);
    return count;
}

static void add_states(struct job_count *count, const struct partition_sum *sum)
{
    for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
        count->by_state[s] += sum->by_state[s];
}

static void add_partitions(struct count_page *page, const struct partition_sum *sums, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct partition *partition = sums[i].partition;
        add_states(add_count(page, partition->tenant, partition->queue, partition->task), &sums[i]);
    }
}

/* The partitions of a queue are next to each other. */
static void add_queues(struct count_page *page, const struct partition_sum *sums, size_t n)
{
    int64_t oldest_seq = 0;
    for (size_t i = 0; i < n; i++) {
        const struct partition_sum *sum = &sums[i];
        const struct partition *partition = sum->partition;
        if (i == 0 || !str_eq(sums[i - 1].partition->queue, partition->queue) ||
            !str_eq(sums[i - 1].partition->tenant, partition->tenant)) {
            (void)add_count(page, partition->tenant, partition->queue, (struct str){0});
            oldest_seq = 0;
        }
        struct job_count *q = &page->counts[page->n - 1];
        add_states(q, sum);
        if (sum->oldest_seq != 0 && (oldest_seq == 0 || sum->oldest_seq < oldest_seq)) {
            oldest_seq = sum->oldest_seq;
            q->oldest_ready_ms = sum->oldest_created_ms;
        }
        if (sum->next_due_ms != 0 && (q->next_due_ms == 0 || sum->next_due_ms < q->next_due_ms))
            q->next_due_ms = sum->next_due_ms;
    }
}

static void add_pauses(struct count_page *page, const struct shared_page *pauses)
{
    for (size_t i = 0; i < pauses->n; i++) {
        const struct shared_row *row = &pauses->rows[i];
        size_t k = 0;
        while (k < page->n && (!str_eq(page->counts[k].queue, row->key) ||
                               !str_eq(page->counts[k].tenant, row->tenant)))
            k++;
        if (k == page->n)
            (void)add_count(page, row->tenant, row->key, (struct str){0});
        page->counts[k].paused = true;
    }
}

static int count_partitions(struct store *store, enum count_kind kind, struct str tenant,
                            struct count_page *page, struct redrive_err *err)
{
    struct partition_sum *sums;
    RELEASED_BY(shared_page_release) struct shared_page pauses = {0};
    size_t n;
    int rc = read_sums(store, tenant, &sums, &n, err);
    if (rc == 0 && kind == COUNT_QUEUES)
        rc = redis_shared_list(store, SHARED_PAUSE, tenant, &pauses, err);
    if (rc == 0 && n > 0)
        qsort(sums, n, sizeof *sums, partition_order);
    page->counts = arena_array(&page->arena, n + pauses.n + 1, sizeof *page->counts);
    if (rc == 0 && page->counts) {
        (kind == COUNT_QUEUES ? add_queues : add_partitions)(page, sums, n);
        add_pauses(page, &pauses);
    }
    free(sums);
    return rc;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

struct gate_reader {
    struct str tenant;
    struct count_page *page;
};

/* Adds a count if it is of the reader's tenant; `name` has tenant and gate. */
static int add_gate(struct gate_reader *r, struct str name, struct job_count gate,
                    struct redrive_err *err)
{
    struct arena *arena = &r->page->arena;
    if (!rd_take_part(&name, arena, &gate.tenant) || !rd_take_part(&name, arena, &gate.gate))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "the count of a gate is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, gate.tenant))
        return 0;
    struct job_count *grown = page_grow(arena, r->page->counts, r->page->n, sizeof *grown);
    if (!grown)
        return err_nomem(err);
    r->page->counts = grown;
    r->page->counts[r->page->n++] = gate;
    return 0;
}

static int read_parked(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    const struct job_count count = {.jobs =
                                        value.len > 0 ? (uint64_t)rd_number(value.ptr, NULL) : 0};
    return add_gate(ctx, field, count, err);
}

static int read_running(struct gate_reader *r, const redisReply *reply, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i + 2 < reply->elements; i += 3) {
        const struct job_count count = {.jobs = (uint64_t)rd_reply_int(reply, i + 1),
                                        .used = (uint64_t)rd_reply_int(reply, i + 2)};
        rc = add_gate(r, rd_reply_str(reply, i), count, err);
    }
    return rc;
}

/* One question, so that jobs and slots are as of one moment. */
static int count_running(struct store *store, struct gate_reader *r, struct redrive_err *err)
{
    redisReply *reply = NULL;
    rd_ask_read(store, "running");
    int rc = rd_link_read(store, &reply, err);
    if (rc == 0)
        rc = read_running(r, reply, err);
    freeReplyObject(reply);
    return rc;
}

/* A scan of a hash may give the same field twice. */
static void drop_repeated(struct count_page *page)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++)
        if (n == 0 || job_count_order(&page->counts[n - 1], &page->counts[i]) != 0)
            page->counts[n++] = page->counts[i];
    page->n = n;
}

int redis_counts(struct store *store, enum count_kind kind, struct str tenant,
                 struct count_page *ret, struct redrive_err *err)
{
    count_page_release(ret);
    struct gate_reader reader = {.tenant = tenant, .page = ret};
    int rc = kind == COUNT_PARKED    ? rd_scan_hash(store, "l", read_parked, &reader, err)
             : kind == COUNT_RUNNING ? count_running(store, &reader, err)
                                     : count_partitions(store, kind, tenant, ret, err);
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc != 0) {
        count_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->counts, ret->n, sizeof *ret->counts, job_count_order);
    drop_repeated(ret);
    return 0;
}

int rd_walk_tenant(struct store *store, const struct job_filter *f, struct walk *walk,
                   struct redrive_err *err)
{
    const struct partition *partition = map_get(&store->partitions_by_tenant, f->tenant);
    struct count_page page = {0};
    if (f->tenant.len == 0 || !partition)
        return 0;
    /* The next call may forget the partition, if the server has another store by now. */
    const uint32_t tenant_id = partition->tenant_id;
    int rc = redis_counts(store, COUNT_PARTITIONS, f->tenant, &page, err);
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
            const int64_t n = (int64_t)page.counts[i].by_state[state];
            walk->n_own += n;
            walk->n_own_in_states += walk->states >> state & 1 ? n : 0;
        }
    count_page_release(&page);
    (void)snprintf(walk->own, sizeof walk->own, "y:%" PRIu32, tenant_id);
    return rc;
}

/* ---- Groups and causes ----------------------------------------------------------------------- */

/* How many jobs are asked for at a time. */
#define JOBS_AT_ONCE ((size_t)1000)

/* Groups that are being counted: of an example only its seq is known. */
struct groups {
    struct group_count **all;
    size_t n;
    size_t capacity;
    struct map by_fingerprint;
    struct arena arena; /* theirs */
};

static struct group_count *group_of(struct groups *g, uint64_t fingerprint)
{
    const struct str key = {(const char *)(const void *)&fingerprint, sizeof fingerprint};
    struct group_count *group = map_get(&g->by_fingerprint, key);
    if (group)
        return group;
    if (g->n == g->capacity) {
        const size_t capacity = g->capacity ? 2 * g->capacity : 64;
        struct group_count **grown = realloc(g->all, capacity * sizeof(struct group_count *));
        if (!grown)
            return NULL;
        g->all = grown;
        g->capacity = capacity;
    }
    group = arena_alloc(&g->arena, sizeof *group);
    if (!group || map_put(&g->by_fingerprint, key, group) != 0)
        return NULL;
    *group = (struct group_count){.fingerprint = fingerprint, .first_ms = INT64_MAX};
    g->all[g->n++] = group;
    return group;
}

/* Jobs come by seq, so that the later of two of the same time is the higher. */
static int group_row(void *ctx, const struct row *row, struct redrive_err *err)
{
    struct groups *g = ctx;
    struct group_count *group = group_of(g, row->job.status.fingerprint);
    const int64_t ended_ms = row->job.status.finished_ms;
    if (!group)
        return err_nomem(err);
    group->count++;
    if (ended_ms < group->first_ms)
        group->first_ms = ended_ms;
    if (group->count == 1 || ended_ms >= group->last_ms) {
        group->last_ms = ended_ms;
        group->example.status.seq = row->job.status.seq;
    }
    return 0;
}

/* Calls `each` with the row of every job that matches, and has the flags, by seq. */
static int walk_rows(struct store *store, const struct job_filter *filter, unsigned flags,
                     int (*each)(void *ctx, const struct row *row, struct redrive_err *err),
                     void *ctx, struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf partitions = BUF_MAX(1 << 24);
    bool none = false;
    int rc = rd_walk_partitions(store, filter, &partitions, &none, err);
    struct walk walk = {
        .states = filter->states ? filter->states & STATES_ALL : STATES_ALL,
        .flags = flags,
        .partitions = buf_str(&partitions),
        .is_over = none,
    };
    if (rc == 0 && !none)
        rc = rd_walk_tenant(store, filter, &walk, err);
    if (rc == 0 && !none)
        rc = rd_walk_plan(store, &walk, err);
    while (rc == 0 && !walk.is_over) {
        redisReply *reply = NULL;
        rc = rd_walk_read(store, &walk, JOBS_AT_ONCE, false, &reply, err);
        for (size_t at = 1; rc == 0 && at < reply->elements; at += 2) {
            struct row row;
            rc = unpack_readable(store, rd_reply_int(reply, at), rd_reply_str(reply, at + 1), &row,
                                 err);
            if (rc == 0 && row.partition && job_filter_matches(filter, &row.job))
                rc = each(ctx, &row, err);
        }
        freeReplyObject(reply);
    }
    rd_walk_release(&walk);
    return rc;
}

static int largest_first(const void *left, const void *right)
{
    return group_count_order(*(struct group_count *const *)left,
                             *(struct group_count *const *)right);
}

/* Read at a time, with their payloads, of which nothing is kept. */
#define EXAMPLES_STEP 16

static int add_example(struct page_maker *maker, const struct row *row,
                       const struct str big[BIG_COUNT], struct redrive_err *err)
{
    struct row bare = *row;
    bare.big &= ~(1u << BIG_PAYLOAD | 1u << BIG_RESULT);
    bare.job.spec.payload = bare.job.status.result = (struct str){0};
    return rd_page_add(maker, &bare, big, err);
}

/* Reads the examples; a group whose example has gone meanwhile is left out. */
static int read_examples(struct store *store, const struct groups *g, size_t limit,
                         struct group_page *ret, struct redrive_err *err)
{
    const size_t n = g->n < limit ? g->n : limit;
    int64_t seqs[STORE_PAGE_MAX];
    struct job_page jobs = {0};
    struct page_maker maker;
    for (size_t i = 0; i < n; i++)
        seqs[i] = g->all[i]->example.status.seq;
    rd_page_start(&maker, store, &jobs);
    int rc = 0;
    for (size_t at = 0; rc == 0 && at < n; at += EXAMPLES_STEP)
        rc = rd_page_add_seqs(&maker, seqs + at, n - at < EXAMPLES_STEP ? n - at : EXAMPLES_STEP,
                              add_example, err);
    if (rc != 0) {
        job_page_release(&jobs);
        return rc;
    }
    /* The strings of the examples live in the arena of their page, which becomes the groups'. */
    ret->groups = arena_array(&jobs.arena, jobs.n + 1, sizeof *ret->groups);
    ret->arena = jobs.arena;
    if (!ret->groups)
        return err_nomem(err);
    for (size_t i = 0; i < n && ret->n < jobs.n; i++)
        if (jobs.jobs[ret->n].status.seq == seqs[i]) {
            ret->groups[ret->n] = *g->all[i];
            ret->groups[ret->n].example = jobs.jobs[ret->n];
            ret->n++;
        }
    return 0;
}

int redis_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                 struct redrive_err *err)
{
    struct groups g = {0};
    group_page_release(ret);
    int rc = store_check_limit(filter->limit, "groups", err);
    if (rc != 0)
        return rc;
    map_init(&g.by_fingerprint, rng_system_seed());
    rc = walk_rows(store, filter, WALK_FINGERPRINT, group_row, &g, err);
    if (rc == 0) {
        if (g.n > 0)
            qsort(g.all, g.n, sizeof(struct group_count *), largest_first);
        rc = read_examples(store, &g, filter->limit, ret, err);
    }
    map_release(&g.by_fingerprint);
    arena_release(&g.arena);
    free(g.all);
    if (rc != 0)
        group_page_release(ret);
    return rc;
}

/* ---- Causes ---------------------------------------------------------------------------------- */

struct cause_reader {
    void (*add)(void *ctx, const struct cause_count *cause);
    void *ctx;
};

static int tell_cause(void *ctx, const struct row *row, struct redrive_err *err)
{
    const struct cause_reader *reader = ctx;
    const struct job_status *s = &row->job.status;
    const struct cause_count cause = {row->job.spec.task, s->reason, s->error.class_, s->error.type,
                                      1};
    (void)err;
    reader->add(reader->ctx, &cause);
    return 0;
}

int redis_causes(struct store *store, const struct job_filter *filter,
                 void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                 struct redrive_err *err)
{
    struct cause_reader reader = {add, ctx};
    return walk_rows(store, filter, 0, tell_cause, &reader, err);
}
