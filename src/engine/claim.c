#include "engine/claim.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/look.h"
#include "engine/private.h"
#include "engine/tick.h"

/* After the first look it is known that some are blocked: then they are parked by the chunk. */
#define PARK_CHUNK 64

struct claims {
    struct claim_op *const *ops;
    size_t n;
    size_t at;       /* who is served next */
    size_t promised; /* to that one, in this look */
};

/* Who gets the next job; NULL: all have what they want. */
static struct claim_op *next_claim(struct claims *c)
{
    for (; c->at < c->n; c->at++, c->promised = 0) {
        struct claim_op *op = c->ops[c->at];
        if (op->n + c->promised < op->filter.limit)
            return op;
    }
    return NULL;
}

static size_t still_wanted(const struct claims *c)
{
    size_t wanted = 0;
    for (size_t i = 0; i < c->n; i++)
        wanted += c->ops[i]->filter.limit - c->ops[i]->n;
    return wanted;
}

static int consider_page(struct engine *e, struct claims *c, struct claim_page *page,
                         bool *ret_more, struct redrive_err *err)
{
    struct look look;
    struct claim_op *op;
    size_t i = 0;
    int rc = look_init(&look, e, page->page.n, err);
    c->at = c->promised = 0;
    for (; i < page->page.n && rc == 0 && (op = next_claim(c)) != NULL; i++) {
        size_t before = look.n_starts;
        rc = look_at(&look, op, &page->page.jobs[i], err);
        c->promised += look.n_starts - before;
    }
    *ret_more |= i < page->page.n;
    return rc == 0 ? look_done(&look, page, err) : rc;
}

static int claim_alike(struct engine *e, struct claims *c, struct redrive_err *err)
{
    bool more = false;
    int rc = 0;
    e->has_claimed = true;
    for (int round = 0; round < CLAIM_ROUNDS && rc == 0; round++) {
        struct claim_filter filter = c->ops[0]->filter;
        filter.limit = still_wanted(c);
        if (filter.limit == 0)
            break;
        if (round > 0 && filter.limit < PARK_CHUNK)
            filter.limit = PARK_CHUNK;
        struct claim_page *page = claim_page_new();
        if (!page)
            return err_nomem(err);
        rc = e->ops->ready(e->store, &filter, &page->page, err);
        more = page->page.more;
        const bool is_empty = page->page.n == 0;
        if (rc == 0 && !is_empty)
            rc = consider_page(e, c, page, &more, err);
        claim_page_drop(page);
        if (is_empty)
            break;
    }
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

static bool look_for_the_same(const struct claim_filter *a, const struct claim_filter *b)
{
    return str_eq(a->tenant, b->tenant) &&
           same_words(a->queues, a->n_queues, b->queues, b->n_queues) &&
           same_words(a->tasks, a->n_tasks, b->tasks, b->n_tasks) &&
           same_words(a->skip_lanes, a->n_skip_lanes, b->skip_lanes, b->n_skip_lanes);
}

static void clear(struct claim_op *op)
{
    op->n = 0;
    op->more = false;
    for (size_t i = 0; i < op->n_pages; i++)
        claim_page_drop(op->pages[i]);
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

static const struct op_kind CLAIM = {.rank = 3, .apply = claim_ops};

void claim_op_init(struct claim_op *op, const struct claim_filter *filter, struct str worker,
                   int64_t lease_ms)
{
    *op = (struct claim_op){
        .op = {.apply = apply_claim, .kind = &CLAIM, .weight = filter->limit},
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
