/* routes_bulk.c - one verb over all jobs that match a filter, and the runs that do it.
 *
 * The answer comes at once. A run goes on in chunks after it (server/bulk_runs.h), and is listed
 * with its progress.
 */
#include <inttypes.h>
#include <stdio.h>

#include "api/bulk.h"
#include "server/bulk_runs.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"

static void send_start(struct rest_call *call, int status, const struct bulk_plan *plan, int64_t id)
{
    struct json_writer *w = rest_json(call);
    char text[24];
    json_begin_object(w);
    if (id != 0) {
        (void)snprintf(text, sizeof text, "%" PRId64, id);
        json_field_cstr(w, "id", text);
    }
    json_field_cstr(w, "verb", bulk_verb_name(plan->verb));
    json_field_bool(w, "dry_run", plan->dry_run);
    json_field_int(w, "matched", (int64_t)plan->matched);
    json_field_bool(w, "at_least", plan->is_at_least);
    if (plan->dry_run && plan->refused_is_known)
        json_field_int(w, "refused", (int64_t)plan->refused);
    else if (plan->dry_run)
        json_field_cstr(w, "refused", NULL);
    json_end_object(w);
    rest_send(call, status);
}

static void post_bulk(struct rest_call *call)
{
    struct api_input input;
    struct api_context context = rest_context(call, &input);
    struct bulk_plan *plan = kit_alloc(call, sizeof *plan);
    struct redrive_err err = {0};
    int64_t id = 0;
    if (!plan)
        return;
    int rc = bulk_plan_read(plan, &context, false, &err);
    call->is_dry_run = plan->dry_run;
    if (rc == 0)
        rc = bulk_plan_count(plan, rest_store(call), BULK_COUNT_MAX, plan->dry_run, &err);
    const bool has_work = rc == 0 && !plan->dry_run && plan->matched > 0;
    if (has_work)
        rc = bulk_runs_start(call->rest->bulk_runs, plan, &id, &err);
    if (rc < 0)
        kit_fail(call, &err, input.at_fault);
    else
        send_start(call, has_work ? 202 : 200, plan, id);
}

static void get_bulk(struct rest_call *call)
{
    struct json_writer *w = rest_json(call);
    api_begin_items(w);
    bulk_runs_write(call->rest->bulk_runs, call->principal.tenant, kit_redacts(call), w);
    api_end_items(w, NULL);
    rest_send(call, 200);
}

static void get_run(struct rest_call *call)
{
    const struct str id = call->params[0];
    int64_t number;
    if (kit_run_id(call, &number) &&
        bulk_runs_write_one(call->rest->bulk_runs, call->principal.tenant, number,
                            kit_redacts(call), rest_json(call)))
        rest_send(call, 200);
    else
        kit_refuse(call, REDRIVE_E_NOT_FOUND, "there is no run '%.*s'",
                   (int)(id.len < 100 ? id.len : 100), id.ptr);
}

static void delete_bulk(struct rest_call *call)
{
    kit_stop_run(call, "run");
}

const struct rest_route REST_BULK[] = {
    {.operation = &API_BULK, .own_reads = true, .own_run = post_bulk},
    {HTTP_GET, "/bulk", CONFIG_SCOPE_READ, false, get_bulk,
     .own_summary = "Runs over many jobs, with their progress"},
    {.operation = &API_BULK_RUN, .own_run = get_run},
    {.operation = &API_BULK_STOP, .own_reads = true, .own_run = delete_bulk},
    {0},
};
