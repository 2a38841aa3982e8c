/* workflow.c - reads the jobs that edges connect. */
#include "engine/report/workflow.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"

void workflow_release(struct workflow *workflow)
{
    arena_release(&workflow->arena);
    *workflow = (struct workflow){0};
}

/* ---- Which jobs, and which edges ------------------------------------------------------------- */

/* A walk over edges, from job to job, the nearest first. */
struct walk {
    struct store *store;
    int64_t seqs[WORKFLOW_JOBS_MAX]; /* in the order in which they were met */
    size_t n;
    struct map places; /* of a seq: its index + 1 */
    struct job_edge *edges;
    size_t n_edges;
    size_t capacity;
    bool more;
};

static struct str key_of(const int64_t *seq)
{
    return (struct str){(const char *)seq, sizeof *seq};
}

static int meet(struct walk *walk, int64_t seq, struct redrive_err *err)
{
    if (map_get_number(&walk->places, key_of(&seq)) != 0)
        return 0;
    if (walk->n == WORKFLOW_JOBS_MAX) {
        walk->more = true;
        return 0;
    }
    walk->seqs[walk->n++] = seq;
    return map_put_number(&walk->places, key_of(&seq), (int64_t)walk->n) == 0 ? 0 : err_nomem(err);
}

/* Every edge of the workflow is met once as one to a child. */
static int keep_edge(struct walk *walk, const struct job_edge *edge, struct redrive_err *err)
{
    if (walk->n_edges == walk->capacity) {
        const size_t capacity = walk->capacity * 2 + 64;
        struct job_edge *grown = realloc(walk->edges, capacity * sizeof *grown);
        if (!grown)
            return err_nomem(err);
        walk->edges = grown;
        walk->capacity = capacity;
    }
    walk->edges[walk->n_edges++] = *edge;
    return 0;
}

static int follow(struct walk *walk, enum edge_side side, const int64_t *seqs, size_t n,
                  struct redrive_err *err)
{
    RELEASED_BY(edge_page_release) struct edge_page page = {0};
    int rc = store_ops(walk->store)->edges(walk->store, side, seqs, n, &page, err);
    for (size_t i = 0; rc == 0 && i < page.n; i++) {
        const struct job_edge *edge = &page.edges[i];
        rc = meet(walk, side == EDGES_TO_CHILDREN ? edge->child : edge->parent, err);
        if (rc == 0 && side == EDGES_TO_CHILDREN)
            rc = keep_edge(walk, edge, err);
    }
    return rc;
}

static int walk_from(struct walk *walk, int64_t seq, struct redrive_err *err)
{
    int rc = meet(walk, seq, err);
    for (size_t at = 0; rc == 0 && at < walk->n;) {
        int64_t some[STORE_PAGE_MAX];
        const size_t left = walk->n - at, n = left < STORE_PAGE_MAX ? left : STORE_PAGE_MAX;
        memcpy(some, walk->seqs + at, n * sizeof *some);
        at += n;
        rc = follow(walk, EDGES_FROM_PARENTS, some, n, err);
        if (rc == 0)
            rc = follow(walk, EDGES_TO_CHILDREN, some, n, err);
    }
    return rc;
}

/* ---- The graph ------------------------------------------------------------------------------- */

static int by_number(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int by_child(const void *left, const void *right)
{
    const struct workflow_edge *a = left, *b = right;
    return a->child != b->child ? (a->child > b->child) - (a->child < b->child)
                                : (a->parent > b->parent) - (a->parent < b->parent);
}

static int read_job(struct store *store, struct workflow *workflow, struct workflow_job *ret,
                    struct redrive_err *err)
{
    const struct job_filter filter = {.after_seq = ret->seq - 1, .limit = 1};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = store_ops(store)->list(store, &filter, &page, err);
    if (rc == 0 && page.n == 1 && page.jobs[0].status.seq == ret->seq) {
        const struct job *job = &page.jobs[0];
        ret->id = arena_str(&workflow->arena, job->spec.id);
        ret->task = arena_str(&workflow->arena, job->spec.task);
        ret->state = job->status.state;
        ret->attempts = job->status.attempts;
    }
    return rc;
}

/* From here on `places` has the indexes of the jobs that are there, and 0 for others. */
static int take_jobs(struct walk *walk, struct workflow *ret, struct redrive_err *err)
{
    struct workflow_job *jobs = arena_array(&ret->arena, walk->n, sizeof *jobs);
    size_t n = 0;
    int rc = 0;
    if (!jobs)
        return err_nomem(err);
    qsort(walk->seqs, walk->n, sizeof *walk->seqs, by_number);
    for (size_t i = 0; rc == 0 && i < walk->n; i++) {
        jobs[n].seq = walk->seqs[i];
        rc = read_job(walk->store, ret, &jobs[n], err);
        const bool is_there = rc == 0 && jobs[n].id.len > 0;
        n += is_there;
        if (rc == 0 &&
            map_put_number(&walk->places, key_of(&walk->seqs[i]), is_there ? (int64_t)n : 0) != 0)
            rc = err_nomem(err);
    }
    ret->jobs = jobs;
    ret->n_jobs = n;
    return rc;
}

static int take_edges(const struct walk *walk, struct workflow *ret, struct redrive_err *err)
{
    struct workflow_edge *edges = arena_array(&ret->arena, walk->n_edges, sizeof *edges);
    size_t n = 0;
    if (!edges)
        return err_nomem(err);
    for (size_t i = 0; i < walk->n_edges; i++) {
        const struct job_edge *edge = &walk->edges[i];
        const int64_t parent = map_get_number(&walk->places, key_of(&edge->parent)),
                      child = map_get_number(&walk->places, key_of(&edge->child));
        if (parent > 0 && child > 0)
            edges[n++] = (struct workflow_edge){(size_t)parent - 1, (size_t)child - 1, edge->rule,
                                                edge->outcome};
    }
    if (n > 1)
        qsort(edges, n, sizeof *edges, by_child);
    ret->edges = edges;
    ret->n_edges = n;
    return 0;
}

int workflow_read(struct store *store, const struct job *job, struct workflow *ret,
                  struct redrive_err *err)
{
    struct walk *walk = calloc(1, sizeof *walk);
    *ret = (struct workflow){0};
    if (!walk)
        return err_nomem(err);
    walk->store = store;
    map_init(&walk->places, 0);
    int rc = walk_from(walk, job->status.seq, err);
    if (rc == 0)
        rc = take_jobs(walk, ret, err);
    if (rc == 0)
        rc = take_edges(walk, ret, err);
    if (rc == 0 && ret->arena.failed)
        rc = err_nomem(err);
    ret->more = walk->more;
    map_release(&walk->places);
    free(walk->edges);
    free(walk);
    if (rc < 0)
        workflow_release(ret);
    return rc;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void write_edge(struct json_writer *w, const struct workflow *workflow,
                       const struct workflow_edge *edge)
{
    json_begin_object(w);
    json_field_string(w, "id", workflow->jobs[edge->parent].id);
    json_field_cstr(w, "on", after_on_name(edge->rule.on));
    json_field_cstr(w, "on_dead", after_dead_name(edge->rule.on_dead));
    json_field_cstr(w, "outcome", after_outcome_name(edge->outcome));
    json_end_object(w);
}

void workflow_write_json(struct json_writer *w, const struct workflow *workflow)
{
    size_t at = 0;
    json_begin_object(w);
    json_open_array(w, "jobs");
    for (size_t i = 0; i < workflow->n_jobs; i++) {
        const struct workflow_job *job = &workflow->jobs[i];
        json_begin_object(w);
        json_field_string(w, "id", job->id);
        json_field_string(w, "task", job->task);
        json_field_cstr(w, "state", redrive_state_name(job->state));
        json_field_int(w, "attempts", job->attempts);
        json_open_array(w, "after");
        for (; at < workflow->n_edges && workflow->edges[at].child == i; at++)
            write_edge(w, workflow, &workflow->edges[at]);
        json_end_array(w);
        json_end_object(w);
    }
    json_end_array(w);
    json_field_bool(w, "more", workflow->more);
    json_end_object(w);
}
