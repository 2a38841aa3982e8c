/* routes_control.c - queues, limits, breakers, tasks and cron entries; the history of breakers. */
#include "server/rest/private.h"

#include "base/err.h"
#include "engine/gates/view.h"
#include "engine/verbs/control.h"
#include "server/dashboard/breaker_history.h"
#include "server/rest/body/views.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

/* ---- Breakers -------------------------------------------------------------------------------- */

/* The path is that of no breaker: those of breakers end with a verb. */
#define HISTORY_MINUTES_MAX (7 * 24 * 60)

static const struct field HISTORY_FIELDS[] = {
    {"minutes", &FIELD_INT, 0, .min = 1, .max = HISTORY_MINUTES_MAX, .default_text = "60"},
    {0},
};

static void get_history(struct rest_call *call)
{
    const int64_t now_ms = rest_now_ms(call);
    struct breaker_history *history = call->rest->breakers;
    struct redrive_err err = {0};
    int64_t minutes;
    if (!kit_parameter(call, HISTORY_FIELDS, &minutes))
        return;
    if (breaker_history_take(history, rest_store(call), now_ms, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    job_write_time(w, "at", now_ms);
    job_write_time(w, "since", breaker_history_since_ms(history));
    json_open_array(w, "items");
    breaker_history_write(history, call->principal.tenant, now_ms, minutes * 60 * 1000, w);
    json_end_array(w);
    json_end_object(w);
    rest_send(call, 200);
}

const struct rest_route REST_CONTROL[] = {
    {.operation = &API_QUEUES},
    {.operation = &API_PAUSE},
    {.operation = &API_RESUME},
    {.operation = &API_LIMITS},
    {.operation = &API_BREAKERS},
    {HTTP_GET, "/retry/circuit-breakers/history", CONFIG_SCOPE_READ, true, get_history,
     .own_summary = "When breakers changed their state", .own_parameters = {HISTORY_FIELDS, 0}},
    {.operation = &API_BREAKER_RESET},
    {.operation = &API_BREAKER_TRIP},
    {.operation = &API_BREAKER_DISABLE},
    {.operation = &API_BREAKER_FAILURE},
    {.operation = &API_TASKS},
    {.operation = &API_TASKS_DECLARE},
    {.operation = &API_TASK},
    {.operation = &API_CRON},
    {.operation = &API_CRON_DECLARE},
    {.operation = &API_CRON_PUT},
    {.operation = &API_CRON_REMOVE},
    {.operation = &API_CRON_RUN},
    {0},
};
