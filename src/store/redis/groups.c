/* groups.c - jobs whose errors look alike. */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"
#include "store/redis/slots.h"
#include "store/redis/walk.h"

/* How many jobs are asked for at a time. */
#define JOBS_AT_ONCE ((size_t)1000)

/* Groups in the making: of an example only its seq is known. */
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
    struct buf partitions;
    bool none = false;
    buf_init(&partitions, 1 << 24);
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
            rc = rd_row_unpack(store, rd_reply_int(reply, at), rd_reply_str(reply, at + 1), &row,
                               err);
            if (rc == 0 && rd_row_matches(filter, &row))
                rc = each(ctx, &row, err);
        }
        if (reply)
            freeReplyObject(reply);
    }
    rd_walk_release(&walk);
    buf_release(&partitions);
    return rc;
}

static int largest_first(const void *left, const void *right)
{
    const struct group_count *a = *(struct group_count *const *)left;
    const struct group_count *b = *(struct group_count *const *)right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (a->last_ms != b->last_ms)
        return a->last_ms > b->last_ms ? -1 : 1;
    return a->example.status.seq > b->example.status.seq ? -1 : 1;
}

/* Reads the examples; one that has gone in between takes its group along. */
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
    int rc = rd_rows_each(store, seqs, n, rd_page_take, &maker, err);
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
    if (filter->limit < 1 || filter->limit > STORE_PAGE_MAX)
        return err_set(err, REDRIVE_E_RANGE, "a page has 1 to %d groups, not %zu", STORE_PAGE_MAX,
                       filter->limit);
    map_init(&g.by_fingerprint, rng_system_seed());
    int rc = walk_rows(store, filter, WALK_FINGERPRINT, group_row, &g, err);
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
