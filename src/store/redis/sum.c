/* sum.c - how many jobs there are, by queue, line and lane. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* How many lines are asked for at a time. */
#define LINES_AT_ONCE ((uint32_t)200)

/* What the server says of a line that has jobs. */
struct line_sum {
    const struct line *line;
    uint64_t by_state[REDRIVE_STATE_COUNT];
    int64_t oldest_seq; /* of the queued ones; 0: there is none */
    int64_t oldest_created_ms;
    int64_t next_due_ms;
};

static int read_sum(struct store *store, const redisReply *reply, size_t at, struct line_sum *ret,
                    struct redrive_err *err)
{
    struct row row;
    *ret = (struct line_sum){0};
    int rc = rd_line_numbered(store, (uint32_t)rd_reply_int(reply, at), &ret->line, err);
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

/* The sums of all lines of a tenant, or of all, that have jobs. The caller frees them. */
static int read_sums(struct store *store, struct str tenant, struct line_sum **ret, size_t *ret_n,
                     struct redrive_err *err)
{
    *ret = NULL;
    *ret_n = 0;
    int rc = rd_lines_refresh(store, err);
    if (rc != 0)
        return rc;
    *ret = calloc((size_t)store->n_lines + 1, sizeof **ret);
    if (!*ret)
        return err_nomem(err);
    for (uint32_t i = 1; rc == 0 && i <= store->n_lines;) {
        redisReply *reply = NULL;
        uint32_t asked = 0;
        rd_ask_read(store, "sums");
        for (; i <= store->n_lines && asked < LINES_AT_ONCE; i++)
            if (store->lines[i] && (tenant.len == 0 || str_eq(store->lines[i]->tenant, tenant))) {
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

static int compare(struct str a, struct str b)
{
    const size_t shorter = a.len < b.len ? a.len : b.len;
    const int order = shorter > 0 ? memcmp(a.ptr, b.ptr, shorter) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* ---- Queues -------------------------------------------------------------------------------------
 */

static int queue_order(const void *left, const void *right)
{
    const struct queue_count *a = left, *b = right;
    const int order = compare(a->tenant, b->tenant);
    return order != 0 ? order : compare(a->queue, b->queue);
}

/* The count of a queue, which is made when it is not there yet; the page has room. */
static struct queue_count *queue_of(struct queue_page *page, struct str tenant, struct str queue)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->queues[i].queue, queue) && str_eq(page->queues[i].tenant, tenant))
            return &page->queues[i];
    struct queue_count *q = &page->queues[page->n++];
    q->tenant = rd_page_dup(&page->arena, tenant);
    q->queue = rd_page_dup(&page->arena, queue);
    return q;
}

static int sum_order(const void *left, const void *right)
{
    const struct line *a = ((const struct line_sum *)left)->line;
    const struct line *b = ((const struct line_sum *)right)->line;
    int order = compare(a->tenant, b->tenant);
    if (order == 0)
        order = compare(a->queue, b->queue);
    return order != 0 ? order : compare(a->task, b->task);
}

/* The lines of a queue stand side by side. */
static void add_sums(struct queue_page *page, const struct line_sum *sums, size_t n)
{
    int64_t oldest_seq = 0;
    for (size_t i = 0; i < n; i++) {
        const struct line_sum *sum = &sums[i];
        struct queue_count *q = page->n > 0 ? &page->queues[page->n - 1] : NULL;
        if (!q || !str_eq(q->queue, sum->line->queue) || !str_eq(q->tenant, sum->line->tenant)) {
            q = &page->queues[page->n++];
            q->tenant = rd_page_dup(&page->arena, sum->line->tenant);
            q->queue = rd_page_dup(&page->arena, sum->line->queue);
            oldest_seq = 0;
        }
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            q->by_state[s] += sum->by_state[s];
        if (sum->oldest_seq != 0 && (oldest_seq == 0 || sum->oldest_seq < oldest_seq)) {
            oldest_seq = sum->oldest_seq;
            q->oldest_ready_ms = sum->oldest_created_ms;
        }
        if (sum->next_due_ms != 0 && (q->next_due_ms == 0 || sum->next_due_ms < q->next_due_ms))
            q->next_due_ms = sum->next_due_ms;
    }
}

int redis_queues(struct store *store, struct str tenant, struct queue_page *ret,
                 struct redrive_err *err)
{
    struct line_sum *sums;
    struct shared_page pauses = {0};
    size_t n;
    queue_page_release(ret);
    int rc = read_sums(store, tenant, &sums, &n, err);
    if (rc == 0)
        rc = redis_shared_list(store, SHARED_PAUSE, tenant, &pauses, err);
    if (rc == 0) {
        if (n > 0)
            qsort(sums, n, sizeof *sums, sum_order);
        ret->queues = arena_array(&ret->arena, n + pauses.n + 1, sizeof *ret->queues);
        if (ret->queues) {
            add_sums(ret, sums, n);
            for (size_t i = 0; i < pauses.n; i++)
                queue_of(ret, pauses.rows[i].tenant, pauses.rows[i].key)->paused = true;
            qsort(ret->queues, ret->n, sizeof *ret->queues, queue_order);
        }
        rc = ret->arena.failed ? err_nomem(err) : 0;
    }
    shared_page_release(&pauses);
    free(sums);
    if (rc != 0)
        queue_page_release(ret);
    return rc;
}

int redis_lines(struct store *store, struct str tenant, struct line_page *ret,
                struct redrive_err *err)
{
    struct line_sum *sums;
    size_t n;
    line_page_release(ret);
    int rc = read_sums(store, tenant, &sums, &n, err);
    if (rc == 0) {
        if (n > 0)
            qsort(sums, n, sizeof *sums, sum_order);
        ret->lines = arena_array(&ret->arena, n + 1, sizeof *ret->lines);
        for (size_t i = 0; ret->lines && i < n; i++) {
            struct line_count *l = &ret->lines[ret->n++];
            l->tenant = rd_page_dup(&ret->arena, sums[i].line->tenant);
            l->queue = rd_page_dup(&ret->arena, sums[i].line->queue);
            l->task = rd_page_dup(&ret->arena, sums[i].line->task);
            memcpy(l->by_state, sums[i].by_state, sizeof l->by_state);
        }
        rc = ret->arena.failed ? err_nomem(err) : 0;
    }
    free(sums);
    if (rc != 0)
        line_page_release(ret);
    return rc;
}

/* ---- Lanes --------------------------------------------------------------------------------------
 */

struct lane_reader {
    struct str tenant;
    struct lane_page *page;
    size_t capacity;
};

static int add_lane(struct lane_reader *r, struct lane_count lane, struct redrive_err *err)
{
    struct arena *arena = &r->page->arena;
    if (r->page->n == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16;
        struct lane_count *grown = arena_array(arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (r->page->n > 0)
            memcpy(grown, r->page->lanes, r->page->n * sizeof *grown);
        r->page->lanes = grown;
        r->capacity = capacity;
    }
    r->page->lanes[r->page->n++] = lane;
    return 0;
}

static int read_lane(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct lane_reader *r = ctx;
    struct arena *arena = &r->page->arena;
    struct lane_count lane = {.jobs = value.len > 0 ? strtoull(value.ptr, NULL, 10) : 0};
    if (!rd_take_part(&field, arena, &lane.tenant) || !rd_take_part(&field, arena, &lane.lane))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "the count of a lane is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, lane.tenant))
        return 0;
    return add_lane(r, lane, err);
}

static int lane_order(const void *left, const void *right)
{
    const struct lane_count *a = left, *b = right;
    const int order = compare(a->tenant, b->tenant);
    return order != 0 ? order : compare(a->lane, b->lane);
}

int redis_parked_counts(struct store *store, struct str tenant, struct lane_page *ret,
                        struct redrive_err *err)
{
    lane_page_release(ret);
    struct lane_reader reader = {.tenant = tenant, .page = ret};
    int rc = rd_scan_hash(store, "l", read_lane, &reader, err);
    if (rc != 0) {
        lane_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->lanes, ret->n, sizeof *ret->lanes, lane_order);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (n == 0 || lane_order(&ret->lanes[n - 1], &ret->lanes[i]) != 0)
            ret->lanes[n++] = ret->lanes[i];
    ret->n = n;
    return 0;
}

static int read_running(struct lane_reader *r, const redisReply *reply, struct redrive_err *err)
{
    struct arena *arena = &r->page->arena;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i + 2 < reply->elements; i += 3) {
        struct lane_count lane = {.jobs = (uint64_t)rd_reply_int(reply, i + 1),
                                  .used = (uint64_t)rd_reply_int(reply, i + 2)};
        struct str name = rd_reply_str(reply, i);
        if (!rd_take_part(&name, arena, &lane.tenant) || !rd_take_part(&name, arena, &lane.lane))
            return arena->failed ? err_nomem(err)
                                 : err_set(err, REDRIVE_E_CORRUPT, "a limit's name is damaged");
        if (r->tenant.len == 0 || str_eq(r->tenant, lane.tenant))
            rc = add_lane(r, lane, err);
    }
    return rc;
}

/* One question, so that jobs and slots are as of one moment. */
int redis_running_counts(struct store *store, struct str tenant, struct lane_page *ret,
                         struct redrive_err *err)
{
    lane_page_release(ret);
    struct lane_reader reader = {.tenant = tenant, .page = ret};
    redisReply *reply = NULL;
    rd_ask_read(store, "running");
    int rc = rd_link_read(store, &reply, err);
    if (rc == 0)
        rc = read_running(&reader, reply, err);
    freeReplyObject(reply);
    if (rc != 0)
        lane_page_release(ret);
    else if (ret->n > 0)
        qsort(ret->lanes, ret->n, sizeof *ret->lanes, lane_order);
    return rc;
}
