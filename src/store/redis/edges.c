/* edges.c - which jobs wait for which.
 *
 * A transaction that ends a parent and one that submits its child do not miss each other: both
 * change the row of the parent, and the commit of the second finds another version of it.
 */
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

int redis_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                    struct redrive_err *err)
{
    int rc = rd_transaction_needed(store, err);
    if (rc != 0 || n == 0)
        return rc;
    if (store->n_edges + n > store->edges_capacity) {
        const size_t capacity = 2 * (store->n_edges + n);
        struct job_edge *grown = realloc(store->edges, capacity * sizeof *grown);
        if (!grown)
            return err_nomem(err);
        store->edges = grown;
        store->edges_capacity = capacity;
    }
    memcpy(store->edges + store->n_edges, edges, n * sizeof *edges);
    store->n_edges += n;
    return 0;
}

static void add_side(struct store *store, const char *name, int64_t of, int64_t other,
                     struct str value)
{
    char key[RD_DIGITS_MAX + 2] = {name[0], ':'};
    const struct member member = rd_member_of(other);
    const struct str words[] = {member_str(&member), value};
    rd_digits(of, key + 2);
    rd_ops_add(&store->ops, 'H', str_of(key), NULL, 0, words, 2);
}

void rd_edges_collect(struct store *store)
{
    for (size_t i = 0; i < store->n_edges; i++) {
        const struct job_edge *edge = &store->edges[i];
        const struct entry *child = rd_entry_moved(store, edge->child);
        const char digits[2] = {(char)('0' + after_rule_number(edge->rule)),
                                (char)('0' + (int)edge->outcome)};
        const struct str value = {digits, sizeof digits};
        if (child && !child->is_there)
            continue;
        add_side(store, "f", edge->parent, edge->child, value);
        add_side(store, "g", edge->child, edge->parent, value);
    }
}

/* Adds the edges of one job from a reply. */
static bool add_edges(struct edge_page *page, enum edge_side side, int64_t seq,
                      const redisReply *reply, size_t *at)
{
    const int64_t n = rd_reply_int(reply, (*at)++);
    for (int64_t i = 0; i < n && *at < reply->elements; i++) {
        const int64_t other = rd_member_seq(rd_reply_str(reply, *at));
        const struct str value = rd_reply_str(reply, *at + 1);
        *at += 2;
        const struct job_edge edge = {
            .parent = side == EDGES_TO_CHILDREN ? seq : other,
            .child = side == EDGES_TO_CHILDREN ? other : seq,
            .rule = after_rule_numbered(value.len == 2 ? value.ptr[0] - '0' : -1),
            .outcome = after_outcome_numbered(value.len == 2 ? value.ptr[1] - '0' : -1),
        };
        if (!edge_page_add(page, &edge))
            return false;
    }
    return true;
}

/* Puts an edge of the transaction over what the server has. */
static bool overlay(struct edge_page *page, const struct job_edge *edge)
{
    for (size_t i = 0; i < page->n; i++)
        if (page->edges[i].parent == edge->parent && page->edges[i].child == edge->child) {
            page->edges[i] = *edge;
            return true;
        }
    return edge_page_add(page, edge);
}

static bool overlay_all(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                        struct edge_page *page)
{
    for (size_t i = 0; store->in_transaction && i < store->n_edges; i++) {
        const struct job_edge *edge = &store->edges[i];
        const int64_t seq = side == EDGES_TO_CHILDREN ? edge->parent : edge->child;
        size_t k = 0;
        while (k < n && seqs[k] != seq)
            k++;
        if (k < n && !overlay(page, edge))
            return false;
    }
    return true;
}

/* Leaves out the edges of children that the transaction has removed. */
static void leave_out_removed(struct store *store, struct edge_page *page)
{
    size_t n = 0;
    for (size_t i = 0; store->in_transaction && i < page->n; i++) {
        const struct entry *child = rd_entry_moved(store, page->edges[i].child);
        if (!child || child->is_there)
            page->edges[n++] = page->edges[i];
    }
    if (store->in_transaction)
        page->n = n;
}

int redis_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                struct edge_page *ret, struct redrive_err *err)
{
    redisReply *reply = NULL;
    size_t at = 0;
    bool ok = true;
    edge_page_release(ret);
    int rc = store_check_count(n, err);
    if (rc != 0 || n == 0)
        return rc;
    rd_ask_read(store, "edges");
    rd_ask_text(store, side == EDGES_TO_CHILDREN ? "f:" : "g:");
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && ok && i < n; i++)
        ok = add_edges(ret, side, seqs[i], reply, &at);
    freeReplyObject(reply);
    if (rc == 0 && !(ok && overlay_all(store, side, seqs, n, ret)))
        rc = err_nomem(err);
    leave_out_removed(store, ret);
    edge_page_sort(ret, side);
    if (rc != 0)
        edge_page_release(ret);
    return rc;
}

/* Adds the parents of one job from a reply. */
static int add_parents(struct store *store, struct parent_page *page, int64_t child,
                       const redisReply *reply, size_t *at, struct redrive_err *err)
{
    const int64_t n = rd_reply_int(reply, (*at)++);
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < n && *at < reply->elements; i++, *at += 4) {
        struct row row;
        rc =
            rd_row_unpack(store, rd_reply_int(reply, *at), rd_reply_str(reply, *at + 1), &row, err);
        if (rc == REDRIVE_E_CORRUPT) { /* one damaged row must not keep its children for ever */
            rc = 0;
            continue;
        }
        const bool is_beside = row.big >> BIG_RESULT & 1;
        const struct job_parent parent = {
            .child = child,
            .id = row.job.spec.id,
            .state = row.job.status.state,
            .result = is_beside ? rd_reply_str(reply, *at + 2) : row.job.status.result,
            .is_omitted = is_beside && rd_reply_int(reply, *at + 3) != 0,
        };
        if (rc == 0 && !parent_page_add(page, &parent))
            rc = err_nomem(err);
    }
    return rc;
}

int redis_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                  struct redrive_err *err)
{
    redisReply *reply = NULL;
    size_t at = 0;
    parent_page_release(ret);
    int rc = rd_transaction_needed(store, err);
    if (rc == 0)
        rc = store_check_count(n, err);
    if (rc != 0 || n == 0)
        return rc;
    rd_ask_read(store, "parents");
    rd_ask_int(store, PARENTS_MAX);
    rd_ask_int(store, PARENTS_BYTES);
    for (size_t i = 0; i < n; i++)
        rd_ask_int(store, seqs[i]);
    rc = rd_link_read(store, &reply, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = add_parents(store, ret, seqs[i], reply, &at, err);
    freeReplyObject(reply);
    if (rc != 0)
        parent_page_release(ret);
    return rc;
}
