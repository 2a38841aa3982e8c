/* late.c - a handle whose store is opened when it can be reached; then it hands every call on. */
#include "store/late.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/time/clock.h"

struct late {
    struct store_base base;
    struct store_ops ops; /* base.ops points to it */
    struct late_options options;
    struct store *store;    /* NULL: not open yet */
    struct redrive_err why; /* the last try has failed so; code 0: there was none */
    int64_t again_ms;       /* monotonic: when the next try may be */
};

static struct late *late_of(struct store *store)
{
    return (struct late *)(void *)store;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int fail_late(const struct late *late, struct redrive_err *err)
{
    if (err)
        *err = late->why;
    return late->why.code;
}

/* Whatever the reason is: callers may try again, and the store is not used until it is mended. */
static void keep_reason(struct late *late, int code, const struct redrive_err *err)
{
    late->why = *err;
    late->why.code = code == REDRIVE_E_NOMEM ? code : REDRIVE_E_IO;
    late->again_ms = clock_monotonic_ms() + LATE_AGAIN_MS;
}

static int open_now(struct late *late, struct redrive_err *err)
{
    const struct late_options *o = &late->options;
    struct redrive_err why = {0};
    struct store *store = NULL;
    if (late->why.code < 0 && clock_monotonic_ms() < late->again_ms)
        return fail_late(late, err);
    int rc = store_open(o->url, &o->store, &store, &why);
    if (rc == 0 && o->check)
        rc = o->check(store, o->ctx, &why);
    if (rc < 0) {
        store_close(store);
        keep_reason(late, rc, &why);
        return fail_late(late, err);
    }
    late->store = store;
    return 0;
}

/* ---- What handles begin with ----------------------------------------------------------------- */

/* What the caller has said of the next transaction. */
static void pass_on(const struct late *late)
{
    struct store_base *to = (struct store_base *)(void *)late->store;
    to->asks = late->base.asks;
    to->looks = late->base.looks;
    to->notification = late->base.notification;
}

static void bring_back(struct late *late)
{
    const struct store_ops *ops = late->base.ops;
    late->base = *store_base(late->store);
    late->base.ops = ops;
}

/* Hands a call on, when the store is open. */
#define HAND_ON(slot, ...)                                              \
    do {                                                                \
        struct late *late_ = late_of(store);                            \
        int rc_ = late_->store ? 0 : open_now(late_, err);              \
        if (rc_ < 0)                                                    \
            return rc_;                                                 \
        pass_on(late_);                                                 \
        rc_ = store_ops(late_->store)->slot(late_->store, __VA_ARGS__); \
        bring_back(late_);                                              \
        return rc_;                                                     \
    } while (0)

/* ---- Transactions ---------------------------------------------------------------------------- */

static int late_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_shared_version, struct redrive_err *err)
{
    HAND_ON(begin, now_ms, ret_now_ms, ret_shared_version, err);
}

static int64_t late_set_time(struct store *store, int64_t now_ms)
{
    const struct late *late = late_of(store);
    return late->store ? store_ops(late->store)->set_time(late->store, now_ms) : now_ms;
}

static int late_commit(struct store *store, struct redrive_err *err)
{
    HAND_ON(commit, err);
}

static void late_rollback(struct store *store)
{
    struct late *late = late_of(store);
    if (!late->store)
        return;
    store_ops(late->store)->rollback(late->store);
    bring_back(late);
}

static int late_submit(struct store *store, const struct job_spec *specs, size_t n,
                       struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    HAND_ON(submit, specs, n, ret, arena, err);
}

static int late_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                      struct redrive_err *err)
{
    HAND_ON(ready, filter, ret, err);
}

static void late_look_ahead(struct store *store, const struct claim_filter *filter)
{
    const struct late *late = late_of(store);
    if (late->store)
        store_ops(late->store)->look_ahead(late->store, filter);
}

static int late_scan_ahead(struct store *store, const struct scan *scans, size_t n, bool cancels,
                           struct redrive_err *err)
{
    HAND_ON(scan_ahead, scans, n, cancels, err);
}

static int late_scan(struct store *store, struct scan *scan, struct job_page *ret,
                     struct redrive_err *err)
{
    HAND_ON(scan, scan, ret, err);
}

static int late_move(struct store *store, const struct move_list *list, struct move_result *ret,
                     struct redrive_err *err)
{
    HAND_ON(move, list, ret, err);
}

static int late_import(struct store *store, const struct imported_job *jobs, size_t n,
                       struct move_result *ret, struct redrive_err *err)
{
    HAND_ON(import, jobs, n, ret, err);
}

static int late_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                            struct redrive_err *err)
{
    HAND_ON(import_keys, keys, n, err);
}

static int late_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                          struct redrive_err *err)
{
    HAND_ON(edges_put, edges, n, err);
}

static int late_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                           struct move_result *ret, struct redrive_err *err)
{
    HAND_ON(shared_put, rows, n, ret, err);
}

static int late_counters_add(struct store *store, const struct counter *counters, size_t n,
                             struct redrive_err *err)
{
    HAND_ON(counters_add, counters, n, err);
}

/* ---- Reads ----------------------------------------------------------------------------------- */

static int late_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                     struct redrive_err *err)
{
    HAND_ON(list, filter, ret, err);
}

static int late_lookup(struct store *store, const struct job_name *names, size_t n,
                       struct job_page *ret, struct redrive_err *err)
{
    HAND_ON(lookup, names, n, ret, err);
}

static int late_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                     struct redrive_err *err)
{
    HAND_ON(find, seqs, n, ret, err);
}

static int late_history(struct store *store, const int64_t *seqs, size_t n,
                        struct attempt_page *ret, struct redrive_err *err)
{
    HAND_ON(history, seqs, n, ret, err);
}

static int late_edges(struct store *store, enum edge_side side, const int64_t *seqs, size_t n,
                      struct edge_page *ret, struct redrive_err *err)
{
    HAND_ON(edges, side, seqs, n, ret, err);
}

static int late_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                        struct redrive_err *err)
{
    HAND_ON(parents, seqs, n, ret, err);
}

static int late_counts(struct store *store, enum count_kind kind, struct str tenant,
                       struct count_page *ret, struct redrive_err *err)
{
    HAND_ON(counts, kind, tenant, ret, err);
}

static int late_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                       struct redrive_err *err)
{
    HAND_ON(groups, filter, ret, err);
}

static int late_causes(struct store *store, const struct job_filter *filter,
                       void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                       struct redrive_err *err)
{
    HAND_ON(causes, filter, add, ctx, err);
}

static int late_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                            struct shared_page *ret, struct redrive_err *err)
{
    HAND_ON(shared_list, kind, tenant, ret, err);
}

static int late_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                                size_t limit, struct remembered_key_page *ret,
                                struct redrive_err *err)
{
    HAND_ON(remembered_keys, after_tenant, after_key, limit, ret, err);
}

static int late_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                          bool *ret, struct redrive_err *err)
{
    HAND_ON(keys_held, tenant, keys, n, ret, err);
}

static int late_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                              struct redrive_err *err)
{
    HAND_ON(counters_list, tenant, ret, err);
}

static int late_snapshot(struct store *store, bool on, struct redrive_err *err)
{
    HAND_ON(snapshot, on, err);
}

/* ---- Care and waiting ------------------------------------------------------------------------ */

static int late_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    HAND_ON(facts, ret, err);
}

static int late_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                       struct redrive_err *err)
{
    HAND_ON(verify, progress, ctx, err);
}

static int late_backup(struct store *store, const char *path,
                       void (*progress)(void *ctx, const char *phase, uint64_t done,
                                        uint64_t total),
                       void *ctx, struct store_copy *ret, struct redrive_err *err)
{
    HAND_ON(backup, path, progress, ctx, ret, err);
}

static void late_upkeep(struct store *store)
{
    struct late *late = late_of(store);
    if (!late->store)
        return;
    store_ops(late->store)->upkeep(late->store);
    bring_back(late);
}

static int wait_open(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                     struct redrive_err *err)
{
    HAND_ON(wait, timeout_ms, ret_notification, err);
}

/* The first wait after it was opened has missed everything before. */
static int late_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                     struct redrive_err *err)
{
    const bool was_open = late_of(store)->store != NULL;
    if (ret_notification)
        *ret_notification = 0;
    int rc = wait_open(store, was_open ? timeout_ms : 0, ret_notification, err);
    if (rc == 0 && !was_open && ret_notification)
        *ret_notification = STORE_NOTIFY_ALL;
    return rc;
}

static int late_elect(struct store *store, int64_t keep_ms, bool claims, struct store_election *ret,
                      struct redrive_err *err)
{
    HAND_ON(elect, keep_ms, claims, ret, err);
}

/* ---- Handles --------------------------------------------------------------------------------- */

static void late_close(struct store *store)
{
    if (!store)
        return;
    store_close(late_of(store)->store);
    free(store);
}

/* It is there already. */
static int late_open(struct str place, const struct store_options *options, struct store **ret,
                     struct redrive_err *err)
{
    (void)place, (void)options, (void)ret;
    return err_set(err, REDRIVE_E_INTERNAL, "a handle cannot be opened again");
}

static const struct store_ops LATE = {STORE_SLOTS(late)};

/* The slots that not every store has are those of the kind. */
static void take_slots(struct late *late, const struct store_ops *kind)
{
    const struct store_ops *has = kind == &STORE_REDIS_TLS ? &STORE_REDIS : kind;
    late->ops = LATE;
    late->ops.scheme = kind->scheme;
    late->ops.capabilities = kind->capabilities | STORE_LATE;
    late->ops.backup_hint = kind->backup_hint;
    late->ops.look_ahead = has->look_ahead ? late_look_ahead : NULL;
    late->ops.scan_ahead = has->scan_ahead ? late_scan_ahead : NULL;
    late->ops.snapshot = has->snapshot ? late_snapshot : NULL;
    late->ops.backup = has->backup ? late_backup : NULL;
    late->ops.upkeep = has->upkeep ? late_upkeep : NULL;
    late->ops.elect = has->elect ? late_elect : NULL;
}

int store_open_late(const struct late_options *options, struct store **ret, struct redrive_err *err)
{
    const struct store_ops *kind;
    struct str place;
    *ret = NULL;
    int rc = store_find(options->url, &kind, &place, err);
    struct late *late = rc == 0 ? calloc(1, sizeof *late) : NULL;
    if (!late)
        return rc < 0 ? rc : err_nomem(err);
    take_slots(late, kind);
    late->base = (struct store_base){.ops = &late->ops, .durability = STORE_SURVIVES_POWER};
    late->options = *options;
    if (options->why)
        keep_reason(late, options->why->code, options->why);
    late->options.why = NULL;
    *ret = (struct store *)late;
    return 0;
}
