#include "wrap.h"

/* Hands a call on, unless `before` has something against it. */
#define HAND_ON(slot, ...)                                                         \
    do {                                                                           \
        struct wrap *w_ = wrap_of(store);                                          \
        int rc_ = w_->before ? w_->before(w_, err) : 0;                            \
        return rc_ < 0 ? rc_ : store_ops(w_->inner)->slot(w_->inner, __VA_ARGS__); \
    } while (0)

static void wrap_close(struct store *store)
{
    store_ops(store)->rollback(store);
}

static int wrap_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_shared_version, struct redrive_err *err)
{
    store_notify(store, STORE_NOTIFY_ALL);
    HAND_ON(begin, now_ms, ret_now_ms, ret_shared_version, err);
}

static int64_t wrap_set_time(struct store *store, int64_t now_ms)
{
    struct wrap *w = wrap_of(store);
    return store_ops(w->inner)->set_time(w->inner, now_ms);
}

static int wrap_commit(struct store *store, struct redrive_err *err)
{
    store_notify(wrap_of(store)->inner, store_base(store)->notification);
    HAND_ON(commit, err);
}

static void wrap_rollback(struct store *store)
{
    struct wrap *w = wrap_of(store);
    store_ops(w->inner)->rollback(w->inner);
}

static int wrap_submit(struct store *store, const struct job_spec *specs, size_t n,
                       struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    HAND_ON(submit, specs, n, ret, arena, err);
}

static int wrap_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                      struct redrive_err *err)
{
    HAND_ON(ready, filter, ret, err);
}

static int wrap_move(struct store *store, const struct move_list *list, struct move_result *ret,
                     struct redrive_err *err)
{
    HAND_ON(move, list, ret, err);
}

static int wrap_scan(struct store *store, struct scan *scan, struct job_page *ret,
                     struct redrive_err *err)
{
    HAND_ON(scan, scan, ret, err);
}

static int wrap_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    HAND_ON(facts, ret, err);
}

static int wrap_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                       struct redrive_err *err)
{
    HAND_ON(verify, progress, ctx, err);
}

static int wrap_import(struct store *store, const struct imported_job *jobs, size_t n,
                       struct move_result *ret, struct redrive_err *err)
{
    HAND_ON(import, jobs, n, ret, err);
}

static int wrap_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                            struct redrive_err *err)
{
    HAND_ON(import_keys, keys, n, err);
}

static int wrap_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                                size_t limit, struct remembered_key_page *ret,
                                struct redrive_err *err)
{
    HAND_ON(remembered_keys, after_tenant, after_key, limit, ret, err);
}

static int wrap_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                          bool *ret, struct redrive_err *err)
{
    HAND_ON(keys_held, tenant, keys, n, ret, err);
}

static int wrap_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                          struct redrive_err *err)
{
    HAND_ON(edges_put, edges, n, err);
}

static int wrap_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                      struct edge_page *ret, struct redrive_err *err)
{
    HAND_ON(edges, side, seqs, n, ret, err);
}

static int wrap_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                        struct redrive_err *err)
{
    HAND_ON(parents, seqs, n, ret, err);
}

static int wrap_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                           struct move_result *ret, struct redrive_err *err)
{
    HAND_ON(shared_put, rows, n, ret, err);
}

static int wrap_counters_add(struct store *store, const struct counter *counters, size_t n,
                             struct redrive_err *err)
{
    HAND_ON(counters_add, counters, n, err);
}

static int wrap_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                     struct redrive_err *err)
{
    HAND_ON(list, filter, ret, err);
}

static int wrap_lookup(struct store *store, const struct job_name *names, size_t n,
                       struct job_page *ret, struct redrive_err *err)
{
    HAND_ON(lookup, names, n, ret, err);
}

static int wrap_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                     struct redrive_err *err)
{
    HAND_ON(find, seqs, n, ret, err);
}

static int wrap_history(struct store *store, const int64_t *seqs, size_t n,
                        struct attempt_page *ret, struct redrive_err *err)
{
    HAND_ON(history, seqs, n, ret, err);
}

static int wrap_counts(struct store *store, enum count_kind kind, struct str tenant,
                       struct count_page *ret, struct redrive_err *err)
{
    HAND_ON(counts, kind, tenant, ret, err);
}

static int wrap_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                       struct redrive_err *err)
{
    HAND_ON(groups, filter, ret, err);
}

static int wrap_causes(struct store *store, const struct job_filter *filter,
                       void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                       struct redrive_err *err)
{
    HAND_ON(causes, filter, add, ctx, err);
}

static int wrap_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                            struct shared_page *ret, struct redrive_err *err)
{
    HAND_ON(shared_list, kind, tenant, ret, err);
}

static int wrap_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                              struct redrive_err *err)
{
    HAND_ON(counters_list, tenant, ret, err);
}

static int wrap_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                     struct redrive_err *err)
{
    HAND_ON(wait, timeout_ms, ret_notification, err);
}

static int wrap_elect(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                      struct redrive_err *err)
{
    HAND_ON(elect, keep_ms, claims, ret, err);
}

void wrap_init(struct wrap *wrap, struct store *inner)
{
    *wrap = (struct wrap){
        .inner = inner,
        .ops =
            {
                .scheme = store_ops(inner)->scheme,
                .capabilities = store_ops(inner)->capabilities,
                .close = wrap_close,
                .begin = wrap_begin,
                .set_time = wrap_set_time,
                .commit = wrap_commit,
                .rollback = wrap_rollback,
                .submit = wrap_submit,
                .ready = wrap_ready,
                .move = wrap_move,
                .scan = wrap_scan,
                .import = wrap_import,
                .import_keys = wrap_import_keys,
                .remembered_keys = wrap_remembered_keys,
                .keys_held = wrap_keys_held,
                .shared_put = wrap_shared_put,
                .edges_put = wrap_edges_put,
                .edges = wrap_edges,
                .parents = wrap_parents,
                .counters_add = wrap_counters_add,
                .list = wrap_list,
                .lookup = wrap_lookup,
                .find = wrap_find,
                .history = wrap_history,
                .counts = wrap_counts,
                .groups = wrap_groups,
                .causes = wrap_causes,
                .shared_list = wrap_shared_list,
                .counters_list = wrap_counters_list,
                .facts = wrap_facts,
                .verify = wrap_verify,
                .wait = wrap_wait,
                .elect = wrap_elect,
            },
    };
    wrap->base = *store_base(inner);
    wrap->base.ops = &wrap->ops;
}
