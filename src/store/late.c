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
static void tell_inner(const struct late *late)
{
    struct store_base *to = (struct store_base *)(void *)late->store;
    to->asks = late->base.asks;
    to->looks = late->base.looks;
    to->lock_wait_ms = late->base.lock_wait_ms;
    to->notification = late->base.notification;
}

static void bring_back(struct late *late)
{
    const struct store_ops *ops = late->base.ops;
    late->base = *store_base(late->store);
    late->base.ops = ops;
}

/* Hands a call on, when the store is open. */
#define PASS_ON(slot, ...)                                              \
    do {                                                                \
        struct late *late_ = late_of(store);                            \
        int rc_ = late_->store ? 0 : open_now(late_, err);              \
        if (rc_ < 0)                                                    \
            return rc_;                                                 \
        tell_inner(late_);                                              \
        rc_ = store_ops(late_->store)->slot(late_->store, __VA_ARGS__); \
        bring_back(late_);                                              \
        return rc_;                                                     \
    } while (0)
#include "store/pass_on.h"

/* ---- Transactions ---------------------------------------------------------------------------- */

static int pass_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_shared_version, struct redrive_err *err)
{
    PASS_ON(begin, now_ms, ret_now_ms, ret_shared_version, err);
}

static int64_t pass_set_time(struct store *store, int64_t now_ms)
{
    struct late *late = late_of(store);
    if (!late->store)
        return now_ms;
    now_ms = store_ops(late->store)->set_time(late->store, now_ms);
    late->base.unsure_ms = store_base(late->store)->unsure_ms;
    return now_ms;
}

static int pass_commit(struct store *store, struct redrive_err *err)
{
    PASS_ON(commit, err);
}

static void pass_rollback(struct store *store)
{
    struct late *late = late_of(store);
    if (!late->store)
        return;
    store_ops(late->store)->rollback(late->store);
    bring_back(late);
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
    PASS_ON(scan_ahead, scans, n, cancels, err);
}

static int late_snapshot(struct store *store, bool on, struct redrive_err *err)
{
    PASS_ON(snapshot, on, err);
}

/* ---- Care and waiting ------------------------------------------------------------------------ */

static int late_backup(struct store *store, const char *path,
                       void (*progress)(void *ctx, const char *phase, uint64_t done,
                                        uint64_t total),
                       void *ctx, struct store_copy *ret, struct redrive_err *err)
{
    PASS_ON(backup, path, progress, ctx, ret, err);
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
    PASS_ON(wait, timeout_ms, ret_notification, err);
}

/* The first wait after it was opened has missed everything before. */
static int pass_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
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

/* ---- Handles --------------------------------------------------------------------------------- */

static void pass_close(struct store *store)
{
    if (!store)
        return;
    store_close(late_of(store)->store);
    free(store);
}

/* It is there already. */
static int pass_open(struct str place, const struct store_options *options, struct store **ret,
                     struct redrive_err *err)
{
    (void)place, (void)options, (void)ret;
    return err_set(err, REDRIVE_E_INTERNAL, "a handle cannot be opened again");
}

static const struct store_ops LATE = {STORE_SLOTS(pass)};

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
    late->ops.elect = has->elect ? pass_elect : NULL;
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
