/* edges.c - which jobs wait for which. */
#include "base/err.h"
#include "store/sqlite/private.h"

#define TOGETHER 32 /* rows of EDGES_PUT */

static int put_some(struct store *store, enum statement which, const struct job_edge *edges,
                    size_t n, struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, which, err);
    if (!st)
        return store->last_error;
    for (size_t i = 0; i < n; i++) {
        const int at = 4 * (int)i;
        bind_int(st, at + 1, edges[i].child);
        bind_int(st, at + 2, edges[i].parent);
        bind_int(st, at + 3, after_rule_number(edges[i].rule));
        bind_int(st, at + 4, (int64_t)edges[i].outcome);
    }
    return sql_run(store, st, err);
}

int sqlite_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                     struct redrive_err *err)
{
    int rc = transaction_needed(store, err);
    size_t at = 0;
    for (; rc == 0 && n - at >= TOGETHER; at += TOGETHER)
        rc = put_some(store, STATEMENT_EDGES_PUT, edges + at, TOGETHER, err);
    for (; rc == 0 && at < n; at++)
        rc = put_some(store, STATEMENT_EDGE_PUT, edges + at, 1, err);
    return rc;
}

static int add_edges(struct store *store, enum edge_side side, int64_t seq, struct edge_page *page,
                     struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store,
                               side == EDGES_TO_CHILDREN ? STATEMENT_EDGES_TO_CHILDREN
                                                         : STATEMENT_EDGES_FROM_PARENTS,
                               err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, seq);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        const struct job_edge edge = {
            .child = sqlite3_column_int64(st, 0),
            .parent = sqlite3_column_int64(st, 1),
            .rule = after_rule_numbered(sqlite3_column_int64(st, 2)),
            .outcome = after_outcome_numbered(sqlite3_column_int64(st, 3)),
        };
        if (!edge_page_add(page, &edge)) {
            rc = err_nomem(err);
            break;
        }
    }
    sqlite3_reset(st);
    return rc;
}

int sqlite_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                 struct edge_page *ret, struct redrive_err *err)
{
    edge_page_release(ret);
    int rc = store_check_count(n, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_edges(store, side, seqs[i], ret, err);
    if (rc != 0)
        edge_page_release(ret);
    edge_page_sort(ret, side);
    return rc;
}

static int add_parents(struct store *store, int64_t child, struct parent_page *page,
                       struct redrive_err *err)
{
    sqlite3_stmt *st = sql_use(store, STATEMENT_PARENTS, err);
    if (!st)
        return store->last_error;
    bind_int(st, 1, child);
    bind_int(st, 2, PARENTS_MAX);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        const struct job_parent parent = {
            .child = child,
            .id = column_str(st, 0),
            .state = (enum redrive_state)sqlite3_column_int(st, 1),
            .result = column_str(st, 2),
        };
        if (column_is_below(st, 1, REDRIVE_STATE_COUNT) && !parent_page_add(page, &parent)) {
            rc = err_nomem(err);
            break;
        }
    }
    sqlite3_reset(st);
    return rc;
}

int sqlite_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                   struct redrive_err *err)
{
    parent_page_release(ret);
    int rc = transaction_needed(store, err);
    if (rc == 0)
        rc = store_check_count(n, err);
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = add_parents(store, seqs[i], ret, err);
    if (rc != 0)
        parent_page_release(ret);
    return rc;
}
