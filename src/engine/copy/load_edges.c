/* load_edges.c - what an imported job waits for. */
#include "base/err.h"
#include "base/mem/arena.h"
#include "engine/copy/load.h"
#include "engine/copy/source.h"
#include "engine/verbs/after.h"

/* Some edges of a job that was imported in this transaction, and their parents as they are here. */
struct edge_batch {
    const struct load *load;
    const struct imported_job *imported;
    size_t n;
    struct job_edge edges[BATCH_MAX];
    struct ended_job parents[BATCH_MAX]; /* some of them live */
};

static int missing_parent(const struct job *job, struct str parent, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_NOT_FOUND, "job '%.*s' waits for job '%.*s', which is not there",
                  SHOWN(job->spec.id), SHOWN(parent));
    err_hint(err, "cancel it in the source, or copy the other one as well");
    return REDRIVE_E_NOT_FOUND;
}

/* Those whose parents are there. One that is decided needs no parent any more. */
static int find_parents(struct edge_batch *b, const struct copied_edge *edges, size_t n,
                        struct redrive_err *err)
{
    struct store *store = b->load->store;
    struct job_name names[BATCH_MAX + 1];
    RELEASED_BY(job_page_release) struct job_page page = {0};
    size_t found = 1;
    names[0] = job_name_of(b->imported->job);
    for (size_t i = 0; i < n; i++)
        names[i + 1] = (struct job_name){names[0].tenant, edges[i].parent};
    int rc = store_ops(store)->lookup(store, names, n + 1, &page, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (found < page.n && str_eq(page.jobs[found].spec.id, edges[i].parent)) {
            const int64_t parent = page.jobs[found++].status.seq;
            b->parents[b->n] = (struct ended_job){.seq = parent, .id = edges[i].parent};
            b->edges[b->n++] = (struct job_edge){
                .parent = parent,
                .child = page.jobs[0].status.seq,
                .rule = after_rule_numbered(edges[i].rule),
                .outcome = after_outcome_numbered(edges[i].outcome),
            };
        } else if (edges[i].outcome == AFTER_OPEN) {
            rc = missing_parent(b->imported->job, edges[i].parent, err);
        }
    }
    return rc;
}

/* Learns the states of the parents, so that none ends unseen before this is committed. A parent
 * that was there before does not count this child yet; one that was imported does, and then counts
 * too many, which is allowed. */
static int adopt(struct edge_batch *b, struct redrive_err *err)
{
    struct store *store = b->load->store;
    struct edge_move moves[BATCH_MAX];
    struct move_result results[BATCH_MAX];
    for (size_t i = 0; i < b->n; i++)
        moves[i] = (struct edge_move){b->edges[i].parent, b->load->has_own_jobs ? 1 : 0};
    int rc = store_ops(store)->move(store, ADOPTS(moves, b->n), results, err);
    for (size_t i = 0; rc == 0 && i < b->n; i++) {
        b->parents[i].state = results[i].state;
        if (results[i].code != 0)
            rc = err_set(err, REDRIVE_E_CANCELLED, "a job was removed meanwhile");
    }
    return rc;
}

static int load_some(struct edge_batch *b, const struct copied_edge *edges, size_t n,
                     struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct after_walk walk = {.store = b->load->store, .arena = &arena};
    b->n = 0;
    int rc = find_parents(b, edges, n, err);
    if (rc < 0 || b->n == 0)
        return rc;
    rc = adopt(b, err);
    if (rc == 0)
        rc = store_ops(walk.store)->edges_put(walk.store, b->edges, b->n, err);
    return rc < 0 ? rc : after_walk_edges(&walk, b->edges, b->n, b->parents, b->n, err);
}

int load_edges(const struct load *load, const struct imported_job *imported,
               struct redrive_err *err)
{
    struct edge_batch b = {.load = load, .imported = imported};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < imported->n_edges; i += BATCH_MAX) {
        const size_t left = imported->n_edges - i;
        rc = load_some(&b, imported->edges + i, left < BATCH_MAX ? left : BATCH_MAX, err);
    }
    return rc;
}
