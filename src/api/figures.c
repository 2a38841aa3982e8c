/* figures.c - what a store counts: experiments. */
#include "api/api.h"
#include "base/err.h"
#include "engine/report/experiments.h"

/* ---- Experiments ----------------------------------------------------------------------------- */

static int unknown_experiment(const struct api_context *c, const struct experiment_page *page,
                              struct redrive_err *err)
{
    const char **names = arena_array(c->arena, page->n, sizeof *names);
    for (size_t i = 0; names && i < page->n; i++)
        names[i] = arena_dup(c->arena, page->rows[i].name);
    if (c->arena->failed)
        return err_nomem(err);
    (void)err_set(err, REDRIVE_E_NOT_FOUND, "there is no experiment '%.*s'",
                  (int)(c->name.len < 100 ? c->name.len : 100), c->name.ptr);
    err_suggest(err, suggest(c->name, names, page->n));
    return REDRIVE_E_NOT_FOUND;
}

static int read_experiments(const struct api_context *c, struct json_writer *w,
                            struct redrive_err *err)
{
    RELEASED_BY(experiment_page_release) struct experiment_page page = {0};
    int rc = experiments_read(c->store, c->tenant, c->config, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    for (size_t i = 0; i < page.n; i++)
        experiment_write_json(w, &page.rows[i]);
    api_end_items(w, NULL);
    return 0;
}

static int read_experiment(const struct api_context *c, struct json_writer *w,
                           struct redrive_err *err)
{
    RELEASED_BY(experiment_page_release) struct experiment_page page = {0};
    int rc = experiments_read(c->store, c->tenant, c->config, &page, err);
    if (rc < 0)
        return rc;
    const struct experiment_row *row = experiment_find(&page, c->name);
    if (!row)
        return unknown_experiment(c, &page, err);
    experiment_write_json(w, row);
    return 0;
}

#define EXPERIMENTS "/experiments"

const struct operation API_EXPERIMENTS = {
    .path = EXPERIMENTS, .scope = CONFIG_SCOPE_READ, .read = read_experiments};
const struct operation API_EXPERIMENT = {
    .path = EXPERIMENTS "/{name}", .scope = CONFIG_SCOPE_READ, .read = read_experiment};
