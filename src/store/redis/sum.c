/* sum.c - how many jobs there are, by queue, partition and gate. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"

/* How many partitions are asked for at a time. */
#define PARTITIONS_AT_ONCE ((uint32_t)200)

/* What the server says of a partition that has jobs. */
struct partition_sum {
    const struct partition *partition;
    uint64_t by_state[REDRIVE_STATE_COUNT];
    int64_t oldest_seq; /* of the queued ones; 0: there is none */
    int64_t oldest_created_ms;
    int64_t next_due_ms;
};

static int read_sum(struct store *store, const redisReply *reply, size_t at,
                    struct partition_sum *ret, struct redrive_err *err)
{
    struct row row;
    *ret = (struct partition_sum){0};
    int rc = rd_partition_numbered(store, (uint32_t)rd_reply_int(reply, at), &ret->partition, err);
    const struct str counts = rd_reply_str(reply, at + 1);
    for (const char *p = counts.ptr; rc == 0 && p < counts.ptr + counts.len;) {
        char *end;
        const unsigned long state = strtoul(p, &end, 10);
        const unsigned long long n = strtoull(end, &end, 10);
        if (state < REDRIVE_STATE_COUNT)
            ret->by_state[state] = n;
        p = end + 1;
    }
    const struct str oldest = rd_reply_str(reply, at + 3), first = rd_reply_str(reply, at + 4);
    if (rc == 0 && oldest.len > 0) {
        ret->oldest_seq = rd_reply_int(reply, at + 2);
        rc = rd_row_unpack(store, ret->oldest_seq, oldest, &row, err);
        ret->oldest_created_ms = row.job.status.created_ms;
    }
    if (rc == 0 && first.len > 0) {
        rc = rd_row_unpack(store, 0, first, &row, err);
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
    *ret = calloc((size_t)store->n_partitions + 1, sizeof **ret);
    if (!*ret)
        return err_nomem(err);
    for (uint32_t i = 1; rc == 0 && i <= store->n_partitions;) {
        redisReply *reply = NULL;
        uint32_t asked = 0;
        rd_ask_read(store, "sums");
        for (; i <= store->n_partitions && asked < PARTITIONS_AT_ONCE; i++)
            if (store->partitions[i] &&
                (tenant.len == 0 || str_eq(store->partitions[i]->tenant, tenant))) {
                rd_ask_int(store, i);
                asked++;
            }
        if (asked == 0)
            break;
        rc = rd_link_read(store, &reply, err);
        for (size_t at = 0; rc == 0 && at < reply->elements; at += 5) {
            rc = read_sum(store, reply, at, &(*ret)[*ret_n], err);
            *ret_n += rc == 0;
        }
        if (reply)
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

/* The partitions of a queue stand side by side. */
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
    struct shared_page pauses = {0};
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
    shared_page_release(&pauses);
    free(sums);
    return rc;
}

/* ---- Gates ----------------------------------------------------------------------------------- */

struct gate_reader {
    struct str tenant;
    struct count_page *page;
    size_t capacity;
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
    if (r->page->n == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16;
        struct job_count *grown = arena_array(arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (r->page->n > 0)
            memcpy(grown, r->page->counts, r->page->n * sizeof *grown);
        r->page->counts = grown;
        r->capacity = capacity;
    }
    r->page->counts[r->page->n++] = gate;
    return 0;
}

static int read_parked(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    const struct job_count count = {.jobs = value.len > 0 ? strtoull(value.ptr, NULL, 10) : 0};
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

/* The field of a hash may be told twice. */
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
