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

static void release(struct api_change *change)
{
    if (change->operation->release)
        change->operation->release(change);
}

int api_begin(const struct operation *operation, const struct api_context *c,
              struct api_change *ret, struct redrive_err *err)
{
    *ret = (struct api_change){.operation = operation, .arena = c->arena, .status = 200};
    int rc = operation->begin(c, ret, err);
    if (rc < 0)
        release(ret);
    return rc;
}

int api_end(struct api_change *change, struct json_writer *w, const char **ret_field,
            struct redrive_err *err)
{
    int rc = change->operation->end(change, w, ret_field, err);
    if (rc != API_GOES_ON)
        release(change);
    return rc;
}

void api_each(const struct api_context *c, api_take_fn take, void *ctx)
{
    if (c->input && c->input->each)
        c->input->each(c->input->from, take, ctx);
}

int api_note_fault(const struct api_context *c, int rc, const char *place)
{
    if (rc < 0 && c->input)
        (void)str_copy(c->input->at_fault, sizeof c->input->at_fault, str_of(place));
    return rc;
}

int api_refuse_op(const struct op *op, const char *field, const char **ret_field,
                  struct redrive_err *err)
{
    const bool is_name = op->code == REDRIVE_E_INVALID || op->code == REDRIVE_E_TOO_BIG;
    *ret_field = is_name ? field : NULL;
    *err = op->err;
    return op->code;
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

static int begin_pause(const struct api_context *c, struct api_change *change,
                       struct redrive_err *err)
{
    (void)err;
    pause_op_init(&change->pause, c->tenant, c->name, change->operation == &API_PAUSE);
    return 0;
}

static int end_pause(struct api_change *change, struct json_writer *w, const char **ret_field,
                     struct redrive_err *err)
{
    struct pause_op *op = &change->pause;
    if (op->op.code < 0)
        return api_refuse_op(&op->op, "queue", ret_field, err);
    if (pause_op_goes_on(op))
        return API_GOES_ON;
    json_begin_object(w);
    json_field_string(w, "queue", op->queue);
    json_field_bool(w, "paused", op->pause);
    json_end_object(w);
    return API_ANSWERED;
}

#define QUEUES "/queues"

const struct operation API_QUEUES = {.path = QUEUES,
                                     .summary = "Every queue with its jobs by state",
                                     .scope = CONFIG_SCOPE_READ,
                                     .read = read_queues};
const struct operation API_PAUSE = {.method = API_POST,
                                    .path = QUEUES "/{queue}/pause",
                                    .summary = "Start no more jobs of a queue",
                                    .scope = CONFIG_SCOPE_ADMIN,
                                    .begin = begin_pause,
                                    .end = end_pause};
const struct operation API_RESUME = {.method = API_POST,
                                     .path = QUEUES "/{queue}/resume",
                                     .summary = "Start jobs of a queue again",
                                     .scope = CONFIG_SCOPE_ADMIN,
                                     .begin = begin_pause,
                                     .end = end_pause};

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

/* There would be nothing to reset, and a failure of what does not run means nothing. */
static int begin_move(const struct api_context *c, struct api_change *change,
                      struct redrive_err *err)
{
    (void)err;
    const enum breaker_verb verb = (enum breaker_verb)change->operation->variant;
    breaker_op_init(&change->breaker, c->tenant, c->name, verb);
    change->breaker.known_only = verb == BREAKER_RESET || verb == BREAKER_SIMULATE_FAILURE;
    return 0;
}

/* The list has the whole. */
static void write_moved(struct json_writer *w, struct str key,
                        const struct redrive_breaker_status *status)
{
    json_begin_object(w);
    json_field_string(w, "key", key);
    json_field_cstr(w, "state", redrive_breaker_state_name(status->state));
    json_field_int(w, "failure_count", status->failure_count);
    json_field_int(w, "success_count", status->success_count);
    job_write_time(w, "opened_at", status->opened_at_ms);
    job_write_time(w, "next_probe_at", status->next_probe_ms);
    json_end_object(w);
}

static int end_move(struct api_change *change, struct json_writer *w, const char **ret_field,
                    struct redrive_err *err)
{
    const struct breaker_op *op = &change->breaker;
    const char *parameter = change->operation->parameter;
    if (op->op.code < 0)
        return api_refuse_op(&op->op, parameter ? parameter : "type", ret_field, err);
    write_moved(w, op->key, &op->status);
    return API_ANSWERED;
}

#define BREAKERS "/retry/circuit-breakers"
#define MOVE(where, verb, what)                                                              \
    {                                                                                        \
        .method = API_POST, .path = (where), .summary = (what), .scope = CONFIG_SCOPE_ADMIN, \
        .begin = begin_move, .end = end_move, .variant = (verb),                             \
    }

const struct operation API_BREAKERS = {
    .path = BREAKERS, .summary = "All breakers", .scope = CONFIG_SCOPE_READ, .read = read_breakers};
const struct operation API_BREAKER_RESET =
    MOVE(BREAKERS "/{type}/reset", BREAKER_RESET,
         "Close a breaker and forget everything; parked jobs are let go");
const struct operation API_BREAKER_TRIP =
    MOVE(BREAKERS "/{type}/trip", BREAKER_TRIP, "Let nothing pass until a reset");
const struct operation API_BREAKER_DISABLE =
    MOVE(BREAKERS "/{type}/disable", BREAKER_DISABLE, "Let everything pass until a reset");
const struct operation API_BREAKER_FAILURE = {
    .method = API_POST,
    .path = "/retry/simulate-failure",
    .summary = "Feed one counted failure to the breaker of a task, for trying it out",
    .parameter = "task_type",
    .scope = CONFIG_SCOPE_ADMIN,
    .begin = begin_move,
    .end = end_move,
    .variant = BREAKER_SIMULATE_FAILURE};

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

const struct operation API_LIMITS = {.path = "/limits",
                                     .summary =
                                         "All limits that jobs have met, with their retry budgets",
                                     .scope = CONFIG_SCOPE_READ,
                                     .read = read_limits};
