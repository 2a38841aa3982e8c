/* routes_experiments.c - experiments with the figures of their arms. */
#include "base/err.h"
#include "engine/report/experiments.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"

static void write_experiment(struct json_writer *w, const void *page, size_t i)
{
    experiment_write_json(w, &((const struct experiment_page *)page)->rows[i]);
}

static void get_experiments(struct rest_call *call)
{
    struct experiment_page page = {0};
    struct redrive_err err = {0};
    int rc = experiments_read(rest_store(call), call->principal.tenant, call->config, &page, &err);
    kit_send_items(call, rc, &err, &page, page.n, write_experiment);
    experiment_page_release(&page);
}

static void get_experiment(struct rest_call *call)
{
    const struct str name = call->params[0];
    struct experiment_page page = {0};
    struct redrive_err err = {0};
    int rc = experiments_read(rest_store(call), call->principal.tenant, call->config, &page, &err);
    const struct experiment_row *row = rc == 0 ? experiment_find(&page, name) : NULL;
    if (rc == 0 && !row)
        rc = err_set(&err, REDRIVE_E_NOT_FOUND, "there is no experiment '%.*s'",
                     (int)(name.len < 100 ? name.len : 100), name.ptr);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else {
        experiment_write_json(rest_json(call), row);
        rest_send(call, 200);
    }
    experiment_page_release(&page);
}

const struct rest_route REST_EXPERIMENTS[] = {
    {HTTP_GET, "/experiments", CONFIG_SCOPE_READ, true, get_experiments, .outlives_store = false},
    {HTTP_GET, "/experiments/{name}", CONFIG_SCOPE_READ, true, get_experiment,
     .outlives_store = false},
    {0},
};
