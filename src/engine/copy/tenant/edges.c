/* edges.c - jobs that wait for a copy which was made again. */
#include "base/err.h"
#include "base/mem/arena.h"
#include "core/state.h"
#include "engine/copy/tenant/jobs.h"
#include "engine/verbs/after.h"

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
                          const struct edge_move *counts, struct ended_job *ret, size_t *ret_n,
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
            ret[(*ret_n)++] = (struct ended_job){remade[i].seq, result.state, false, remade[i].id};
    }
    return rc;
}

int tenant_reattach(struct store *store, const struct remade_job *remade, size_t n,
                    struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    RELEASED_BY(edge_page_release) struct edge_page page = {0};
    const struct after_walk walk = {.store = store, .arena = &arena};
    struct edge_move counts[REMADE_MAX] = {0};
    struct ended_job ended[REMADE_MAX];
    int64_t seqs[REMADE_MAX];
    size_t n_ended = 0;
    if (n == 0)
        return 0;
    for (size_t i = 0; i < n; i++) {
        seqs[i] = remade[i].was;
        counts[i].seq = remade[i].seq;
    }
    int rc = store_ops(store)->edges(store, EDGES_TO_CHILDREN, seqs, n, &page, err);
    if (rc == 0)
        rc = put_edges(store, remade, n, &page, counts, err);
    if (rc == 0)
        rc = adopt_children(store, remade, n, counts, ended, &n_ended, err);
    return rc < 0 ? rc : after_walk(&walk, ended, n_ended, err);
}
