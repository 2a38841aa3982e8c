#include "wrap.h"

#include "base/err.h"

/* Passes a call on, unless `before` has something against it. */
#define PASS_ON(slot, ...)                                                         \
    do {                                                                           \
        struct wrap *w_ = wrap_of(store);                                          \
        int rc_ = w_->before ? w_->before(w_, err) : 0;                            \
        return rc_ < 0 ? rc_ : store_ops(w_->inner)->slot(w_->inner, __VA_ARGS__); \
    } while (0)
#include "store/pass_on.h"

/* A wrapper is made by wrap_init. */
static int pass_open(struct str place, const struct store_options *options, struct store **ret,
                     struct redrive_err *err)
{
    (void)place, (void)options, (void)ret;
    return err_set(err, REDRIVE_E_INTERNAL, "a wrapper is not opened");
}

static void pass_close(struct store *store)
{
    store_ops(store)->rollback(store);
}

static int pass_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                      int64_t *ret_shared_version, struct redrive_err *err)
{
    store_notify(store, STORE_NOTIFY_ALL);
    PASS_ON(begin, now_ms, ret_now_ms, ret_shared_version, err);
}

static int64_t pass_set_time(struct store *store, int64_t now_ms)
{
    struct wrap *w = wrap_of(store);
    return store_ops(w->inner)->set_time(w->inner, now_ms);
}

static int pass_commit(struct store *store, struct redrive_err *err)
{
    store_notify(wrap_of(store)->inner, store_base(store)->notification);
    PASS_ON(commit, err);
}

static void pass_rollback(struct store *store)
{
    struct wrap *w = wrap_of(store);
    store_ops(w->inner)->rollback(w->inner);
}

static int pass_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                     struct redrive_err *err)
{
    PASS_ON(wait, timeout_ms, ret_notification, err);
}

void wrap_init(struct wrap *wrap, struct store *inner)
{
    *wrap = (struct wrap){
        .base = *store_base(inner),
        .ops = {STORE_SLOTS(pass), .elect = pass_elect},
        .inner = inner,
    };
    wrap->ops.scheme = store_ops(inner)->scheme;
    wrap->ops.capabilities = store_ops(inner)->capabilities;
    wrap->base.ops = &wrap->ops;
}
