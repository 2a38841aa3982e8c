/* after.c - what becomes of jobs that wait when a parent ends. */
#include "engine/verbs/after.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "core/classify/fingerprint.h"
#include "core/state.h"
#include "engine/event.h"
#include "engine/rows.h"
#include "engine/state.h"

#define NAME_SHOWN 100

static int by_seq(const void *left, const void *right)
{
    const int64_t a = ((const struct ended_job *)left)->seq,
                  b = ((const struct ended_job *)right)->seq;
    return (a > b) - (a < b);
}

static int by_child(const void *left, const void *right)
{
    const struct job_edge *a = left, *b = right;
    return a->child != b->child ? (a->child > b->child) - (a->child < b->child)
                                : (a->parent > b->parent) - (a->parent < b->parent);
}

/* ---- Children that are skipped --------------------------------------------------------------- */

#define MESSAGE_MAX (NAME_SHOWN + 160)

/* Why: which parent, and how it ended. */
static struct str skip_message(const struct job_edge *edge, const struct ended_job *parent,
                               char ret[MESSAGE_MAX])
{
    const struct str id = parent->id;
    (void)snprintf(ret, MESSAGE_MAX, "job '%.*s', which it waited for (on: %s), %s %s",
                   (int)(id.len < NAME_SHOWN ? id.len : NAME_SHOWN), id.ptr ? id.ptr : "",
                   after_on_name(edge->rule.on), parent->is_gone ? "was removed as" : "ended as",
                   redrive_state_name(parent->state));
    return str_of(ret);
}

int after_skip_in(struct store *store, const struct job_edge *edge, const struct ended_job *parent,
                  struct move_result *ret, struct redrive_err *err)
{
    char message[MESSAGE_MAX];
    const struct job_error error = {.class_ = REDRIVE_CLASS_PERMANENT,
                                    .type = STR("ParentEnded"),
                                    .message = skip_message(edge, parent, message)};
    const struct change_move skip = {
        .seq = edge->child,
        .kind = MOVE_SKIP,
        .reason = REDRIVE_REASON_SKIPPED,
        .error = error,
        .fingerprint = fingerprint(error.type, error.class_, error.message),
    };
    return store_ops(store)->move(store, CHANGES(&skip, 1), ret, err);
}

static void tell_skipped(struct engine *e, const struct job *job, struct str message)
{
    struct engine_event event = event_of(e, ENGINE_EVENT_CANCELLED, job);
    event.reason = REDRIVE_REASON_SKIPPED;
    event.message = message;
    event_add(e, &event);
}

int after_skip(struct engine *e, const struct job *child, const struct job_edge *edge,
               const struct ended_job *parent, struct move_result *ret, struct redrive_err *err)
{
    char message[MESSAGE_MAX];
    int rc = after_skip_in(e->store, edge, parent, ret, err);
    if (rc == 0 && ret->code == 0)
        tell_skipped(e, child, arena_str(&e->arena, skip_message(edge, parent, message)));
    return rc;
}

/* Cancels the child of an edge that is missed. 1: its own children have to be looked at, and *ret
 * is set. `decided` is how many of its edges are. */
static int skip_child(struct engine *e, const struct job_edge *edge, const struct ended_job *parent,
                      uint32_t decided, struct ended_job *ret, struct redrive_err *err)
{
    const struct edge_move release = {edge->child, decided};
    struct move_result result = {0};
    struct job_page page = {0};
    int rc = engine_find(e, (struct str){0}, (struct str){0}, edge->child, &page, err);
    if (rc > 0) {
        rc = after_skip(e, &page.jobs[0], edge, parent, &result, err);
        *ret = (struct ended_job){edge->child, REDRIVE_STATE_CANCELLED, false,
                                  arena_str(&e->arena, page.jobs[0].spec.id)};
    } else if (rc == 0) {
        /* It was removed, or it was submitted by another operation of this transaction, and cannot
         * be read yet: then each operation is made in a transaction of its own. */
        rc = after_skip_in(e->store, edge, parent, &result, err);
        if (rc == 0 && result.code == 0)
            rc = err_set(err, REDRIVE_E_STATE, "a job that comes in is skipped at once");
    }
    job_page_release(&page);
    /* One that was ended while it waited must not wait for this parent when it is redriven. */
    if (rc == 0 && result.code == REDRIVE_E_STATE && state_has_ended(result.state))
        return e->ops->move(e->store, RELEASES(&release, 1), &result, err);
    return rc < 0 ? rc : result.code == 0 && result.children > 0;
}

/* ---- Edges of parents that have ended -------------------------------------------------------- */

struct work {
    struct ended_job *jobs; /* by seq */
    size_t n;
};

static const struct ended_job *parent_of(const struct work *work, const struct job_edge *edge)
{
    const struct ended_job key = {.seq = edge->parent};
    return bsearch(&key, work->jobs, work->n, sizeof key, by_seq);
}

/* Leaves only those edges in the page that are decided now, with their outcomes, by child. */
static void decide_edges(struct edge_page *page, const struct work *work)
{
    size_t n = 0;
    for (size_t i = 0; i < page->n; i++) {
        struct job_edge edge = page->edges[i];
        const struct ended_job *parent = parent_of(work, &edge);
        if (edge.outcome != AFTER_OPEN || !parent)
            continue;
        edge.outcome = after_decide(edge.rule, parent->state, parent->is_gone);
        if (edge.outcome != AFTER_OPEN)
            page->edges[n++] = edge;
    }
    page->n = n;
    if (n > 1)
        qsort(page->edges, n, sizeof *page->edges, by_child);
}

static int release_children(struct engine *e, const struct edge_move *moves, size_t n,
                            struct redrive_err *err)
{
    struct move_result *results = arena_array(&e->arena, n, sizeof *results);
    if (n == 0)
        return 0;
    if (!results)
        return err_nomem(err);
    int rc = e->ops->move(e->store, RELEASES(moves, n), results, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (results[i].code != 0)
            continue;
        if (results[i].state == REDRIVE_STATE_QUEUED)
            engine_made_some_ready(e);
        if (results[i].state == REDRIVE_STATE_SCHEDULED)
            engine_waits_until(e, e->now_ms);
    }
    return rc;
}

/* Releases or skips the children of edges that were decided; `next` gets those that were skipped
 * and have children. */
static int move_children(struct engine *e, const struct edge_page *page, const struct work *work,
                         struct work *next, struct redrive_err *err)
{
    struct edge_move *releases = arena_array(&e->arena, page->n, sizeof *releases);
    size_t n = 0;
    int rc = 0;
    next->jobs = arena_array(&e->arena, page->n, sizeof *next->jobs);
    if (!releases || !next->jobs)
        return err_nomem(err);
    for (size_t i = 0, end; i < page->n && rc >= 0; i = end) {
        const struct job_edge *missed = NULL;
        for (end = i; end < page->n && page->edges[end].child == page->edges[i].child; end++)
            if (page->edges[end].outcome == AFTER_MISSED && !missed)
                missed = &page->edges[end];
        const uint32_t decided = (uint32_t)(end - i);
        if (!missed) {
            releases[n++] = (struct edge_move){page->edges[i].child, decided};
            continue;
        }
        rc = skip_child(e, missed, parent_of(work, missed), decided, &next->jobs[next->n], err);
        next->n += rc > 0;
    }
    return rc < 0 ? rc : release_children(e, releases, n, err);
}

static int end_parents(struct engine *e, const struct work *work, struct work *next,
                       struct redrive_err *err)
{
    struct edge_page page = {0};
    int64_t *seqs = arena_array(&e->arena, work->n, sizeof *seqs);
    if (!seqs)
        return err_nomem(err);
    qsort(work->jobs, work->n, sizeof *work->jobs, by_seq);
    for (size_t i = 0; i < work->n; i++)
        seqs[i] = work->jobs[i].seq;
    int rc = e->ops->edges(e->store, EDGES_TO_CHILDREN, seqs, work->n, &page, err);
    if (rc == 0)
        decide_edges(&page, work);
    if (rc == 0 && page.n > 0) {
        e->touched = true;
        rc = e->ops->edges_put(e->store, page.edges, page.n, err);
        if (rc == 0)
            rc = move_children(e, &page, work, next, err);
    }
    edge_page_release(&page);
    return rc;
}

/* The jobs of one round, some at a time. */
static int end_round(struct engine *e, const struct work *work, struct work *next,
                     struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < work->n; i += STORE_PAGE_MAX) {
        const size_t n = work->n - i < STORE_PAGE_MAX ? work->n - i : STORE_PAGE_MAX;
        const struct work some = {work->jobs + i, n};
        struct work skipped = {0};
        rc = end_parents(e, &some, &skipped, err);
        if (rc < 0 || skipped.n == 0)
            continue;
        struct ended_job *all = arena_array(&e->arena, next->n + skipped.n, sizeof *all);
        if (!all)
            return err_nomem(err);
        if (next->n > 0)
            memcpy(all, next->jobs, next->n * sizeof *all);
        memcpy(all + next->n, skipped.jobs, skipped.n * sizeof *all);
        *next = (struct work){all, next->n + skipped.n};
    }
    return rc;
}

int after_ended(struct engine *e, const struct ended_job *jobs, size_t n, struct redrive_err *err)
{
    struct work work = {arena_array(&e->arena, n, sizeof *jobs), n};
    int rc = 0;
    if (n == 0)
        return 0;
    if (!work.jobs)
        return err_nomem(err);
    memcpy(work.jobs, jobs, n * sizeof *jobs);
    while (rc == 0 && work.n > 0) {
        struct work next = {0};
        rc = end_round(e, &work, &next, err);
        work = next;
    }
    return rc;
}

/* ---- Removal --------------------------------------------------------------------------------- */

int after_removed(struct engine *e, const struct job *job, struct redrive_err *err)
{
    const struct ended_job gone = {job->status.seq, job->status.state, true, job->spec.id};
    if (job->status.children == 0 || !state_has_ended(job->status.state))
        return 0;
    return after_ended(e, &gone, 1, err);
}

int after_was_removed(const struct job *job, const struct move_result *result,
                      struct redrive_err *err)
{
    if (result->code != 0 && !state_has_ended(job->status.state))
        return 0; /* refused as it should be */
    if (result->code != 0 ? job->status.children == 0 : result->children == job->status.children)
        return 0;
    return err_set(err, REDRIVE_E_CANCELLED, "another transaction was in the way");
}

/* Whether a child lives, from a map of those that were looked at: 1 no, 2 yes. */
static int child_lives(struct engine *e, struct map *known, int64_t child, struct redrive_err *err)
{
    const struct str key = {(const char *)&child, sizeof child};
    const int64_t seen = map_get_number(known, key);
    struct job_page page = {0};
    if (seen != 0)
        return seen == 2;
    int rc = engine_find(e, (struct str){0}, (struct str){0}, child, &page, err);
    const bool lives = rc > 0 && !state_has_ended(page.jobs[0].status.state);
    job_page_release(&page);
    if (rc >= 0 && map_put_number(known, key, lives ? 2 : 1) != 0)
        rc = err_nomem(err);
    return rc < 0 ? rc : lives;
}

/* The first edge of a parent; edges are by parent. */
static size_t first_edge(const struct edge_page *edges, int64_t parent)
{
    size_t low = 0, high = edges->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (edges->edges[middle].parent < parent)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Marks the jobs of a page that have a live child. */
static int mark_needed(struct engine *e, const struct job_page *page, const struct edge_page *edges,
                       bool *needed, struct redrive_err *err)
{
    struct map known;
    int rc = 0;
    map_init(&known, e->running.map.seed);
    for (size_t i = 0; rc >= 0 && i < page->n; i++) {
        const int64_t seq = page->jobs[i].status.seq;
        for (size_t k = first_edge(edges, seq);
             rc >= 0 && !needed[i] && k < edges->n && edges->edges[k].parent == seq; k++) {
            rc = child_lives(e, &known, edges->edges[k].child, err);
            needed[i] = rc > 0;
        }
    }
    map_release(&known);
    return rc < 0 ? rc : 0;
}

int after_leave_needed(struct engine *e, struct job_page *page, struct redrive_err *err)
{
    int64_t *seqs = arena_array(&e->arena, page->n, sizeof *seqs);
    bool *needed = arena_array(&e->arena, page->n, sizeof *needed);
    struct edge_page edges = {0};
    size_t n = 0, left = 0;
    if (page->n > 0 && (!seqs || !needed))
        return err_nomem(err);
    for (size_t i = 0; i < page->n; i++)
        if (page->jobs[i].status.children > 0)
            seqs[n++] = page->jobs[i].status.seq;
    if (n == 0)
        return 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i += STORE_PAGE_MAX) {
        const size_t some = n - i < STORE_PAGE_MAX ? n - i : STORE_PAGE_MAX;
        rc = e->ops->edges(e->store, EDGES_TO_CHILDREN, seqs + i, some, &edges, err);
        if (rc == 0)
            rc = mark_needed(e, page, &edges, needed, err);
        edge_page_release(&edges);
    }
    for (size_t i = 0; rc == 0 && i < page->n; i++)
        if (!needed[i])
            page->jobs[left++] = page->jobs[i];
    if (rc == 0)
        page->n = left;
    return rc;
}
