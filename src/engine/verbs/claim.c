/* claim.c - ready jobs for a worker. */
#include "engine/verbs/claim.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "engine/gates/gates.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/verbs/admission.h"

/* When jobs of the first look could not start, others are likely blocked too: so many are read at
 * a time then, to be parked together. */
#define PARK_CHUNK 64

/* A page of ready jobs, which lives as long as one of its holders. */
struct claim_page {
    struct job_page page;
    struct parent_page parents; /* of its jobs that have started */
    atomic_uint holders;
};

/* Held once, by the caller; NULL without memory. */
static struct claim_page *page_new(void)
{
    struct claim_page *page = calloc(1, sizeof *page);
    if (page)
        atomic_init(&page->holders, 1);
    return page;
}

/* One holder less. Any thread may do that. */
static void page_drop(struct claim_page *page)
{
    if (atomic_fetch_sub(&page->holders, 1) > 1)
        return;
    job_page_release(&page->page);
    parent_page_release(&page->parents);
    free(page);
}

/* Adds a job that has started to the answer of its claim, which holds the page from then on. */
static bool keep(struct claim_op *op, const struct job *job, struct claim_page *page)
{
    if (op->n == op->capacity) {
        size_t capacity = op->capacity ? op->capacity * 2 : 16;
        struct job *grown = realloc(op->jobs, capacity * sizeof *grown);
        if (!grown)
            return false;
        op->jobs = grown;
        op->capacity = capacity;
    }
    op->jobs[op->n++] = *job;
    if (op->n_pages == 0 || op->pages[op->n_pages - 1] != page) {
        atomic_fetch_add(&page->holders, 1);
        op->pages[op->n_pages++] = page;
    }
    return true;
}

/* ---- Which claim is served ------------------------------------------------------------------- */

struct claims {
    struct claim_op *const *ops;
    size_t n;
    size_t at;             /* the claim that is served next */
    size_t promised;       /* to that claim, in this look */
    size_t promised_bytes; /* of these */
    size_t *room;          /* how many of each task there may still be; NULL: any number */
    size_t n_children;     /* jobs of this look that are to be given with their parents */
};

static size_t bytes_of(const struct claim_op *op)
{
    size_t bytes = 0;
    for (size_t i = 0; i < op->n && op->filter.max_bytes > 0; i++)
        bytes += job_bytes(op->jobs[i].spec.payload.len);
    return bytes;
}

/* Whether a claim with so many jobs of so many bytes has what it wants. A page has no more bytes
 * than its claims want together, so that each of its jobs finds one that takes it. */
static bool is_served(const struct claim_op *op, size_t n, size_t bytes)
{
    const struct claim_filter *filter = &op->filter;
    return n >= filter->limit || (filter->max_bytes > 0 && n > 0 && bytes >= filter->max_bytes);
}

/* The claim that gets the next job; NULL: all have what they want. */
static struct claim_op *next_claim(struct claims *c)
{
    for (; c->at < c->n; c->at++, c->promised = c->promised_bytes = 0) {
        struct claim_op *op = c->ops[c->at];
        if (!is_served(op, op->n + c->promised, bytes_of(op) + c->promised_bytes))
            return op;
    }
    return NULL;
}

/* ---- What is still wanted -------------------------------------------------------------------- */

/* How many of each task there may still be, and those of which there may be any. */
static int limit_tasks(struct engine *e, struct claims *c, struct claim_filter *filter,
                       size_t at_least, struct redrive_err *err)
{
    const struct claim_op *op = c->ops[0];
    const size_t n = filter->n_tasks;
    struct str *tasks = arena_array(&e->arena, n, sizeof *tasks);
    size_t *limits = arena_array(&e->arena, n, sizeof *limits);
    c->room = arena_array(&e->arena, n, sizeof *c->room);
    if (e->arena.failed)
        return err_nomem(err);
    memcpy(c->room, filter->task_limits, n * sizeof *c->room);
    for (size_t i = 0; i < op->n; i++)
        c->room[claim_find(op->filter.tasks, n, op->jobs[i].spec.task)]--;
    filter->n_tasks = 0;
    for (size_t i = 0; i < n; i++) {
        if (c->room[i] == 0)
            continue;
        tasks[filter->n_tasks] = filter->tasks[i];
        limits[filter->n_tasks++] = c->room[i] > at_least ? c->room[i] : at_least;
    }
    filter->tasks = tasks;
    filter->task_limits = limits;
    return 0;
}

/* The filter of the next look; a limit of 0: there is nothing more to look for. After the first
 * half of the bytes what is left may be too little for a job, and is left to the next claim. */
static int still_wanted(struct engine *e, struct claims *c, bool is_first, struct claim_filter *ret,
                        struct redrive_err *err)
{
    const size_t max_bytes = c->ops[0]->filter.max_bytes;
    bool with_parents = false;
    *ret = c->ops[0]->filter;
    ret->limit = ret->max_bytes = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct claim_op *op = c->ops[i];
        const size_t bytes = bytes_of(op);
        if (bytes > max_bytes / 2)
            continue;
        with_parents |= op->with_parents;
        ret->limit += op->filter.limit - op->n;
        ret->max_bytes += max_bytes - bytes;
    }
    if (ret->limit == 0)
        return 0;
    /* The parents of a look are read at once; what is left is found by the next look. */
    if (with_parents && ret->limit > STORE_PAGE_MAX)
        ret->limit = STORE_PAGE_MAX;
    const size_t at_least = is_first ? 0 : PARK_CHUNK;
    if (ret->limit < at_least)
        ret->limit = at_least;
    int rc = ret->task_limits ? limit_tasks(e, c, ret, at_least, err) : 0;
    if (ret->task_limits && ret->n_tasks == 0)
        ret->limit = 0;
    return rc;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int consider(struct admission *admission, struct claims *c, struct claim_op *op,
                    struct job *job, struct redrive_err *err)
{
    size_t *room = c->room;
    if (room)
        room += claim_find(op->filter.tasks, op->filter.n_tasks, job->spec.task);
    if (room && *room == 0)
        return 0;
    const struct admission_request request = {
        .worker = op->worker, .lease_ms = op->lease_ms, .lease_of = op->lease_of, .owner = op};
    const size_t before = admission->n_starts;
    int rc = admission_consider(admission, &request, job, err);
    if (admission->n_starts == before)
        return rc;
    c->promised++;
    c->promised_bytes += job_bytes(job->spec.payload.len);
    c->n_children += op->with_parents && job->status.parents > 0;
    if (room)
        --*room;
    return rc;
}

/* ---- Parents --------------------------------------------------------------------------------- */

static bool is_child(const struct admitted *start)
{
    const struct claim_op *op = start->owner;
    return start->has_started && op->with_parents && start->job->status.parents > 0;
}

/* Gives the jobs that have started their parents, which live in the page. */
static int add_parents(struct engine *e, const struct admission *admission, size_t n_children,
                       struct claim_page *page, struct redrive_err *err)
{
    static const struct job_parent none;
    const struct parent_page *parents = &page->parents;
    int64_t *seqs = arena_array(&e->arena, n_children, sizeof *seqs);
    size_t n = 0, at = 0;
    if (!seqs)
        return err_nomem(err);
    for (size_t i = 0; i < admission->n_starts; i++)
        if (is_child(&admission->starts[i]))
            seqs[n++] = admission->starts[i].job->status.seq;
    int rc = e->ops->parents(e->store, seqs, n, &page->parents, err);
    for (size_t i = 0; rc == 0 && i < admission->n_starts; i++) {
        struct job *job = admission->starts[i].job;
        if (!is_child(&admission->starts[i]))
            continue;
        job->parents = at < parents->n ? &parents->parents[at] : &none;
        for (; at < parents->n && parents->parents[at].child == job->status.seq; at++)
            job->n_parents++;
    }
    return rc;
}

static int consider_page(struct engine *e, struct claims *c, struct claim_page *page,
                         bool *ret_more, struct redrive_err *err)
{
    struct admission admission;
    struct claim_op *op;
    size_t i = 0;
    int rc = admission_init(&admission, e, page->page.n, err);
    gates_see(e, page->page.limits, page->page.n_limits);
    c->at = c->promised = c->promised_bytes = c->n_children = 0;
    for (; i < page->page.n && rc == 0 && (op = next_claim(c)) != NULL; i++)
        rc = consider(&admission, c, op, &page->page.jobs[i], err);
    *ret_more |= i < page->page.n;
    if (rc == 0)
        rc = admission_finish(&admission, err);
    if (rc == 0 && c->n_children > 0)
        rc = add_parents(e, &admission, c->n_children, page, err);
    for (i = 0; i < admission.n_starts && rc == 0; i++)
        if (admission.starts[i].has_started &&
            !keep(admission.starts[i].owner, admission.starts[i].job, page))
            rc = err_nomem(err);
    return rc;
}

/* Callers that were served will look for as many again. When other claims of the transaction look
 * for something else, it is not known which caller comes back. */
static void expect_more(struct engine *e, const struct claims *c, bool more)
{
    const bool is_first = e->n_ahead == 0;
    for (size_t i = 0; i < c->n; i++)
        e->n_ahead += c->ops[i]->n;
    e->n_ahead_claims = c->n;
    e->ahead = e->come_back && more && is_first && e->n_ahead > 0 ? &c->ops[0]->filter : NULL;
}

static int claim_alike(struct engine *e, struct claims *c, struct redrive_err *err)
{
    bool more = false;
    int rc = 0;
    e->has_claimed = true;
    for (int round = 0; round < CLAIM_ROUNDS && rc == 0 && (round == 0 || more); round++) {
        struct claim_filter filter;
        rc = still_wanted(e, c, round == 0, &filter, err);
        if (rc < 0 || filter.limit == 0)
            break;
        struct claim_page *page = page_new();
        if (!page)
            return err_nomem(err);
        rc = e->ops->ready(e->store, &filter, &page->page, err);
        engine_note_latest(e);
        engine_note_page(e, &page->page);
        more = page->page.more;
        const bool is_empty = page->page.n == 0;
        const size_t before = c->ops[0]->n;
        if (rc == 0 && !is_empty)
            rc = consider_page(e, c, page, &more, err);
        /* The store left jobs out because their task seemed full, and some of those before them
         * have not started after all. */
        more |= filter.task_limits && c->ops[0]->n - before < page->page.n;
        page_drop(page);
        if (is_empty)
            break;
    }
    if (rc == 0)
        expect_more(e, c, more);
    /* Jobs that this transaction has put into the queue are for the next claim. */
    more |= (e->notification & STORE_NOTIFY_READY) != 0;
    for (size_t i = 0; i < c->n; i++)
        c->ops[i]->more = more || engine_next_ms(e) <= e->now_ms;
    return rc;
}

static bool same_words(const struct str *a, size_t n_a, const struct str *b, size_t n_b)
{
    if (n_a != n_b)
        return false;
    for (size_t i = 0; i < n_a; i++)
        if (!str_eq(a[i], b[i]))
            return false;
    return true;
}

/* A worker that names the slots of its tasks looks for something else than any other. */
static bool look_for_the_same(const struct claim_filter *a, const struct claim_filter *b)
{
    return a == b || (!a->task_limits && !b->task_limits && a->max_bytes == b->max_bytes &&
                      str_eq(a->tenant, b->tenant) &&
                      same_words(a->queues, a->n_queues, b->queues, b->n_queues) &&
                      same_words(a->tasks, a->n_tasks, b->tasks, b->n_tasks));
}

static void clear(struct claim_op *op)
{
    op->n = 0;
    op->more = false;
    for (size_t i = 0; i < op->n_pages; i++)
        page_drop(op->pages[i]);
    op->n_pages = 0;
}

/* Those that look for the same as the first come together, in their order; the rest waits. */
static int claim_ops(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    struct claim_op **alike = arena_array(&e->arena, n, sizeof(struct claim_op *));
    struct claim_op **left = arena_array(&e->arena, n, sizeof(struct claim_op *));
    int rc = 0;
    if (!alike || !left)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        left[i] = (struct claim_op *)ops[i];
        clear(left[i]);
    }
    while (n > 0 && rc == 0) {
        struct claims c = {.ops = alike};
        size_t n_left = 0;
        const struct claim_filter *filter = &left[0]->filter;
        for (size_t i = 0; i < n; i++) {
            if (look_for_the_same(filter, &left[i]->filter))
                alike[c.n++] = left[i];
            else
                left[n_left++] = left[i];
        }
        n = n_left;
        rc = claim_alike(e, &c, err);
    }
    return rc;
}

static int apply_claim(struct engine *e, struct op *base, struct redrive_err *err)
{
    return claim_ops(e, &base, 1, err);
}

/* A commit can take longer than a lease: its outcome may have to be asked for after a fail-over. A
 * job whose lease is over may have started elsewhere, and is not handed out. */
static void drop_late(const struct engine *e, struct op *base)
{
    struct claim_op *op = (struct claim_op *)base;
    const int64_t now_ms = engine_now_ms(e);
    size_t n = 0;
    for (size_t i = 0; i < op->n; i++)
        if (op->jobs[i].status.lease_until_ms > now_ms)
            op->jobs[n++] = op->jobs[i];
    op->n = n;
}

static const struct op_kind CLAIM = {.rank = 3, .apply = claim_ops, .committed = drop_late};

static const struct op_route CLAIM_ROUTE = {.to = ROUTE_CLAIM};

void claim_op_init(struct claim_op *op, const struct claim_filter *filter, struct str worker,
                   int64_t lease_ms)
{
    *op = (struct claim_op){
        .op = {.apply = apply_claim,
               .kind = &CLAIM,
               .route = &CLAIM_ROUTE,
               .weight = filter->limit,
               .looks = true},
        .filter = *filter,
        .worker = worker,
        .lease_ms = lease_ms,
    };
}

void claim_op_release(struct claim_op *op)
{
    clear(op);
    free(op->jobs);
    op->jobs = NULL;
    op->capacity = 0;
}
