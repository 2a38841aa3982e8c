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

static struct change_move skip_move(const struct job_edge *edge, struct str message)
{
    const struct job_error error = {
        .class_ = REDRIVE_CLASS_PERMANENT, .type = STR("ParentEnded"), .message = message};
    return (struct change_move){
        .seq = edge->child,
        .kind = MOVE_SKIP,
        .reason = REDRIVE_REASON_SKIPPED,
        .error = error,
        .fingerprint = fingerprint(error.type, error.class_, error.message),
    };
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
    const struct change_move skip = skip_move(edge, skip_message(edge, parent, message));
    int rc = e->ops->move(e->store, CHANGES(&skip, 1), ret, err);
    if (rc == 0 && ret->code == 0)
        tell_skipped(e, child, skip.error.message);
    return rc;
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
    edge_page_sort(page, EDGES_FROM_PARENTS);
}

static int release_children(const struct after_walk *walk, const struct edge_move *moves, size_t n,
                            struct redrive_err *err)
{
    struct move_result *results = arena_array(walk->arena, n, sizeof *results);
    if (n == 0)
        return 0;
    if (!results)
        return err_nomem(err);
    int rc = store_ops(walk->store)->move(walk->store, RELEASES(moves, n), results, err);
    for (size_t i = 0; rc == 0 && walk->moved && i < n; i++)
        if (results[i].code == 0)
            walk->moved(walk->ctx, results[i].state, NULL, (struct str){0});
    return rc;
}

/* A child that is skipped because of an edge, and how many of its edges are decided now. */
struct skipped {
    const struct job_edge *edge;
    uint32_t decided;
};

/* The children are read with their payloads: some at a time. */
#define CHILDREN_AT_ONCE 64

/* Of children that were told to skip: tells of those that did, and adds those with children to
 * `next`. One that was ended while it waited must not wait for this parent when it is redriven. */
static int take_skipped(const struct after_walk *walk, const struct skipped *skipped, size_t n,
                        const struct change_move *moves, const struct move_result *results,
                        const struct job_page *page, struct work *next, struct redrive_err *err)
{
    struct edge_move releases[CHILDREN_AT_ONCE];
    struct move_result released[CHILDREN_AT_ONCE];
    size_t n_releases = 0;
    for (size_t i = 0, at = 0; i < n; i++) {
        const bool is_there = at < page->n && page->jobs[at].status.seq == moves[i].seq;
        const struct job *job = is_there ? &page->jobs[at++] : NULL;
        if (results[i].code == REDRIVE_E_STATE && state_has_ended(results[i].state))
            releases[n_releases++] = (struct edge_move){moves[i].seq, skipped[i].decided};
        if (results[i].code != 0 || !job)
            continue;
        if (walk->moved)
            walk->moved(walk->ctx, REDRIVE_STATE_CANCELLED, job, moves[i].error.message);
        if (results[i].children > 0)
            next->jobs[next->n++] =
                (struct ended_job){.seq = moves[i].seq,
                                   .state = REDRIVE_STATE_CANCELLED,
                                   .id = arena_str(walk->arena, job->spec.id),
                                   .tenant = arena_str(walk->arena, job->spec.tenant),
                                   .children = results[i].children};
    }
    return n_releases == 0 ? 0
                           : store_ops(walk->store)
                                 ->move(walk->store, RELEASES(releases, n_releases), released, err);
}

static int skip_some(const struct after_walk *walk, const struct skipped *skipped, size_t n,
                     const struct work *work, struct work *next, struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(walk->store);
    int64_t seqs[CHILDREN_AT_ONCE];
    struct change_move moves[CHILDREN_AT_ONCE];
    struct move_result results[CHILDREN_AT_ONCE] = {0};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    for (size_t i = 0; i < n; i++) {
        char message[MESSAGE_MAX];
        const struct job_edge *edge = skipped[i].edge;
        seqs[i] = edge->child;
        moves[i] = skip_move(
            edge, arena_str(walk->arena, skip_message(edge, parent_of(work, edge), message)));
    }
    int rc = ops->find(walk->store, seqs, n, &page, err);
    if (rc == 0)
        rc = ops->move(walk->store, CHANGES(moves, n), results, err);
    return rc < 0 ? rc : take_skipped(walk, skipped, n, moves, results, &page, next, err);
}

/* Releases or skips the children of edges that were decided; `next` gets those that were skipped
 * and have children. */
static int move_children(const struct after_walk *walk, const struct edge_page *page,
                         const struct work *work, struct work *next, struct redrive_err *err)
{
    struct edge_move *releases = arena_array(walk->arena, page->n, sizeof *releases);
    struct skipped *skipped = arena_array(walk->arena, page->n, sizeof *skipped);
    size_t n = 0, n_skipped = 0;
    int rc = 0;
    next->jobs = arena_array(walk->arena, page->n, sizeof *next->jobs);
    if (!releases || !skipped || !next->jobs)
        return err_nomem(err);
    for (size_t i = 0, end; i < page->n; i = end) {
        const struct job_edge *missed = NULL;
        for (end = i; end < page->n && page->edges[end].child == page->edges[i].child; end++)
            if (page->edges[end].outcome == AFTER_MISSED && !missed)
                missed = &page->edges[end];
        const uint32_t decided = (uint32_t)(end - i);
        if (missed)
            skipped[n_skipped++] = (struct skipped){missed, decided};
        else
            releases[n++] = (struct edge_move){page->edges[i].child, decided};
    }
    for (size_t i = 0; rc == 0 && i < n_skipped; i += CHILDREN_AT_ONCE) {
        const size_t left = n_skipped - i;
        rc = skip_some(walk, skipped + i, left < CHILDREN_AT_ONCE ? left : CHILDREN_AT_ONCE, work,
                       next, err);
    }
    return rc < 0 ? rc : release_children(walk, releases, n, err);
}

/* Decides those of the edges that are open and whose parents are among the work. */
static int settle_edges(const struct after_walk *walk, struct edge_page *page,
                        const struct work *work, struct work *next, struct redrive_err *err)
{
    decide_edges(page, work);
    if (page->n == 0)
        return 0;
    int rc = store_ops(walk->store)->edges_put(walk->store, page->edges, page->n, err);
    return rc < 0 ? rc : move_children(walk, page, work, next, err);
}

static int end_parents(const struct after_walk *walk, const struct work *work, struct work *next,
                       struct redrive_err *err)
{
    RELEASED_BY(edge_page_release) struct edge_page page = {0};
    int64_t *seqs = arena_array(walk->arena, work->n, sizeof *seqs);
    if (!seqs)
        return err_nomem(err);
    qsort(work->jobs, work->n, sizeof *work->jobs, by_seq);
    for (size_t i = 0; i < work->n; i++)
        seqs[i] = work->jobs[i].seq;
    int rc =
        store_ops(walk->store)->edges(walk->store, EDGES_TO_CHILDREN, seqs, work->n, &page, err);
    return rc < 0 ? rc : settle_edges(walk, &page, work, next, err);
}

/* Adds jobs to the work, which is a new array then. */
static int add_work(const struct after_walk *walk, struct work *work, const struct work *more,
                    struct redrive_err *err)
{
    struct ended_job *all = arena_array(walk->arena, work->n + more->n, sizeof *all);
    if (!all)
        return err_nomem(err);
    if (work->n > 0)
        memcpy(all, work->jobs, work->n * sizeof *all);
    memcpy(all + work->n, more->jobs, more->n * sizeof *all);
    *work = (struct work){all, work->n + more->n};
    return 0;
}

/* The jobs of one round, some at a time. */
static int end_round(const struct after_walk *walk, const struct work *work, struct work *next,
                     struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < work->n; i += STORE_PAGE_MAX) {
        const size_t n = work->n - i < STORE_PAGE_MAX ? work->n - i : STORE_PAGE_MAX;
        const struct work some = {work->jobs + i, n};
        struct work skipped = {0};
        rc = end_parents(walk, &some, &skipped, err);
        if (rc == 0 && skipped.n > 0)
            rc = add_work(walk, next, &skipped, err);
    }
    return rc;
}

/* How many of the jobs have no more children than there is room for. Those that the caller has
 * ended need none; the first one of the walk is decided in any case. */
static size_t count_fitting(const struct work *work, struct after_rest *rest, bool is_first_round)
{
    size_t n = 0;
    if (!rest)
        return work->n;
    for (; n < work->n; n++) {
        const size_t children = work->jobs[n].children;
        const bool fits = children == 0 || (children <= rest->room && rest->rounds > 0);
        if (!fits && !(is_first_round && n == 0))
            break;
        rest->room -= children < rest->room ? children : rest->room;
    }
    rest->rounds -= n > 0 && rest->rounds > 0;
    return n;
}

int after_walk(const struct after_walk *walk, struct ended_job *jobs, size_t n,
               struct redrive_err *err)
{
    struct work work = {jobs, n};
    int rc = 0;
    for (bool is_first = true; rc == 0 && work.n > 0; is_first = false) {
        struct work next = {0};
        const struct work now = {work.jobs, count_fitting(&work, walk->rest, is_first)};
        const struct work left = {work.jobs + now.n, work.n - now.n};
        if (now.n == 0) {
            walk->rest->jobs = work.jobs;
            walk->rest->n = work.n;
            break;
        }
        rc = end_round(walk, &now, &next, err);
        if (rc == 0 && left.n > 0)
            rc = add_work(walk, &next, &left, err);
        work = next;
    }
    return rc == 0 && walk->arena->failed ? err_nomem(err) : rc;
}

int after_walk_edges(const struct after_walk *walk, struct job_edge *edges, size_t n,
                     struct ended_job *parents, size_t n_parents, struct redrive_err *err)
{
    const struct work work = {parents, n_parents};
    struct edge_page page = {.edges = edges, .n = n};
    struct work next = {0};
    qsort(parents, n_parents, sizeof *parents, by_seq);
    int rc = settle_edges(walk, &page, &work, &next, err);
    return rc < 0 ? rc : after_walk(walk, next.jobs, next.n, err);
}

/* ---- In an engine ---------------------------------------------------------------------------- */

static void child_moved(void *ctx, enum redrive_state state, const struct job *skipped,
                        struct str message)
{
    struct engine *e = ctx;
    if (skipped)
        tell_skipped(e, skipped, message);
    if (state == REDRIVE_STATE_QUEUED)
        engine_made_some_ready(e);
    if (state == REDRIVE_STATE_SCHEDULED)
        engine_waits_until(e, e->now_ms);
}

/* What the transaction may still do. */
static struct after_rest rest_of(const struct engine *e)
{
    const size_t own = e->options.after_max;
    const size_t room = own > 0 ? own : AFTER_DECIDED_MAX;
    const size_t rounds = own > 0 ? own : AFTER_ROUNDS_MAX;
    return (struct after_rest){.room = room - e->n_decided, .rounds = rounds - e->n_rounds};
}

bool after_is_enough(const struct engine *e)
{
    const struct after_rest rest = rest_of(e);
    return rest.room == 0 || rest.rounds == 0;
}

int after_ended(struct engine *e, struct ended_job *jobs, size_t n, struct redrive_err *err)
{
    const struct after_rest before = rest_of(e);
    struct after_rest rest = before;
    const struct after_walk walk = {
        .store = e->store, .arena = &e->arena, .moved = child_moved, .ctx = e, .rest = &rest};
    e->touched |= n > 0;
    int rc = after_walk(&walk, jobs, n, err);
    e->n_decided += before.room - rest.room;
    e->n_rounds += before.rounds - rest.rounds;
    return rc == 0 && rest.n > 0 ? after_put_off(e, rest.jobs, rest.n, err) : rc;
}

/* ---- Removal --------------------------------------------------------------------------------- */

int after_removed(struct engine *e, const struct job *job, struct redrive_err *err)
{
    struct ended_job gone = {
        .seq = job->status.seq, .state = job->status.state, .is_gone = true, .id = job->spec.id};
    if (job->status.children == 0 || !state_has_ended(job->status.state))
        return 0;
    /* Its children may be left to a tick, perhaps of another process. */
    int rc = job->status.reason == REDRIVE_REASON_SKIPPED ? after_hold(e, &gone, 1, NULL, err) : 0;
    return rc < 0 ? rc : after_ended(e, &gone, 1, err);
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

/* What is known of children, by seq. */
enum known {
    IS_UNKNOWN, /* not in the map */
    IS_ASKED_FOR,
    HAS_ENDED,
    IS_ALIVE,
};

struct children {
    struct map known;
    int64_t asked[CHILDREN_AT_ONCE];
    size_t n;
};

static int know(struct children *c, int64_t child, enum known what, struct redrive_err *err)
{
    const struct str key = {(const char *)&child, sizeof child};
    return map_put_number(&c->known, key, what) == 0 ? 0 : err_nomem(err);
}

static enum known known_of(const struct children *c, int64_t child)
{
    const struct str key = {(const char *)&child, sizeof child};
    return (enum known)map_get_number(&c->known, key);
}

/* Whether a child of the parent is alive: IS_ALIVE, HAS_ENDED for all of them, or IS_ASKED_FOR. *at
 * is the first of its edges whose child is not known to have ended, so that none is looked at again
 * and again. */
static int look_at_children(struct children *c, const struct edge_page *edges, int64_t parent,
                            size_t *at, struct redrive_err *err)
{
    const struct job_edge *edge = edges->edges;
    while (*at < edges->n && edge[*at].parent == parent &&
           known_of(c, edge[*at].child) == HAS_ENDED)
        ++*at;
    if (*at == edges->n || edge[*at].parent != parent)
        return HAS_ENDED;
    for (size_t k = *at; k < edges->n && edge[k].parent == parent; k++) {
        const enum known known = known_of(c, edge[k].child);
        if (known == IS_ALIVE)
            return IS_ALIVE;
        if (c->n == CHILDREN_AT_ONCE)
            break;
        if (known == IS_UNKNOWN) {
            c->asked[c->n++] = edge[k].child;
            if (know(c, edge[k].child, IS_ASKED_FOR, err) < 0)
                return REDRIVE_E_NOMEM;
        }
    }
    return IS_ASKED_FOR;
}

/* Reads those that were asked for. One that is not there any more has ended; one that cannot be
 * read may be alive. */
static int read_children(struct engine *e, struct children *c, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = e->ops->find(e->store, c->asked, c->n, &page, err);
    for (size_t i = 0, at = 0; rc == 0 && i < c->n; i++) {
        const bool is_there = at < page.n && page.jobs[at].status.seq == c->asked[i];
        const bool lives =
            is_there ? !state_has_ended(page.jobs[at].status.state) : page.n_unreadable > 0;
        at += is_there;
        rc = know(c, c->asked[i], lives ? IS_ALIVE : HAS_ENDED, err);
    }
    c->n = 0;
    return rc;
}

/* Marks the jobs of a page that have a live child. */
static int mark_needed(struct engine *e, const struct job_page *page, const struct edge_page *edges,
                       bool *needed, struct redrive_err *err)
{
    struct children children = {.n = 0};
    size_t *at = arena_array(&e->arena, page->n, sizeof *at);
    bool is_known = false;
    int rc = 0;
    if (!at)
        return err_nomem(err);
    for (size_t i = 0; i < page->n; i++)
        at[i] = edge_page_first(edges, EDGES_TO_CHILDREN, page->jobs[i].status.seq);
    map_init(&children.known, e->map_seed);
    while (rc >= 0 && !is_known) {
        is_known = true;
        for (size_t i = 0; rc >= 0 && i < page->n; i++) {
            if (needed[i])
                continue;
            rc = look_at_children(&children, edges, page->jobs[i].status.seq, &at[i], err);
            needed[i] = rc == IS_ALIVE;
            is_known = is_known && rc != IS_ASKED_FOR;
        }
        if (rc >= 0 && children.n > 0)
            rc = read_children(e, &children, err);
    }
    map_release(&children.known);
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
