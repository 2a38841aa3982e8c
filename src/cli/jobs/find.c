/* find.c - finds a job by id, over all tenants if none is given. */
#include "cli/jobs/find.h"

#include "base/err.h"

static int not_found(const char *tenant, const char *id, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_NOT_FOUND, "there is no job %s", id);
    if (tenant)
        err_detail(err, "tenant %s", tenant);
    err_hint(err, "`redrive jobs list` shows what is there; ended jobs go when their time is over");
    return REDRIVE_E_NOT_FOUND;
}

static int ambiguous(const char *id, const struct job_page *page, struct redrive_err *err)
{
    struct str a = page->jobs[0].spec.tenant, b = page->jobs[1].spec.tenant;
    err_set(err, REDRIVE_E_USAGE, "several tenants have a job %s", id);
    err_detail(err, "among them %.*s and %.*s", (int)a.len, a.ptr, (int)b.len, b.ptr);
    err_hint(err, "say whose it is: --tenant NAME");
    return REDRIVE_E_USAGE;
}

int job_find(struct store *store, const char *tenant, const char *id, struct job_page *ret,
             struct redrive_err *err)
{
    const struct job_filter filter = {.tenant = str_of(tenant), .id = str_of(id), .limit = 2};
    if (id[0] == '\0')
        return err_set(err, REDRIVE_E_USAGE, "the id of the job is empty");
    if (tenant && tenant[0] == '\0')
        return err_set(err, REDRIVE_E_USAGE, "--tenant: the value is empty");
    int rc = store_ops(store)->list(store, &filter, ret, err);
    if (rc < 0)
        return rc;
    if (ret->n == 0)
        return not_found(tenant, id, err);
    return ret->n > 1 ? ambiguous(id, ret, err) : 0;
}

int job_find_dead(struct store *store, const char *tenant, const char *id, struct job_page *ret,
                  struct redrive_err *err)
{
    int rc = job_find(store, tenant, id, ret, err);
    if (rc < 0)
        return rc;
    enum redrive_state state = ret->jobs[0].status.state;
    if (state == REDRIVE_STATE_DEAD_LETTER)
        return 0;
    err_set(err, REDRIVE_E_STATE, "job %s is no dead letter: it is %s", id,
            redrive_state_name(state));
    err_hint(err, "see `redrive jobs show %s`", id);
    return REDRIVE_E_STATE;
}
