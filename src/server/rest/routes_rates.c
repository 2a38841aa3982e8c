/* routes_rates.c - statistics for the dashboard: a summary, and rates over the last hour. */
#include "server/rest/routes.h"

#include "base/err.h"
#include "engine/report/stats.h"
#include "server/dashboard/rate_samples.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"
#include "store/job_json.h"

#define MINUTES_MAX 60
#define QUEUES_MAX  1000

/* A whole number of the query, or what it is without. False: it has been answered. */
static bool number_of(struct rest_call *call, const char *name, int64_t max, int64_t otherwise,
                      int64_t *ret)
{
    const struct str value = http_query(call->request, name);
    struct redrive_err err = {0};
    *ret = otherwise;
    if (!value.ptr || query_int(name, value, 1, max, ret, &err) == 0)
        return true;
    rest_fail(call, &err, name);
    return false;
}

static void get_summary(struct rest_call *call)
{
    struct stats stats = {0};
    struct redrive_err err = {0};
    int64_t queues;
    if (!number_of(call, "queues", QUEUES_MAX, 10, &queues))
        return;
    if (stats_read(rest_store(call), call->principal.tenant, &call->config->health,
                   rest_now_ms(call), &stats, &err) < 0) {
        rest_fail(call, &err, NULL);
        return;
    }
    stats_write_summary_json(rest_json(call), &stats, (size_t)queues);
    stats_release(&stats);
    rest_send(call, 200);
}

static void get_rates(struct rest_call *call)
{
    int64_t minutes;
    if (!number_of(call, "minutes", MINUTES_MAX, 15, &minutes))
        return;
    struct json_writer *w = rest_json(call);
    json_begin_object(w);
    job_write_time(w, "at", rest_now_ms(call));
    json_field_double(w, "step", RATE_STEP_MS / 1000.0);
    json_key(w, "items");
    json_begin_array(w);
    rate_samples_write(call->rest->rates, call->principal.tenant, minutes * 60 * 1000, w);
    json_end_array(w);
    json_end_object(w);
    rest_send(call, 200);
}

const struct rest_route REST_RATES[] = {
    {HTTP_GET, "/summary", CONFIG_SCOPE_READ, true, get_summary},
    {HTTP_GET, "/rates", CONFIG_SCOPE_READ, false, get_rates},
    {0},
};
