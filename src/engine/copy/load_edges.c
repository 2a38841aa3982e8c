/* load_edges.c - what an imported job waits for. */
#include "base/err.h"
#include "core/state.h"
#include "engine/copy/load.h"
#include "engine/copy/source.h"
#include "engine/verbs/after.h"

/* Some edges of a job that was imported in this transaction, and their parents as they are here. */
struct edge_batch {
    const struct load *load;
    const struct imported_job *imported;
    size_t n;
    struct job_edge edges[BATCH_MAX];
    struct move_result parents[BATCH_MAX];
    struct str ids[BATCH_MAX];
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
    struct job_page page = {0};
    size_t found = 1;
    names[0] = job_name_of(b->imported->job);
    for (size_t i = 0; i < n; i++)
        names[i + 1] = (struct job_name){names[0].tenant, edges[i].parent};
    int rc = store_ops(store)->lookup(store, names, n + 1, &page, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (found < page.n && str_eq(page.jobs[found].spec.id, edges[i].parent)) {
            b->ids[b->n] = edges[i].parent;
            b->edges[b->n++] = (struct job_edge){
                .parent = page.jobs[found++].status.seq,
                .child = page.jobs[0].status.seq,
                .rule = after_rule_numbered(edges[i].rule),
                .outcome = after_outcome_numbered(edges[i].outcome),
            };
        } else if (edges[i].outcome == AFTER_OPEN) {
            rc = missing_parent(b->imported->job, edges[i].parent, err);
        }
    }
    job_page_release(&page);
    return rc;
}

/* Learns the states of the parents, so that none ends unseen before this is committed. A parent
 * that was there before does not count this child yet; one that was imported does, and then counts
 * too many, which is allowed. */
static int adopt(struct edge_batch *b, struct redrive_err *err)
{
    struct store *store = b->load->store;
    struct edge_move moves[BATCH_MAX];
    for (size_t i = 0; i < b->n; i++)
        moves[i] = (struct edge_move){b->edges[i].parent, b->load->has_own_jobs ? 1 : 0};
    int rc = store_ops(store)->move(store, ADOPTS(moves, b->n), b->parents, err);
    for (size_t i = 0; rc == 0 && i < b->n; i++)
        if (b->parents[i].code != 0)
            rc = err_set(err, REDRIVE_E_CANCELLED, "a job was removed meanwhile");
    return rc;
}

/* Decides the open edges whose parents have ended. Returns how many; *ret_missed is the first one
 * that the job is skipped for, n if there is none. */
static uint32_t decide_edges(struct edge_batch *b, size_t *ret_missed)
{
    uint32_t decided = 0;
    *ret_missed = b->n;
    for (size_t i = 0; i < b->n; i++) {
        struct job_edge *edge = &b->edges[i];
        if (edge->outcome != AFTER_OPEN)
            continue;
        edge->outcome = after_decide(edge->rule, b->parents[i].state, false);
        decided += edge->outcome != AFTER_OPEN;
        if (edge->outcome == AFTER_MISSED && *ret_missed == b->n)
            *ret_missed = i;
    }
    return decided;
}

/* Its children come later, and find it as it is then. */
static int move_child(struct edge_batch *b, uint32_t decided, size_t missed,
                      struct redrive_err *err)
{
    struct store *store = b->load->store;
    const struct edge_move release = {b->edges[0].child, decided};
    struct move_result result = {0};
    int rc = 0;
    if (missed < b->n) {
        const struct ended_job parent = {.state = b->parents[missed].state, .id = b->ids[missed]};
        rc = after_skip_in(store, &b->edges[missed], &parent, &result, err);
        if (rc < 0 || result.code != REDRIVE_E_STATE || !state_has_ended(result.state))
            return rc;
    }
    return store_ops(store)->move(store, RELEASES(&release, 1), &result, err);
}

static int load_some(struct edge_batch *b, const struct copied_edge *edges, size_t n,
                     struct redrive_err *err)
{
    struct store *store = b->load->store;
    size_t missed = 0;
    b->n = 0;
    int rc = find_parents(b, edges, n, err);
    if (rc < 0 || b->n == 0)
        return rc;
    rc = adopt(b, err);
    const uint32_t decided = rc == 0 ? decide_edges(b, &missed) : 0;
    if (rc == 0)
        rc = store_ops(store)->edges_put(store, b->edges, b->n, err);
    return rc == 0 && decided > 0 ? move_child(b, decided, missed, err) : rc;
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
