#include "fault.h"

#include <stdlib.h>

#include "base/err.h"

unsigned long fault_step(void)
{
    const char *text = getenv("REDRIVE_FAULT_STEP");
    unsigned long step = text ? strtoul(text, NULL, 10) : 0;
    return step > 0 ? step : 1;
}

static bool is_due(struct fault *f)
{
    f->calls++;
    bool due = f->fail_at != 0 && f->calls == f->fail_at;
    f->met |= due;
    return due;
}

static bool is_down(const struct fault *f)
{
    return f->fail_at != 0 && f->met && f->from_then_on;
}

static int fail(struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_IO, "this call was to fail");
}

static int before(struct wrap *wrap, struct redrive_err *err)
{
    struct fault *f = (struct fault *)(void *)wrap;
    if (is_down(f) || (!f->after_commit && is_due(f)))
        return fail(err);
    return 0;
}

static int commit(struct store *store, struct redrive_err *err)
{
    struct fault *f = (struct fault *)(void *)store;
    int rc = before(&f->wrap, err);
    if (rc == 0)
        rc = store_ops(f->wrap.inner)->commit(f->wrap.inner, err);
    return rc == 0 && f->after_commit && is_due(f) ? fail(err) : rc;
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
