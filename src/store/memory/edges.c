/* edges.c - which jobs wait for which. */
#include "base/err.h"
#include "store/memory/private.h"

static const struct job_edge *edge_at(const struct mem_state *state, size_t i)
{
    return mem_table_at(&state->edges, i);
}

/* The index of the first edge that does not come before this one. */
static size_t place_of(const struct mem_state *state, int64_t child, int64_t parent)
{
    size_t low = 0, high = state->edges.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct job_edge *edge = edge_at(state, middle);
        if (edge->child < child || (edge->child == child && edge->parent < parent))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct mem_state *state, size_t i, const struct job_edge *edge)
{
    return i < state->edges.n && edge_at(state, i)->child == edge->child &&
           edge_at(state, i)->parent == edge->parent;
}

/* Moves the last row to its place. */
static void move_last(struct mem_table *table, size_t i)
{
    struct mem_row *last = table->rows[table->n - 1];
    for (size_t k = table->n - 1; k > i; k--)
        table->rows[k] = table->rows[k - 1];
    table->rows[i] = last;
}

int memory_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                     struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    struct mem_table *table = &m->transaction.edges;
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const size_t at = place_of(&m->transaction, edges[i].child, edges[i].parent);
        const bool is_there = is_at(&m->transaction, at, &edges[i]);
        if (!(is_there ? mem_table_put(table, at, &edges[i]) : mem_table_add(table, &edges[i])))
            rc = err_nomem(err);
        else if (!is_there)
            move_last(table, at);
    }
    return rc;
}

void memory_remove_edges(struct mem_state *state, int64_t child)
{
    const size_t first = place_of(state, child, 0);
    while (first < state->edges.n && edge_at(state, first)->child == child)
        mem_table_remove(&state->edges, first);
}

int memory_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                 struct edge_page *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    bool ok = true;
    edge_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    const struct mem_state *state = memory_look(m);
    for (size_t i = 0; ok && i < state->edges.n; i++) {
        const struct job_edge *edge = edge_at(state, i);
        const int64_t seq = side == EDGES_TO_CHILDREN ? edge->parent : edge->child;
        for (size_t k = 0; k < n; k++)
            if (seqs[k] == seq) {
                ok = edge_page_add(ret, edge);
                break;
            }
    }
    memory_unlook(m);
    edge_page_sort(ret, side);
    if (ok)
        return 0;
    edge_page_release(ret);
    return err_nomem(err);
}

/* The parents of one job; the table is by child, then by parent. */
static bool add_parents(const struct mem_state *state, int64_t child, struct parent_page *page)
{
    bool ok = true;
    for (size_t i = place_of(state, child, 0);
         ok && i < state->edges.n && edge_at(state, i)->child == child; i++) {
        size_t at;
        if (!memory_seek(state, edge_at(state, i)->parent, &at))
            continue;
        const struct job *job = job_at(state, at);
        const struct job_parent parent = {
            .child = child,
            .id = job->spec.id,
            .state = job->status.state,
            .result = job->status.result,
        };
        ok = parent_page_add(page, &parent);
    }
    return ok;
}

int memory_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                   struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    bool ok = true;
    parent_page_release(ret);
    int rc = memory_need_transaction(m, err);
    if (rc == 0)
        rc = store_check_count(n, err);
    for (size_t i = 0; rc == 0 && ok && i < n; i++)
        ok = add_parents(&m->transaction, seqs[i], ret);
    if (!ok) {
        parent_page_release(ret);
        rc = err_nomem(err);
    }
    return rc;
}
