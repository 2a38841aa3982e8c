/* list.c - jobs by filter. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

/* Higher than every seq. */
#define SEQ_END (INT64_C(1) << 45)

/* The server knows states and partitions, but not users, errors or reasons: jobs that do not match
 * these are read in vain. A listing begins as if all would match, with one job more than its page
 * takes. Once one has not, it asks for so many at a time, without their big parts, and reads those
 * that match again. */
#define SPARSE_AT_ONCE 256

/* Whether a job follows the keyset in the order. */
static bool follows(const struct job_filter *f, const struct job_status *s)
{
    if (f->after_seq == 0)
        return true;
    if (f->order == ORDER_FINISHED && s->finished_ms != f->after_ms)
        return s->finished_ms < f->after_ms;
    return f->order == ORDER_OLDEST ? s->seq > f->after_seq : s->seq < f->after_seq;
}

static bool precedes(enum job_order order, const struct job_status *a, const struct job_status *b)
{
    if (order == ORDER_FINISHED && a->finished_ms != b->finished_ms)
        return a->finished_ms > b->finished_ms;
    return order == ORDER_OLDEST ? a->seq < b->seq : a->seq > b->seq;
}

/* The states that can match at all. */
static uint32_t states_of(const struct job_filter *f)
{
    const uint32_t states = f->states ? f->states & STATES_ALL : STATES_ALL;
    return f->finished_after_ms || f->finished_before_ms ? states & STATES_ENDED : states;
}

/* A list that is being filled. */
struct listing {
    struct store *store;
    const struct job_filter *filter;
    struct page_maker maker;
};

static bool is_full(const struct listing *l)
{
    return l->maker.page->more;
}

static bool fits(const struct listing *l, const struct row *row)
{
    return job_filter_matches(l->filter, &row->job) && follows(l->filter, &row->job.status) &&
           job_filter_reaches(l->filter, row->job.status.seq);
}

/* After a row of a reply was read: leaves the job out if it cannot be read, or gives the error. */
static int skip_unreadable(struct listing *l, int rc, struct redrive_err *err)
{
    return l->filter->skips_unreadable ? rd_page_leave_out(&l->maker, rc, err) : rc;
}

/* How many jobs are needed to fill the page, and to know that there are more. */
static size_t room_of(const struct listing *l)
{
    return l->filter->limit + 1 - l->maker.page->n;
}

static size_t sparse_count(size_t room)
{
    return room > SPARSE_AT_ONCE ? room : SPARSE_AT_ONCE;
}

/* Adds a row if it matches; if the page is full, sets `more`. */
static int offer(struct listing *l, const struct row *row, const struct str big[BIG_COUNT],
                 struct redrive_err *err)
{
    struct job_page *page = l->maker.page;
    if (!fits(l, row))
        return 0;
    if (page->n == l->filter->limit) {
        page->more = true;
        return 0;
    }
    return rd_page_add(&l->maker, row, big, err);
}

/* Reads the jobs of these seqs, and offers them in the order of the filter. */
static int offer_seqs(struct listing *l, const int64_t *seqs, size_t n, struct redrive_err *err)
{
    static const struct str NO_BIG[BIG_COUNT];
    RELEASED_BY(job_page_release) struct job_page found = {0};
    struct page_maker maker;
    rd_page_start(&maker, l->store, &found);
    int rc = rd_page_add_seqs(&maker, seqs, n, rd_page_add, err);
    if (rc == 0 && !l->filter->skips_unreadable)
        rc = job_page_check_readable(&found, err);
    job_page_add_left_out(l->maker.page, &found);
    for (size_t given = 0; rc == 0 && given < found.n; given++) {
        size_t best = given;
        for (size_t i = given + 1; i < found.n; i++)
            if (precedes(l->filter->order, &found.jobs[i].status, &found.jobs[best].status))
                best = i;
        const struct row row = {.job = found.jobs[best]};
        rc = offer(l, &row, NO_BIG, err);
        found.jobs[best] = found.jobs[given];
    }
    return rc;
}

/* ---- By seq ---------------------------------------------------------------------------------- */

/* *ret_sparse: a job did not match. */
static int walk_whole(struct listing *l, struct walk *walk, bool *ret_sparse,
                      struct redrive_err *err)
{
    redisReply *reply = NULL;
    int rc = rd_walk_read(l->store, walk, room_of(l), true, &reply, err);
    for (size_t at = 1; rc == 0 && at < reply->elements && !is_full(l);) {
        struct str big[BIG_COUNT];
        struct row row;
        bool is_moved;
        const int64_t seq = rd_reply_int(reply, at);
        rc = rd_reply_row(l->store, reply, &at, &row, big, &is_moved, err);
        if (rc == 0 && !is_moved) {
            *ret_sparse |= !fits(l, &row);
            rc = offer(l, &row, big, err);
        }
        rc = skip_unreadable(l, rc, err);
        if (rc == 0 && !job_filter_reaches(l->filter, seq))
            walk->is_over = true;
    }
    freeReplyObject(reply);
    return rc;
}

static int walk_sparse(struct listing *l, struct walk *walk, struct redrive_err *err)
{
    int64_t seqs[STORE_PAGE_MAX + 1];
    const size_t room = room_of(l);
    size_t n = 0;
    redisReply *reply = NULL;
    int rc = rd_walk_read(l->store, walk, sparse_count(room), false, &reply, err);
    for (size_t at = 1; rc == 0 && at < reply->elements && n <= STORE_PAGE_MAX;) {
        struct row row;
        bool is_moved;
        const int64_t seq = rd_reply_int(reply, at);
        rc = rd_reply_row(l->store, reply, &at, &row, NULL, &is_moved, err);
        if (rc == 0 && !is_moved && fits(l, &row))
            seqs[n++] = seq;
        rc = skip_unreadable(l, rc, err);
        if (rc == 0 && !job_filter_reaches(l->filter, seq))
            walk->is_over = true;
    }
    freeReplyObject(reply);
    /* If one of them has changed meanwhile, there is room for the next. */
    for (size_t at = 0; rc == 0 && at < n && !is_full(l); at += room)
        rc = offer_seqs(l, seqs + at, n - at < room ? n - at : room, err);
    return rc;
}

static int list_walk(struct listing *l, struct walk *walk, struct redrive_err *err)
{
    bool is_sparse = false;
    int rc = 0;
    while (rc == 0 && !walk->is_over && !is_full(l))
        rc = is_sparse ? walk_sparse(l, walk, err) : walk_whole(l, walk, &is_sparse, err);
    return rc;
}

/* ---- By the time of the end ------------------------------------------------------------------ */

/* The ended jobs of a state, the latest first. */
struct source {
    char key[8];
    redisReply *reply;
    size_t at;
    size_t n_asked; /* of the reply */
    bool is_over;
    bool is_sparse; /* one of its jobs did not match */
    bool has_big;   /* the reply has big parts */
    struct row row; /* the next, unless it is over */
    struct str big[BIG_COUNT];
    int64_t after_ms;
    int64_t after_seq;
    bool from_start;
};

static int source_fill(struct listing *l, struct source *s, struct redrive_err *err)
{
    if (s->reply) {
        /* A reply that was not full was the last. */
        s->is_over = s->reply->elements < 3 * s->n_asked;
        freeReplyObject(s->reply);
        s->reply = NULL;
    }
    if (s->is_over)
        return 0;
    rd_ask_read(l->store, "ranked");
    rd_ask_text(l->store, s->key);
    rd_ask_text(l->store, "-");
    if (s->from_start) {
        rd_ask_text(l->store, "");
        rd_ask_text(l->store, "");
    } else {
        rd_ask_int(l->store, rd_score_of(s->after_ms));
        rd_ask_int(l->store, s->after_seq);
    }
    s->has_big = !s->is_sparse;
    s->n_asked = s->has_big ? l->filter->limit + 1 : sparse_count(l->filter->limit + 1);
    rd_ask_int(l->store, (int64_t)s->n_asked);
    rd_ask_text(l->store, s->has_big ? "1" : "0");
    rd_ask_text(l->store, "1");
    s->at = 0;
    s->from_start = false;
    return rd_link_read(l->store, &s->reply, err);
}

/* Moves on to the next job that matches. */
static int source_next(struct listing *l, struct source *s, struct redrive_err *err)
{
    while (!s->is_over) {
        int rc = 0;
        if (!s->reply || s->at >= s->reply->elements)
            rc = source_fill(l, s, err);
        if (rc != 0)
            return rc;
        if (!s->reply || s->reply->elements == 0) {
            s->is_over = true;
            return 0;
        }
        bool is_moved;
        s->after_ms = rd_reply_int(s->reply, s->at++);
        s->after_seq = rd_reply_int(s->reply, s->at);
        rc = rd_reply_row(l->store, s->reply, &s->at, &s->row, s->has_big ? s->big : NULL,
                          &is_moved, err);
        const bool is_readable = rc == 0;
        rc = skip_unreadable(l, rc, err);
        if (rc != 0)
            return rc;
        if (s->after_ms < l->filter->finished_after_ms)
            s->is_over = true;
        else if (is_readable && !is_moved && job_filter_matches(l->filter, &s->row.job))
            return 0;
        s->is_sparse |= is_readable && !is_moved;
    }
    return 0;
}

static void source_start(struct listing *l, struct source *s, int state)
{
    const struct job_filter *f = l->filter;
    snprintf(s->key, sizeof s->key, "e:%d", state % 10);
    s->from_start = f->after_seq == 0 && f->finished_before_ms == 0;
    s->after_ms = f->after_ms;
    s->after_seq = f->after_seq;
    if (f->finished_before_ms != 0 && (f->after_seq == 0 || f->finished_before_ms <= f->after_ms)) {
        s->after_ms = f->finished_before_ms;
        s->after_seq = 0;
    }
}

/* The source whose next job has ended last; NULL: all are over. */
static struct source *latest_source(struct source *sources, size_t n)
{
    struct source *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (!sources[i].is_over &&
            (!best || precedes(ORDER_FINISHED, &sources[i].row.job.status, &best->row.job.status)))
            best = &sources[i];
    return best;
}

/* Offers the next jobs, in order: at once, or, from the first without its big parts on, by their
 * seqs, as many as fill the page. */
static int offer_ended(struct listing *l, struct source *sources, size_t n, struct redrive_err *err)
{
    int64_t seqs[STORE_PAGE_MAX + 1];
    size_t n_seqs = 0;
    struct source *best;
    int rc = 0;
    while (rc == 0 && !is_full(l) && n_seqs < room_of(l) && (best = latest_source(sources, n))) {
        if (n_seqs > 0 || !best->has_big)
            seqs[n_seqs++] = best->row.job.status.seq;
        else
            rc = offer(l, &best->row, best->big, err);
        if (rc == 0 && !is_full(l))
            rc = source_next(l, best, err);
    }
    return rc == 0 && n_seqs > 0 ? offer_seqs(l, seqs, n_seqs, err) : rc;
}

static int list_ended(struct listing *l, uint32_t states, struct redrive_err *err)
{
    struct source sources[REDRIVE_STATE_COUNT] = {0};
    size_t n = 0;
    int rc = 0;
    for (int state = 0; rc == 0 && state < REDRIVE_STATE_COUNT; state++)
        if (states & STATES_ENDED & 1u << state) {
            source_start(l, &sources[n], state);
            rc = source_next(l, &sources[n++], err);
        }
    while (rc == 0 && !is_full(l) && latest_source(sources, n))
        rc = offer_ended(l, sources, n, err);
    for (size_t i = 0; i < n; i++)
        freeReplyObject(sources[i].reply);
    return rc;
}

/* ---- By id or key ---------------------------------------------------------------------------- */

static void ask_id(struct store *store, struct str tenant, struct str id)
{
    const struct digest digest = rd_digest_of(tenant, id);
    rd_ask_id(store, &digest);
}

/* The job of a tenant that has the id, if there is one. */
static size_t add_seq(const struct listing *l, struct str tenant, struct str member, int64_t *ret)
{
    const struct digest digest = rd_digest_of(tenant, l->filter->id);
    *ret = rd_id_seq(l->store, &digest, member);
    return *ret > 0;
}

/* Without a tenant each one may have a job with the id. */
static int list_by_id(struct listing *l, struct redrive_err *err)
{
    struct store *store = l->store;
    redisReply *reply = NULL;
    int rc = l->filter->tenant.len > 0 ? 0 : rd_partitions_refresh(store, err);
    if (rc != 0)
        return rc;
    rd_ask_read(store, "cells");
    if (l->filter->tenant.len > 0)
        ask_id(store, l->filter->tenant, l->filter->id);
    else
        MAP_FOREACH (&store->partitions_by_tenant, slot)
            ask_id(store, ((const struct partition *)slot->value)->tenant, l->filter->id);
    rc = rd_link_read(store, &reply, err);
    if (rc != 0)
        return rc;
    int64_t *seqs = calloc(reply->elements + 1, sizeof *seqs);
    size_t n = 0, i = 0;
    if (seqs && l->filter->tenant.len > 0)
        n += add_seq(l, l->filter->tenant, rd_reply_str(reply, 0), &seqs[n]);
    else if (seqs)
        MAP_FOREACH (&store->partitions_by_tenant, slot)
            n += add_seq(l, ((const struct partition *)slot->value)->tenant,
                         rd_reply_str(reply, i++), &seqs[n]);
    freeReplyObject(reply);
    rc = seqs ? offer_seqs(l, seqs, n, err) : err_nomem(err);
    free(seqs);
    return rc;
}

/* Few jobs have the same key; all of them are looked at. */
static int list_by_key(struct listing *l, struct redrive_err *err)
{
    const struct digest digest = rd_digest_of(l->filter->tenant, l->filter->unique_key);
    redisReply *reply = NULL;
    rd_ask_read(l->store, "key_jobs");
    rd_ask_str(l->store, digest_str(&digest));
    rd_ask_int(l->store, 0);
    rd_ask_int(l->store, STORE_PAGE_MAX);
    int rc = rd_link_read(l->store, &reply, err);
    if (rc != 0)
        return rc;
    const struct entry *own = map_get(&l->store->new_keys, digest_str(&digest));
    const size_t n_found = reply->elements > 2 ? reply->elements - 2 : 0;
    size_t n = 0, n_own = 0;
    for (const struct entry *e = own; e; e = e->next_key)
        n_own++;
    int64_t *seqs = calloc(n_found + n_own + 1, sizeof *seqs);
    for (; seqs && n < n_found; n++)
        seqs[n] = rd_reply_int(reply, n + 2);
    for (; seqs && own; own = own->next_key)
        seqs[n++] = own->seq;
    freeReplyObject(reply);
    rc = seqs ? offer_seqs(l, seqs, n, err) : err_nomem(err);
    free(seqs);
    return rc == 0 && n_found == STORE_PAGE_MAX ? 1 : rc;
}

/* ---- By the time of the end, of a tenant that has few ---------------------------------------- */

struct job_end {
    int64_t ms;
    int64_t seq;
};

struct job_ends {
    struct job_end *all;
    size_t n;
    size_t capacity;
};

/* False: no memory. */
static bool add_end(struct job_ends *ends, const struct job_status *status)
{
    if (ends->n == ends->capacity) {
        const size_t capacity = ends->capacity ? 2 * ends->capacity : 256;
        struct job_end *grown = realloc(ends->all, capacity * sizeof *grown);
        if (!grown)
            return false;
        ends->all = grown;
        ends->capacity = capacity;
    }
    ends->all[ends->n++] = (struct job_end){status->finished_ms, status->seq};
    return true;
}

static int latest_first(const void *left, const void *right)
{
    const struct job_end *a = left, *b = right;
    if (a->ms != b->ms)
        return a->ms > b->ms ? -1 : 1;
    return (a->seq < b->seq) - (a->seq > b->seq);
}

static int gather_ends(struct listing *l, struct walk *walk, struct job_ends *ret,
                       struct redrive_err *err)
{
    int rc = 0;
    while (rc == 0 && !walk->is_over) {
        redisReply *reply = NULL;
        rc = rd_walk_read(l->store, walk, STORE_PAGE_MAX, false, &reply, err);
        for (size_t at = 1; rc == 0 && at < reply->elements;) {
            struct row row;
            bool is_moved;
            rc = rd_reply_row(l->store, reply, &at, &row, NULL, &is_moved, err);
            const bool is_readable = rc == 0;
            const struct job_status *s = &row.job.status;
            rc = skip_unreadable(l, rc, err);
            if (!is_readable || is_moved || !job_filter_matches(l->filter, &row.job) ||
                !follows(l->filter, s))
                continue;
            if (!add_end(ret, s))
                rc = err_nomem(err);
        }
        freeReplyObject(reply);
    }
    return rc;
}

/* All of them are looked at, and the latest are given. */
static int list_ended_of_tenant(struct listing *l, struct walk walk, struct redrive_err *err)
{
    int64_t seqs[STORE_PAGE_MAX + 1];
    struct job_ends ends = {0};
    walk.after = SEQ_END;
    int rc = gather_ends(l, &walk, &ends, err);
    if (ends.n > 0)
        qsort(ends.all, ends.n, sizeof *ends.all, latest_first);
    const size_t n = ends.n <= l->filter->limit ? ends.n : l->filter->limit + 1;
    for (size_t i = 0; i < n; i++)
        seqs[i] = ends.all[i].seq;
    free(ends.all);
    return rc == 0 ? offer_seqs(l, seqs, n, err) : rc;
}

/* Reads the ends of all jobs, or all jobs of the tenant, whichever are fewer: among the ends of all
 * jobs one of the tenant's is met every total / mine jobs, on average. */
static int list_by_end(struct listing *l, const struct walk *walk, struct redrive_err *err)
{
    struct walk ended = *walk;
    int64_t total = 0;
    ended.states &= STATES_ENDED;
    int rc = walk->own[0] ? rd_walk_count(l->store, ended.states, &total, err) : 0;
    if (rc != 0 || ended.states == 0)
        return rc;
    const int64_t mine = walk->n_own_in_states > 0 ? walk->n_own_in_states : 1;
    const bool by_tenant =
        walk->own[0] && walk->n_own / (int64_t)(l->filter->limit + 1) < total / mine;
    return by_tenant ? list_ended_of_tenant(l, ended, err) : list_ended(l, ended.states, err);
}

/* ---- The slots ------------------------------------------------------------------------------- */

static int list_any(struct listing *l, struct redrive_err *err)
{
    const struct job_filter *f = l->filter;
    const uint32_t states = states_of(f);
    RELEASED_BY(buf_release) struct buf partitions = BUF_MAX(1 << 24);
    bool none = false;
    int rc = rd_walk_partitions(l->store, f, &partitions, &none, err);
    struct walk walk = {
        .is_back = f->order != ORDER_OLDEST,
        .after = f->after_seq               ? f->after_seq
                 : f->order == ORDER_OLDEST ? 0
                                            : SEQ_END,
        .states = states,
        .flags = f->fingerprint ? WALK_FINGERPRINT : 0,
        .partitions = buf_str(&partitions),
        .is_over = none || states == 0,
    };
    if (rc == 0 && !walk.is_over)
        rc = rd_walk_tenant(l->store, f, &walk, err);
    if (rc == 0 && f->order == ORDER_FINISHED && !walk.is_over) {
        const bool past_ended = f->after_seq != 0 && f->after_ms == 0;
        if (!past_ended)
            rc = list_by_end(l, &walk, err);
        walk.states &= ~STATES_ENDED;
        walk.after = past_ended ? f->after_seq : SEQ_END;
        walk.is_over = walk.states == 0;
    }
    if (rc == 0 && !walk.is_over)
        rc = rd_walk_plan(l->store, &walk, err);
    if (rc == 0)
        rc = list_walk(l, &walk, err);
    rd_walk_release(&walk);
    return rc;
}

int redis_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
               struct redrive_err *err)
{
    struct listing l = {.store = store, .filter = filter};
    rd_page_start(&l.maker, store, ret);
    int rc = store_check_limit(filter->limit, "jobs", err);
    if (rc != 0)
        return rc;
    if (filter->id.len > 0) {
        rc = list_by_id(&l, err);
    } else {
        const bool by_key = filter->unique_key.len > 0 && filter->tenant.len > 0;
        rc = by_key ? list_by_key(&l, err) : 1;
        if (rc == 1) {
            rd_page_start(&l.maker, store, ret);
            rc = list_any(&l, err);
        }
    }
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
