/* graph.c - makes a graph of the jobs of a workflow. */
#include "cli/jobs/graph.h"

#include <string.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "core/vocabulary.h"

struct grapher {
    struct workflow *graph;
    size_t capacity;   /* of its edges */
    struct map places; /* of the jobs so far, from 1 on, by their ids */
};

/* Words of a newer server leave what an edge is unless it is said. */
static struct workflow_edge edge_of(const struct object *o)
{
    struct workflow_edge edge = {0};
    const struct str outcome = object_text(o, "outcome");
    (void)after_on_find(object_text(o, "on"), &edge.rule.on);
    (void)after_dead_find(object_text(o, "on_dead"), &edge.rule.on_dead);
    for (int i = 0; i < AFTER_OUTCOME_COUNT; i++)
        if (str_is(outcome, after_outcome_name((enum after_outcome)i)))
            edge.outcome = (enum after_outcome)i;
    return edge;
}

static bool make_room(struct grapher *g)
{
    struct workflow *graph = g->graph;
    if (graph->n_edges < g->capacity)
        return true;
    g->capacity = g->capacity ? 2 * g->capacity : 64;
    struct workflow_edge *grown = arena_array(&graph->arena, g->capacity, sizeof *grown);
    if (grown && graph->n_edges > 0)
        memcpy(grown, graph->edges, graph->n_edges * sizeof *grown);
    graph->edges = grown;
    return grown != NULL;
}

/* What a job waits for; a parent comes before it, or was removed. */
static bool add_edges(struct grapher *g, const struct object *job, size_t child)
{
    struct object *edges = NULL;
    const size_t n = object_objects(job, "after", &edges);
    for (size_t i = 0; i < n; i++) {
        const struct str id = object_text(&edges[i], "id");
        const int64_t parent = id.len > 0 ? map_get_number(&g->places, id) : 0;
        if (parent <= 0)
            continue;
        if (!make_room(g))
            return false;
        struct workflow_edge edge = edge_of(&edges[i]);
        edge.parent = (size_t)parent - 1;
        edge.child = child;
        g->graph->edges[g->graph->n_edges++] = edge;
    }
    return true;
}

static bool add_job(struct grapher *g, const struct object *job)
{
    struct workflow *graph = g->graph;
    const size_t i = graph->n_jobs++;
    const int state = vocabulary_find(VOCABULARY_STATE, object_text(job, "state"));
    graph->jobs[i] = (struct workflow_job){
        .id = arena_str(&graph->arena, object_text(job, "id")),
        .task = arena_str(&graph->arena, object_text(job, "task")),
        .state = state < 0 ? REDRIVE_STATE_COUNT : (enum redrive_state)state,
        .attempts = (uint32_t)object_int(job, "attempts"),
    };
    return add_edges(g, job, i) &&
           map_put_number(&g->places, graph->jobs[i].id, (int64_t)i + 1) == 0;
}

static bool add_jobs(struct grapher *g, const struct object *jobs, size_t n)
{
    bool is_good = true;
    g->graph->jobs = arena_array(&g->graph->arena, n + 1, sizeof *g->graph->jobs);
    for (size_t i = 0; i < n && is_good; i++)
        is_good = g->graph->jobs && add_job(g, &jobs[i]);
    return is_good;
}

int graph_of(struct answer *answer, struct workflow *ret, struct redrive_err *err)
{
    const struct object o = answer->object;
    struct grapher g = {.graph = ret};
    struct object *jobs = NULL;
    const size_t n = object_objects(&o, "jobs", &jobs);
    *ret = (struct workflow){.more = object_bool(&o, "more")};
    map_init(&g.places, 0);
    const bool is_good = add_jobs(&g, jobs, n);
    map_release(&g.places);
    return is_good && !answer->arena.failed && !ret->arena.failed ? 0 : err_nomem(err);
}
