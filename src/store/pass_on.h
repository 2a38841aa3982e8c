/* pass_on.h - most slots of a store that stands around another one: each passes its call on.
 *
 *     #define PASS_ON(slot, ...) …
 *     #include "store/pass_on.h"
 *     static const struct store_ops OPS = {STORE_SLOTS(pass), .elect = pass_elect};
 *
 * PASS_ON is the body of each function: it returns what the inner store's slot returns for these
 * arguments, or a failure of its own. It may use `store`, the outer handle, and `err`. Opening,
 * closing, transactions and waiting are left to the file that includes this: pass_open, pass_close,
 * pass_begin, pass_set_time, pass_commit, pass_rollback, pass_wait.
 */
#ifndef STORE_PASS_ON_H
#define STORE_PASS_ON_H

#include "store/store.h"

#ifndef PASS_ON
#error "define PASS_ON before this is included"
#endif

static int pass_submit(struct store *store, const struct job_spec *specs, size_t n,
                       struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    PASS_ON(submit, specs, n, ret, arena, err);
}

static int pass_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                      struct redrive_err *err)
{
    PASS_ON(ready, filter, ret, err);
}

static int pass_scan(struct store *store, struct scan *scan, struct job_page *ret,
                     struct redrive_err *err)
{
    PASS_ON(scan, scan, ret, err);
}

static int pass_move(struct store *store, const struct move_list *list, struct move_result *ret,
                     struct redrive_err *err)
{
    PASS_ON(move, list, ret, err);
}

static int pass_import(struct store *store, const struct imported_job *jobs, size_t n,
                       struct move_result *ret, struct redrive_err *err)
{
    PASS_ON(import, jobs, n, ret, err);
}

static int pass_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                            struct redrive_err *err)
{
    PASS_ON(import_keys, keys, n, err);
}

static int pass_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                          struct redrive_err *err)
{
    PASS_ON(edges_put, edges, n, err);
}

static int pass_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                           struct move_result *ret, struct redrive_err *err)
{
    PASS_ON(shared_put, rows, n, ret, err);
}

static int pass_counters_add(struct store *store, const struct counter *counters, size_t n,
                             struct redrive_err *err)
{
    PASS_ON(counters_add, counters, n, err);
}

static int pass_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                     struct redrive_err *err)
{
    PASS_ON(list, filter, ret, err);
}

static int pass_lookup(struct store *store, const struct job_name *names, size_t n,
                       struct job_page *ret, struct redrive_err *err)
{
    PASS_ON(lookup, names, n, ret, err);
}

static int pass_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                     struct redrive_err *err)
{
    PASS_ON(find, seqs, n, ret, err);
}

static int pass_history(struct store *store, const int64_t *seqs, size_t n,
                        struct attempt_page *ret, struct redrive_err *err)
{
    PASS_ON(history, seqs, n, ret, err);
}

static int pass_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                      struct edge_page *ret, struct redrive_err *err)
{
    PASS_ON(edges, side, seqs, n, ret, err);
}

static int pass_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                        struct redrive_err *err)
{
    PASS_ON(parents, seqs, n, ret, err);
}

static int pass_counts(struct store *store, enum count_kind kind, struct str tenant,
                       struct count_page *ret, struct redrive_err *err)
{
    PASS_ON(counts, kind, tenant, ret, err);
}

static int pass_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                       struct redrive_err *err)
{
    PASS_ON(groups, filter, ret, err);
}

static int pass_causes(struct store *store, const struct job_filter *filter,
                       void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                       struct redrive_err *err)
{
    PASS_ON(causes, filter, add, ctx, err);
}

static int pass_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                            struct shared_page *ret, struct redrive_err *err)
{
    PASS_ON(shared_list, kind, tenant, ret, err);
}

static int pass_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                                size_t limit, struct remembered_key_page *ret,
                                struct redrive_err *err)
{
    PASS_ON(remembered_keys, after_tenant, after_key, limit, ret, err);
}

static int pass_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                          bool *ret, struct redrive_err *err)
{
    PASS_ON(keys_held, tenant, keys, n, ret, err);
}

static int pass_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                              struct redrive_err *err)
{
    PASS_ON(counters_list, tenant, ret, err);
}

static int pass_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    PASS_ON(facts, ret, err);
}

static int pass_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                       struct redrive_err *err)
{
    PASS_ON(verify, progress, ctx, err);
}

static int pass_elect(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                      struct redrive_err *err)
{
    PASS_ON(elect, keep_ms, claims, ret, err);
}

#endif
