#include "engine/clock/leases.h"

#include "base/err.h"
#include "engine/private.h"

static bool is_of(const struct job *job, const struct job_name *name)
{
    return str_eq(job->spec.id, name->id) && str_eq(job->spec.tenant, name->tenant);
}

static bool holds(const struct job *job, uint64_t token)
{
    return job->status.state == REDRIVE_STATE_RUNNING && job->status.token == token;
}

static int apply(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct leases_op *op = (struct leases_op *)(void *)base;
    struct job_page page = {0};
    struct job_name *names = arena_array(&e->arena, op->n, sizeof *names);
    if (!names)
        return err_nomem(err);
    for (size_t i = 0; i < op->n; i++)
        names[i] = op->leases[i].job;
    int rc = e->ops->lookup(e->store, names, op->n, &page, err);
    /* The page is in the order of the names, and lacks those that are gone. */
    for (size_t i = 0, found = 0; i < op->n && rc == 0; i++) {
        struct lease *lease = &op->leases[i];
        lease->until_ms = 0;
        if (found == page.n || !is_of(&page.jobs[found], &lease->job))
            continue;
        const struct job *job = &page.jobs[found++];
        lease->until_ms = holds(job, lease->token) ? job->status.lease_until_ms : 0;
    }
    job_page_release(&page);
    return rc;
}

void leases_op_init(struct leases_op *op, struct lease *leases, size_t n)
{
    *op = (struct leases_op){.op = {.apply = apply, .weight = n}, .leases = leases, .n = n};
}
