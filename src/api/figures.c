/* figures.c - what a store counts: statistics, workers, health, experiments. */
#include "api/api.h"
#include "base/err.h"
#include "engine/report/experiments.h"
#include "engine/report/stats.h"
#include "store/job_json.h"

/* ---- Statistics ------------------------------------------------------------------------------ */

static int read_stats(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(stats_release) struct stats stats = {0};
    int rc = stats_read(c->store, c->tenant, &c->config->health, c->now_ms, &stats, err);
    if (rc == 0)
        stats_write_json(w, &stats);
    return rc;
}

static int read_retry_stats(const struct api_context *c, struct json_writer *w,
                            struct redrive_err *err)
{
    RELEASED_BY(stats_release) struct stats stats = {0};
    int rc = stats_read_all(c->store, c->tenant, &c->config->health, c->now_ms, &stats, err);
    if (rc == 0)
        stats_write_retry_json(w, &stats);
    return rc;
}

static int read_workers(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(worker_page_release) struct worker_page page = {0};
    int rc = workers_read(c->store, c->tenant, c->now_ms, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    for (size_t i = 0; i < page.n; i++)
        worker_write_json(w, &page.workers[i]);
    api_end_items(w, NULL);
    return 0;
}

const struct operation API_STATS = {
    .path = "/stats", .summary = "All statistics", .scope = CONFIG_SCOPE_READ, .read = read_stats};
const struct operation API_RETRY_STATS = {
    .path = "/retry/stats",
    .summary = "Executions, breakers and dead letters in numbers; rates in percent",
    .scope = CONFIG_SCOPE_READ,
    .read = read_retry_stats};
const struct operation API_WORKERS = {
    .path = "/workers",
    .summary = "The workers that are alive, those that work through a server included",
    .scope = CONFIG_SCOPE_READ,
    .read = read_workers};

/* ---- Health ---------------------------------------------------------------------------------- */

/* Old figures say nothing about now: a store that cannot be read is bad health. */
static void write_no_figures(struct json_writer *w, const char *error)
{
    json_field_cstr(w, "status", "unhealthy");
    json_field_double(w, "health_score", 0);
    json_field_cstr(w, "success_rate", NULL);
    json_field_cstr(w, "error", error);
}

void api_write_health(struct json_writer *w, const struct api_health *health)
{
    json_begin_object(w);
    if (health->figures)
        health_write_members(w, health->figures, health->workers);
    else
        write_no_figures(w, health->error);
    json_open_object(w, "store");
    json_field_cstr(w, "status", health->store);
    if (health->store_error) {
        job_write_time(w, "since", health->since_ms);
        json_field_cstr(w, "error", health->store_error);
    }
    json_end_object(w);
    json_end_object(w);
}

static int read_health(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(worker_page_release) struct worker_page workers = {0};
    struct redrive_health figures;
    int rc = stats_health(c->store, &c->config->health, c->now_ms, &figures, &workers, err);
    const struct api_health health = {
        .figures = &figures, .workers = workers.n_working, .store = "ok"};
    if (rc == 0)
        api_write_health(w, &health);
    return rc;
}

const struct operation API_HEALTH = {
    .path = "/health", .summary = "How well the work goes", .read = read_health};

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
    .path = EXPERIMENTS,
    .summary = "All experiments, running and stopped, with the figures of their arms",
    .scope = CONFIG_SCOPE_READ,
    .read = read_experiments};
const struct operation API_EXPERIMENT = {.path = EXPERIMENTS "/{name}",
                                         .summary = "One experiment, with the figures of its arms",
                                         .scope = CONFIG_SCOPE_READ,
                                         .read = read_experiment};
