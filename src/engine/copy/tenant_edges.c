/* tenant_edges.c - jobs that wait for a copy which was made again. */
#include "base/err.h"
#include "base/mem/arena.h"
#include "core/state.h"
#include "engine/copy/tenant_jobs.h"
#include "engine/verbs/after.h"

/* Jobs that have ended, and whose children do not know it yet. */
struct ended_node {
    struct ended_job job;
    struct ended_node *next;
};

struct ended_list {
    struct ended_node *first;
    struct arena arena; /* of the nodes */
};

static int add_ended(struct ended_list *list, int64_t seq, enum redrive_state state, struct str id,
                     struct redrive_err *err)
{
    struct ended_node *node = arena_alloc(&list->arena, sizeof *node);
    const char *name = arena_dup(&list->arena, id);
    if (!node || !name)
        return err_nomem(err);
    node->job = (struct ended_job){.seq = seq, .state = state, .id = str_of(name)};
    node->next = list->first;
    list->first = node;
    return 0;
}

/* ---- To the new parent ----------------------------------------------------------------------- */

static size_t find_remade(const struct remade_job *remade, size_t n, int64_t was)
{
    size_t i = 0;
    while (i < n && remade[i].was != was)
        i++;
    return i;
}

/* An edge outlives its parent: the former one stays, and is waited for no more. */
static int put_edges(struct store *store, const struct remade_job *remade, size_t n,
                     struct edge_page *page, struct edge_move *counts, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < page->n; i++) {
        const size_t at = find_remade(remade, n, page->edges[i].parent);
        if (at == n)
            continue;
        struct job_edge both[] = {page->edges[i], page->edges[i]};
        both[0].parent = remade[at].seq;
        both[1].outcome = both[1].outcome == AFTER_OPEN ? AFTER_MET : both[1].outcome;
        counts[at].n++;
        rc = store_ops(store)->edges_put(store, both, 2, err);
    }
    return rc;
}

/* Learns the states of the parents, so that none ends unseen before this is committed. */
static int adopt_children(struct store *store, const struct remade_job *remade, size_t n,
                          const struct edge_move *counts, struct ended_list *ret,
                          struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct move_result result = {0};
        if (counts[i].n == 0)
            continue;
        rc = store_ops(store)->move(store, ADOPTS(&counts[i], 1), &result, err);
        if (rc == 0 && result.code != 0)
            rc = err_set(err, REDRIVE_E_CANCELLED, "a job was removed meanwhile");
        if (rc == 0 && state_has_ended(result.state))
            rc = add_ended(ret, remade[i].seq, result.state, remade[i].id, err);
    }
    return rc;
}

/* ---- What has ended -------------------------------------------------------------------------- */

static int skip_child(struct store *store, const struct job_edge *edge,
                      const struct ended_job *parent, struct ended_list *list,
                      struct redrive_err *err)
{
    struct move_result result = {0};
    struct job_page page = {0};
    int rc = after_skip_in(store, edge, parent, &result, err);
    if (rc < 0 || result.code != 0)
        return rc;
    rc = store_ops(store)->find(store, &edge->child, 1, &page, err);
    if (rc == 0 && page.n == 1 && page.jobs[0].status.children > 0)
        rc = add_ended(list, edge->child, page.jobs[0].status.state, page.jobs[0].spec.id, err);
    job_page_release(&page);
    return rc;
}

static int decide_edge(struct store *store, struct job_edge *edge, const struct ended_job *parent,
                       struct ended_list *list, struct redrive_err *err)
{
    const struct edge_move release = {edge->child, 1};
    struct move_result result = {0};
    edge->outcome = after_decide(edge->rule, parent->state, false);
    if (edge->outcome == AFTER_OPEN)
        return 0;
    int rc = store_ops(store)->edges_put(store, edge, 1, err);
    if (rc == 0 && edge->outcome == AFTER_MISSED)
        return skip_child(store, edge, parent, list, err);
    return rc < 0 ? rc : store_ops(store)->move(store, RELEASES(&release, 1), &result, err);
}

/* As after_ended, without an engine. */
static int end_one(struct store *store, struct ended_list *list, struct redrive_err *err)
{
    const struct ended_job parent = list->first->job;
    struct edge_page page = {0};
    list->first = list->first->next;
    int rc = store_ops(store)->edges(store, EDGES_TO_CHILDREN, &parent.seq, 1, &page, err);
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        if (page.edges[i].outcome == AFTER_OPEN)
            rc = decide_edge(store, &page.edges[i], &parent, list, err);
    edge_page_release(&page);
    return rc;
}

int tenant_reattach(struct store *store, const struct remade_job *remade, size_t n,
                    struct redrive_err *err)
{
    struct ended_list list = {.first = NULL};
    struct edge_move counts[REMADE_MAX] = {0};
    int64_t seqs[REMADE_MAX];
    struct edge_page page = {0};
    if (n == 0)
        return 0;
    arena_init(&list.arena);
    for (size_t i = 0; i < n; i++) {
        seqs[i] = remade[i].was;
        counts[i].seq = remade[i].seq;
    }
    int rc = store_ops(store)->edges(store, EDGES_TO_CHILDREN, seqs, n, &page, err);
    if (rc == 0)
        rc = put_edges(store, remade, n, &page, counts, err);
    if (rc == 0)
        rc = adopt_children(store, remade, n, counts, &list, err);
    while (rc == 0 && list.first)
        rc = end_one(store, &list, err);
    edge_page_release(&page);
    arena_release(&list.arena);
    return rc;
}
