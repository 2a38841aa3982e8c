/* control.c - queues, circuit breakers and limits. */
#include "api/api.h"

#include "engine/gates/view.h"
#include "store/job_json.h"

void api_begin_items(struct json_writer *w)
{
    json_begin_object(w);
    json_open_array(w, "items");
}

void api_end_items(struct json_writer *w, const char *next)
{
    json_end_array(w);
    json_field_cstr(w, "next", next);
    json_end_object(w);
}

/* ---- Queues ---------------------------------------------------------------------------------- */

static void write_queue(struct json_writer *w, const struct job_count *queue)
{
    json_begin_object(w);
    json_field_string(w, "queue", queue->queue);
    json_field_string(w, "tenant", queue->tenant);
    json_field_bool(w, "paused", queue->paused);
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        json_field_int(w, redrive_state_name((enum redrive_state)state),
                       (int64_t)queue->by_state[state]);
    job_write_time(w, "oldest_ready", queue->oldest_ready_ms);
    job_write_time(w, "next_due", queue->next_due_ms);
    json_end_object(w);
}

static int read_queues(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page page = {0};
    int rc = store_ops(c->store)->counts(c->store, COUNT_QUEUES, c->tenant, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    for (size_t i = 0; i < page.n; i++)
        write_queue(w, &page.counts[i]);
    api_end_items(w, NULL);
    return 0;
}

const struct operation API_QUEUES = {"/queues", CONFIG_SCOPE_READ, read_queues};

/* ---- Breakers -------------------------------------------------------------------------------- */

static int read_breakers(const struct api_context *c, struct json_writer *w,
                         struct redrive_err *err)
{
    RELEASED_BY(breaker_page_release) struct breaker_page page = {0};
    int rc = breakers_read(c->store, c->tenant, c->now_ms, &page, err);
    if (rc == 0)
        rc = breakers_add_declared(c->config, c->tenant, c->now_ms, &page, err);
    if (rc == 0)
        rc = breakers_count_parked(c->store, c->tenant, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    for (size_t i = 0; i < page.n; i++)
        breaker_write_json(w, &page.breakers[i]);
    api_end_items(w, NULL);
    return 0;
}

const struct operation API_BREAKERS = {"/retry/circuit-breakers", CONFIG_SCOPE_READ, read_breakers};

/* ---- Limits ---------------------------------------------------------------------------------- */

static int read_limits(const struct api_context *c, struct json_writer *w, struct redrive_err *err)
{
    RELEASED_BY(limit_page_release) struct limit_page page = {0};
    int rc = limits_read(c->store, c->tenant, c->now_ms, &page, err);
    if (rc == 0)
        rc = limits_count_parked(c->store, c->tenant, &page, err);
    if (rc < 0)
        return rc;
    api_begin_items(w);
    for (size_t i = 0; i < page.n; i++)
        limit_write_json(w, &page.limits[i]);
    api_end_items(w, NULL);
    return 0;
}

const struct operation API_LIMITS = {"/limits", CONFIG_SCOPE_READ, read_limits};
