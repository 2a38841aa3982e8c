/* workflow.c - a workflow of a server, read back into structs. */
#include "base/err.h"
#include "base/mem/map.h"
#include "cli/remote/remote.h"

struct written_workflow {
    struct str jobs; /* JSON */
    bool more;
};

static const struct unpack WORKFLOW[] = {
    {.key = "jobs", UNPACK_JSON, offsetof(struct written_workflow, jobs)},
    {.key = "more", UNPACK_BOOL, offsetof(struct written_workflow, more)},
    {0},
};

struct written_member {
    struct workflow_job job;
    struct str after; /* JSON */
};

#define MEMBER(m) offsetof(struct written_member, m)
static const struct unpack MEMBERS[] = {
    {.key = "id", UNPACK_STR, MEMBER(job.id)},
    {.key = "task", UNPACK_STR, MEMBER(job.task)},
    {.key = "state", UNPACK_WORD, MEMBER(job.state), .words = VOCABULARY_STATE},
    {.key = "attempts", UNPACK_U32, MEMBER(job.attempts)},
    {.key = "after", UNPACK_JSON, MEMBER(after)},
    {0},
};

/* Adds the edges of one job to those that `capacity` has room for; `places` has the jobs before it,
 * by their ids. */
static int add_edges(struct workflow *ret, size_t *capacity, const struct map *places, size_t child,
                     struct str json, struct redrive_err *err)
{
    struct unpack_list list = {0};
    int rc = json.len > 0 ? unpack_array(json, REMOTE_EDGES, sizeof(struct edge_words), NULL,
                                         &ret->arena, &list, err)
                          : 0;
    if (rc < 0 || list.n == 0)
        return rc;
    if (ret->n_edges + list.n > *capacity) {
        *capacity = 2 * (ret->n_edges + list.n);
        struct workflow_edge *grown = arena_array(&ret->arena, *capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (ret->n_edges > 0)
            memcpy(grown, ret->edges, ret->n_edges * sizeof *grown);
        ret->edges = grown;
    }
    struct workflow_edge *all = ret->edges;
    for (size_t i = 0; i < list.n; i++) {
        const struct edge_view view = edge_view_of((const struct edge_words *)list.rows + i);
        const int64_t parent = view.id.len > 0 ? map_get_number(places, view.id) : 0;
        if (parent > 0)
            all[ret->n_edges++] = (struct workflow_edge){(size_t)parent - 1, child, view.edge.rule,
                                                         view.edge.outcome};
    }
    return 0;
}

static int take_members(const struct unpack_list *list, struct workflow *ret,
                        struct redrive_err *err)
{
    const struct written_member *written = list->rows;
    struct map places;
    size_t capacity = 0;
    int rc = 0;
    ret->jobs = arena_array(&ret->arena, list->n, sizeof *ret->jobs);
    if (!ret->jobs)
        return err_nomem(err);
    map_init(&places, 0);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        ret->jobs[ret->n_jobs++] = written[i].job;
        rc = add_edges(ret, &capacity, &places, i, written[i].after, err);
        if (rc == 0 && map_put_number(&places, written[i].job.id, (int64_t)i + 1) != 0)
            rc = err_nomem(err);
    }
    map_release(&places);
    return rc;
}

int remote_workflow(struct remote *remote, struct str id, struct workflow *ret,
                    struct redrive_err *err)
{
    const struct remote_request request = {
        .method = "GET", .before = "/jobs/", .name = id, .after = "/workflow"};
    struct written_workflow written = {0};
    struct unpack_list list = {0};
    *ret = (struct workflow){0};
    int rc = remote_ask(remote, &request, WORKFLOW, &ret->arena, &written, err);
    if (rc >= 0)
        rc = unpack_array(written.jobs, MEMBERS, sizeof(struct written_member), NULL, &ret->arena,
                          &list, err);
    if (rc >= 0)
        rc = take_members(&list, ret, err);
    ret->more = written.more;
    return rc == 0 && ret->arena.failed ? err_nomem(err) : rc;
}
