/* after_submit.c - new jobs that wait for others.
 *
 * Edges lead to jobs that are there, or that come earlier in the same operation, so that no jobs
 * can wait for each other in a circle. Parents of the same operation are submitted with the number
 * of their children. Others are told (MOVE_ADOPT), which also says in which state they are: where
 * transactions run side by side, the end of a parent and this submit do not miss each other.
 */
#include <stdio.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "core/state.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/verbs/after.h"
#include "engine/verbs/submit.h"

#define NAME_SHOWN 100

/* One name in the `after` of a job. */
struct named_parent {
    bool is_earlier;  /* `at` is its index in the operation; else it was there before */
    bool is_repeated; /* it comes in the operation, and stands for a job that was there before */
    size_t at;
    int64_t seq;
    struct str id;
    enum redrive_state state;
    enum after_outcome outcome;
};

/* The jobs of an operation that wait. */
struct after_plan {
    struct named_parent **parents; /* of each job; NULL: it waits for none, or is there already */
};

static int refuse_parent(struct submit_op *op, size_t i, int code, struct str id, const char *what,
                         const char *hint)
{
    struct redrive_err why;
    (void)err_set(&why, code, "after: job '%.*s' %s",
                  (int)(id.len < NAME_SHOWN ? id.len : NAME_SHOWN), id.ptr, what);
    if (hint)
        err_hint(&why, "%s", hint);
    op->answers[i].member = "after";
    return submit_refuse_now(op, i, &why);
}

static void refuse_count(struct submit_op *op, size_t i)
{
    struct redrive_err why;
    (void)err_set(&why, REDRIVE_E_RANGE, "after: a job waits for at most %d others, not %zu",
                  AFTER_MAX, op->specs[i].n_after);
    err_hint(&why, "let groups of them have a job each that waits for the group");
    op->answers[i].member = "after";
    (void)submit_refuse_now(op, i, &why);
}

static void refuse_crowded(struct submit_op *op, size_t i, struct str id)
{
    (void)refuse_parent(op, i, REDRIVE_E_RANGE, id,
                        "has as many jobs that wait for it as one may have", NULL);
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* Finds the parents of job `i` that the operation itself has. Refuses what is wrong by itself. */
static int find_earlier(struct submit_op *op, const struct map *ids, size_t i,
                        struct named_parent *parents, uint64_t seed, struct redrive_err *err)
{
    const struct job_spec *spec = &op->specs[i];
    RELEASED_BY(map_release) struct map seen;
    int rc = 0;
    map_init(&seen, seed);
    for (size_t k = 0; rc == 0 && k < spec->n_after && op->answers[i].code == 0; k++) {
        const struct str id = spec->after[k].id;
        const int64_t at = map_get_number(ids, id);
        parents[k] = (struct named_parent){.is_earlier = at != 0, .at = (size_t)at - 1, .id = id};
        if (id.len == 0)
            (void)refuse_parent(op, i, REDRIVE_E_INVALID, id, "has no id", NULL);
        else if (map_get_number(&seen, id) != 0)
            (void)refuse_parent(op, i, REDRIVE_E_INVALID, id, "is named twice", NULL);
        else if (str_eq(id, spec->id))
            (void)refuse_parent(op, i, REDRIVE_E_INVALID, id, "would wait for itself", NULL);
        else if (at != 0 && (size_t)at - 1 > i)
            (void)refuse_parent(op, i, REDRIVE_E_INVALID, id, "comes later in the same array",
                                "put a job before those that wait for it");
        else if (map_put_number(&seen, id, 1) != 0)
            rc = err_nomem(err);
    }
    return rc;
}

/* Reads the jobs that are named and were there before; their names are distinct. */
static int read_others(struct engine *e, struct str tenant, struct named_parent *const *others,
                       size_t n, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i += STORE_PAGE_MAX) {
        const size_t some = n - i < STORE_PAGE_MAX ? n - i : STORE_PAGE_MAX;
        struct job_name names[STORE_PAGE_MAX];
        struct job_page page = {0};
        for (size_t k = 0; k < some; k++)
            names[k] = (struct job_name){tenant, others[i + k]->id};
        rc = e->ops->lookup(e->store, names, some, &page, err);
        for (size_t k = 0, at = 0; rc == 0 && k < some && at < page.n; k++) {
            if (!str_eq(page.jobs[at].spec.id, others[i + k]->id))
                continue;
            others[i + k]->seq = page.jobs[at].status.seq;
            if (page.jobs[at].status.children >= AFTER_MAX)
                others[i + k]->seq = -1;
            at++;
        }
        job_page_release(&page);
    }
    return rc;
}

/* Looks up the parents of job `i` that are not of the operation. */
static int find_others(struct engine *e, struct submit_op *op, size_t i,
                       struct named_parent *parents, struct redrive_err *err)
{
    const size_t n = op->specs[i].n_after;
    struct named_parent **others = arena_array(&e->arena, n, sizeof(struct named_parent *));
    size_t n_others = 0;
    if (!others)
        return err_nomem(err);
    for (size_t k = 0; k < n; k++)
        if (!parents[k].is_earlier)
            others[n_others++] = &parents[k];
    int rc = read_others(e, op->specs[i].tenant, others, n_others, err);
    for (size_t k = 0; rc == 0 && k < n_others && op->answers[i].code == 0; k++) {
        if (others[k]->seq == 0)
            (void)refuse_parent(op, i, REDRIVE_E_UNKNOWN, others[k]->id, "is not there",
                                "submit it before, or earlier in the same array");
        else if (others[k]->seq < 0)
            refuse_crowded(op, i, others[k]->id);
    }
    return rc;
}

/* A job that is there already stands for this one: it waits for what it was submitted with. */
static int is_there(struct engine *e, const struct job_spec *spec, struct redrive_err *err)
{
    const struct job_name name = {spec->tenant, spec->id};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    if (spec->id.len == 0)
        return 0;
    const int rc = e->ops->lookup(e->store, &name, 1, &page, err);
    const int found = page.n > 0;
    return rc < 0 ? rc : found;
}

static int plan_job(struct engine *e, struct submit_op *op, const struct map *ids, size_t i,
                    struct after_plan *plan, struct redrive_err *err)
{
    const size_t n = op->specs[i].n_after;
    if (n == 0 || op->answers[i].code < 0)
        return 0;
    if (n > AFTER_MAX) {
        refuse_count(op, i);
        return 0;
    }
    const int found = is_there(e, &op->specs[i], err);
    if (found != 0)
        return found < 0 ? found : 0;
    struct named_parent *parents = arena_array(&e->arena, n, sizeof *parents);
    if (!parents)
        return err_nomem(err);
    int rc = find_earlier(op, ids, i, parents, e->map_seed, err);
    if (rc == 0 && op->answers[i].code == 0)
        rc = find_others(e, op, i, parents, err);
    for (size_t k = 0; rc == 0 && k < n && op->answers[i].code == 0; k++)
        if (parents[k].is_earlier && ++op->specs[parents[k].at].children > AFTER_MAX)
            refuse_crowded(op, i, parents[k].id);
    plan->parents[i] = op->answers[i].code == 0 ? parents : NULL;
    return rc;
}

/* The index + 1 of the first job of each id. */
static int list_ids(const struct submit_op *op, struct map *ids, struct redrive_err *err)
{
    for (size_t i = op->n; i-- > 0;)
        if (op->specs[i].id.len > 0 && map_put_number(ids, op->specs[i].id, (int64_t)i + 1) != 0)
            return err_nomem(err);
    return 0;
}

int after_plan(struct engine *e, struct submit_op *op, struct after_plan **ret,
               struct redrive_err *err)
{
    struct map ids;
    *ret = NULL;
    if (!op->has_after)
        return 0;
    struct after_plan *plan = arena_alloc(&e->arena, sizeof *plan);
    struct named_parent **parents = arena_array(&e->arena, op->n, sizeof(struct named_parent *));
    if (!plan || !parents)
        return err_nomem(err);
    plan->parents = parents;
    map_init(&ids, e->map_seed);
    for (size_t i = 0; i < op->n; i++)
        op->specs[i].parents = op->specs[i].open_parents = op->specs[i].children = 0;
    int rc = list_ids(op, &ids, err);
    for (size_t i = 0; rc == 0 && i < op->n; i++)
        rc = plan_job(e, op, &ids, i, plan, err);
    map_release(&ids);
    *ret = plan;
    return rc;
}

/* ---- One job --------------------------------------------------------------------------------- */

/* What became of the parents in the same operation. False: one of them was refused. */
static bool take_answers(struct submit_op *op, struct named_parent *parents, size_t i)
{
    for (size_t k = 0; k < op->specs[i].n_after; k++) {
        if (!parents[k].is_earlier)
            continue;
        const struct submit_answer *a = &op->answers[parents[k].at];
        if (a->code < 0) {
            (void)refuse_parent(op, i, REDRIVE_E_CANCELLED, parents[k].id, "was refused", NULL);
            return false;
        }
        parents[k].seq = a->seq;
        parents[k].state = a->state;
        parents[k].is_earlier = !a->existed;
        parents[k].is_repeated = a->existed;
    }
    return true;
}

/* Tells parents that were there before of their child, and learns their states. One that repeats a
 * key which is unique for ever may stand for a job that is gone: then the child is refused. So is
 * one too many: the plan has not counted the children that come before it in the operation. A
 * refused child stays in the number of children, which is none that must be right. */
static int adopt(struct engine *e, struct submit_op *op, size_t i, struct named_parent *parents,
                 struct redrive_err *err)
{
    const size_t n = op->specs[i].n_after;
    struct edge_move *moves = arena_array(&e->arena, n, sizeof *moves);
    struct move_result *results = arena_array(&e->arena, n, sizeof *results);
    size_t n_moves = 0;
    if (!moves || !results)
        return err_nomem(err);
    for (size_t k = 0; k < n; k++)
        if (!parents[k].is_earlier)
            moves[n_moves++] = (struct edge_move){parents[k].seq, 1};
    if (n_moves == 0)
        return 0;
    int rc = e->ops->move(e->store, ADOPTS(moves, n_moves), results, err);
    for (size_t k = 0, at = 0; rc == 0 && k < n; k++) {
        if (parents[k].is_earlier)
            continue;
        if (results[at].code < 0 && parents[k].is_repeated)
            (void)refuse_parent(op, i, REDRIVE_E_UNKNOWN, parents[k].id, "is not there",
                                "its unique key is held by a job that has been removed");
        else if (results[at].code < 0)
            rc = err_set(err, REDRIVE_E_CANCELLED, "a job was removed meanwhile");
        else if (results[at].children > AFTER_MAX)
            refuse_crowded(op, i, parents[k].id);
        parents[k].state = results[at++].state;
    }
    e->touched = true;
    return rc;
}

/* Two names may turn out to be one job: one that comes earlier in the operation stands for a job
 * with the same unique key. Each edge has a parent of its own, so that is refused. */
static int refuse_same(struct engine *e, struct submit_op *op, const struct named_parent *parents,
                       size_t i, struct redrive_err *err)
{
    RELEASED_BY(map_release) struct map seen;
    int rc = 0;
    map_init(&seen, e->map_seed);
    for (size_t k = 0; rc == 0 && k < op->specs[i].n_after && op->answers[i].code == 0; k++) {
        const struct str seq = {(const char *)&parents[k].seq, sizeof parents[k].seq};
        if (map_get_number(&seen, seq) != 0)
            (void)refuse_parent(op, i, REDRIVE_E_INVALID, parents[k].id,
                                "is the same job as another that is named",
                                "they have one unique key: name the job that has it, once");
        else if (map_put_number(&seen, seq, 1) != 0)
            rc = err_nomem(err);
    }
    return rc;
}

int after_resolve(struct engine *e, struct submit_op *op, struct after_plan *plan, size_t i,
                  struct job_spec *spec, struct redrive_err *err)
{
    struct named_parent *parents = plan->parents[i];
    const size_t n = spec->n_after;
    if (!parents || !take_answers(op, parents, i))
        return 0;
    int rc = refuse_same(e, op, parents, i, err);
    if (rc == 0 && op->answers[i].code == 0)
        rc = adopt(e, op, i, parents, err);
    if (rc != 0 || op->answers[i].code != 0)
        return rc;
    spec->parents = (uint32_t)n;
    spec->open_parents = 0;
    for (size_t k = 0; rc == 0 && k < n; k++) {
        parents[k].outcome = after_decide(spec->after[k].rule, parents[k].state, false);
        /* One that is missed skips the job as soon as it is there. */
        spec->open_parents += parents[k].outcome != AFTER_MET;
    }
    return rc;
}

/* The first edge that is missed skips the job. */
static int skip_new(struct engine *e, struct submit_op *op, const struct named_parent *parents,
                    const struct job_edge *edges, size_t i, struct redrive_err *err)
{
    const struct job_spec *spec = &op->specs[i];
    struct submit_answer *a = &op->answers[i];
    for (size_t k = 0; k < spec->n_after; k++) {
        if (edges[k].outcome != AFTER_MISSED)
            continue;
        struct job job = {.spec = *spec, .status = {.seq = a->seq, .state = a->state}};
        const struct ended_job parent = {parents[k].seq, parents[k].state, false, parents[k].id};
        struct move_result result = {0};
        job.spec.id = a->id;
        const int rc = after_skip(e, &job, &edges[k], &parent, &result, err);
        if (rc == 0 && result.code == 0)
            a->state = result.state;
        return rc;
    }
    return 0;
}

int after_submitted(struct engine *e, struct submit_op *op, struct after_plan *plan, size_t i,
                    struct redrive_err *err)
{
    const struct named_parent *parents = plan->parents[i];
    const struct job_spec *spec = &op->specs[i];
    const struct submit_answer *a = &op->answers[i];
    if (a->code < 0 || a->existed || spec->n_after == 0)
        return 0;
    if (!parents)
        return err_set(err, REDRIVE_E_CANCELLED, "the job of this id was removed meanwhile");
    struct job_edge *edges = arena_array(&e->arena, spec->n_after, sizeof *edges);
    if (!edges)
        return err_nomem(err);
    for (size_t k = 0; k < spec->n_after; k++)
        edges[k] = (struct job_edge){
            .parent = parents[k].seq,
            .child = a->seq,
            .rule = spec->after[k].rule,
            .outcome = parents[k].outcome,
        };
    int rc = e->ops->edges_put(e->store, edges, spec->n_after, err);
    return rc == 0 ? skip_new(e, op, parents, edges, i, err) : rc;
}
