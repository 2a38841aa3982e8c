/* edges.c - which jobs wait for which.
 *
 * A transaction that ends a parent and one that submits its child do not miss each other. The child
 * is submitted with a move of the parent (adopt), under the lock of its row: the end, which reads
 * the edges after it has that lock, comes after it and sees the edge, or before it, and then the
 * move says that the parent has ended. An end that relies on a row that is kept has no lock; the
 * statement that writes it compares the number of children.
 */
#include "base/err.h"
#include "store/postgres/private.h"

#define TOGETHER_MAX 4096

static int send_edges(struct store *store, const struct job_edge *edges, size_t n,
                      struct redrive_err *err)
{
    struct args *args = &store->args;
    pg_args_rows(args, store->types.edges);
    for (size_t i = 0; i < n; i++) {
        pg_row_begin(args);
        pg_field_int8(args, edges[i].child);
        pg_field_int8(args, edges[i].parent);
        pg_field_int2(args, (int16_t)after_rule_number(edges[i].rule));
        pg_field_int2(args, (int16_t)edges[i].outcome);
        pg_row_end(args);
    }
    pg_args_array_end(args);
    return pg_send(store, STATEMENT_EDGES_PUT, false, err);
}

int postgres_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                       struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    for (size_t i = 0; rc == 0 && i < n; i += TOGETHER_MAX)
        rc = send_edges(store, edges + i, n - i < TOGETHER_MAX ? n - i : TOGETHER_MAX, err);
    return rc;
}

int postgres_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                   struct edge_page *ret, struct redrive_err *err)
{
    const enum statement which =
        side == EDGES_TO_CHILDREN ? STATEMENT_EDGES_TO_CHILDREN : STATEMENT_EDGES_FROM_PARENTS;
    const PGresult *result;
    edge_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc != 0 || n == 0)
        return rc;
    pg_args_array(&store->args, ARG_INT8);
    for (size_t i = 0; i < n; i++)
        pg_item_int8(&store->args, seqs[i]);
    pg_args_array_end(&store->args);
    /* What the transaction has moved and not sent yet has nothing to do with edges. */
    rc = store->in_transaction ? pg_run(store, which, &result, err)
                               : pg_read(store, which, NULL, &result, err);
    for (int i = 0; rc == 0 && i < PQntuples(result); i++) {
        const struct job_edge edge = {
            .child = pg_get_int(result, i, 0),
            .parent = pg_get_int(result, i, 1),
            .rule = after_rule_numbered(pg_get_int(result, i, 2)),
            .outcome = after_outcome_numbered(pg_get_int(result, i, 3)),
        };
        if (!edge_page_add(ret, &edge))
            rc = err_nomem(err);
    }
    if (rc != 0)
        edge_page_release(ret);
    edge_page_sort(ret, side);
    return rc;
}

/* The longest text of a result that may be given: each of its bytes may be escaped. */
#define KEPT_MAX (PG_ESCAPED_BYTES * (int64_t)PARENTS_BYTES)

static bool add_parent(struct parent_page *page, const PGresult *result, int i)
{
    RELEASED_BY(arena_release) struct arena scratch = {0};
    const struct job_parent parent = {
        .child = pg_get_int(result, i, 0),
        .id = pg_get_text(result, i, 1, &scratch),
        .state = (enum redrive_state)pg_get_int(result, i, 2),
        .is_omitted = pg_get_int(result, i, 3) > KEPT_MAX,
        .result = pg_get_text(result, i, 4, &scratch),
    };
    const bool ok = !scratch.failed && parent_page_add(page, &parent);
    return ok;
}

int postgres_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                     struct redrive_err *err)
{
    struct args *args = &store->args;
    const PGresult *result = NULL;
    parent_page_release(ret);
    int rc = pg_transaction_needed(store, err);
    if (rc == 0)
        rc = store_check_count(n, err);
    if (rc != 0 || n == 0)
        return rc;
    pg_args_array(args, ARG_INT8);
    for (size_t i = 0; i < n; i++)
        pg_item_int8(args, seqs[i]);
    pg_args_array_end(args);
    pg_args_int8(args, KEPT_MAX);
    pg_args_int8(args, PARENTS_MAX);
    rc = pg_run(store, STATEMENT_PARENTS, &result, err);
    for (int i = 0; rc == 0 && i < PQntuples(result); i++)
        if (pg_is_below(result, i, 2, REDRIVE_STATE_COUNT) && !add_parent(ret, result, i))
            rc = err_nomem(err);
    if (rc != 0)
        parent_page_release(ret);
    return rc;
}
