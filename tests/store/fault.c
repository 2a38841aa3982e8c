#include "fault.h"

#include "base/err.h"

static bool is_due(struct fault *f)
{
    f->calls++;
    bool due =
        f->fail_at != 0 && (f->calls == f->fail_at || (f->from_then_on && f->calls > f->fail_at));
    f->met |= due;
    return due;
}

static int fail(struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_IO, "this call was to fail");
}

static int before(struct wrap *wrap, struct redrive_err *err)
{
    return is_due((struct fault *)(void *)wrap) ? fail(err) : 0;
}

static int commit(struct store *store, struct redrive_err *err)
{
    struct fault *f = (struct fault *)(void *)store;
    bool due = is_due(f);
    if (due && !f->after_commit)
        return fail(err);
    int rc = store_ops(f->wrap.inner)->commit(f->wrap.inner, err);
    return rc == 0 && due ? fail(err) : rc;
}

void fault_init(struct fault *fault, struct store *inner)
{
    *fault = (struct fault){0};
    wrap_init(&fault->wrap, inner);
    fault->wrap.before = before;
    fault->wrap.ops.commit = commit;
}

void fault_heal(struct fault *fault)
{
    fault->fail_at = 0;
}
