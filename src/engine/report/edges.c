/* edges.c - what a job waits for, and what waits for it. */
#include "engine/report/edges.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/vocabulary.h"

void edge_views_release(struct edge_views *views)
{
    arena_release(&views->arena);
    *views = (struct edge_views){0};
}

/* Fills in the job of this seq, if it is there. */
static int read_other(struct store *store, int64_t seq, struct edge_views *views,
                      struct edge_view *ret, struct redrive_err *err)
{
    const struct job_filter filter = {.after_seq = seq - 1, .limit = 1};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = store_ops(store)->list(store, &filter, &page, err);
    if (rc == 0 && page.n == 1 && page.jobs[0].status.seq == seq) {
        ret->id = arena_str(&views->arena, page.jobs[0].spec.id);
        ret->task = arena_str(&views->arena, page.jobs[0].spec.task);
        ret->state = page.jobs[0].status.state;
    }
    return rc;
}

/* Those that are open come first: they are what the job waits for. */
static int by_outcome(const void *left, const void *right)
{
    const struct job_edge *a = left, *b = right;
    const bool is_a = a->outcome == AFTER_OPEN, is_b = b->outcome == AFTER_OPEN;
    if (is_a != is_b)
        return is_a ? -1 : 1;
    return a->parent != b->parent ? (a->parent > b->parent) - (a->parent < b->parent)
                                  : (a->child > b->child) - (a->child < b->child);
}

static int read_side(struct store *store, enum edge_side side, int64_t seq,
                     struct edge_views *views, struct edge_view **ret, size_t *ret_n,
                     struct redrive_err *err)
{
    RELEASED_BY(edge_page_release) struct edge_page page = {0};
    int rc = store_ops(store)->edges(store, side, &seq, 1, &page, err);
    if (page.n > 1)
        qsort(page.edges, page.n, sizeof *page.edges, by_outcome);
    const size_t n = page.n < EDGES_SHOWN ? page.n : EDGES_SHOWN;
    struct edge_view *found = arena_array(&views->arena, n, sizeof *found);
    if (rc == 0 && !found)
        rc = err_nomem(err);
    for (size_t i = 0; rc == 0 && found && i < n; i++) {
        const struct job_edge *edge = &page.edges[i];
        found[i].edge = *edge;
        rc = read_other(store, side == EDGES_TO_CHILDREN ? edge->child : edge->parent, views,
                        &found[i], err);
    }
    *ret = found;
    *ret_n = rc == 0 ? n : 0;
    return rc;
}

int edge_views_read(struct store *store, const struct job *job, struct edge_views *ret,
                    struct redrive_err *err)
{
    const int64_t seq = job->status.seq;
    int rc = 0;
    *ret = (struct edge_views){0};
    if (job->status.parents > 0)
        rc = read_side(store, EDGES_FROM_PARENTS, seq, ret, &ret->parents, &ret->n_parents, err);
    if (rc == 0 && job->status.children > 0)
        rc = read_side(store, EDGES_TO_CHILDREN, seq, ret, &ret->children, &ret->n_children, err);
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    if (rc < 0)
        edge_views_release(ret);
    return rc;
}

static void write_views(struct json_writer *w, const char *key, const struct edge_view *views,
                        size_t n)
{
    json_open_array(w, key);
    for (size_t i = 0; i < n; i++) {
        const struct edge_view *view = &views[i];
        const bool is_there = view->id.len > 0;
        json_begin_object(w);
        json_key(w, "id");
        if (is_there)
            json_put_string(w, view->id);
        else
            json_put_null(w);
        json_field_cstr(w, "on", after_on_name(view->edge.rule.on));
        json_field_cstr(w, "on_dead", after_dead_name(view->edge.rule.on_dead));
        json_field_cstr(w, "outcome", after_outcome_name(view->edge.outcome));
        json_field_cstr(w, "state", is_there ? redrive_state_name(view->state) : NULL);
        json_end_object(w);
    }
    json_end_array(w);
}

void edge_views_write_json(struct json_writer *w, const struct edge_views *views)
{
    write_views(w, "after", views->parents, views->n_parents);
    write_views(w, "followers", views->children, views->n_children);
}
