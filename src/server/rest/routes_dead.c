/* routes_dead.c - dead letters: many at once, by filter; and the operations on them. */
#include <inttypes.h>
#include <stdio.h>

#include "api/bulk.h"
#include "server/bulk_runs.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"

/* ---- Many at once ------------------------------------------------------------------------------
 *
 * Retry by filter, purge by age: the answer comes when all is done, in chunks, between which others
 * are served. Retries at a rate go on after the answer.
 */

struct bulk_call {
    struct bulk_op op; /* first: the chunk that is under way */
    struct bulk_plan plan;
    int64_t run_id; /* 0: it does not go on after the answer */
};

static void send_counts(struct rest_call *call, int status, const struct bulk_call *b,
                        uint64_t refused)
{
    const struct bulk_plan *plan = &b->plan;
    const struct bulk *part = &plan->parts[0];
    struct json_writer *w = rest_json(call);
    char id[24];
    json_begin_object(w);
    if (b->run_id) {
        (void)snprintf(id, sizeof id, "%" PRId64, b->run_id);
        json_field_cstr(w, "id", id);
    }
    json_field_bool(w, "dry_run", plan->dry_run);
    json_field_int(w, "matched", (int64_t)plan->matched);
    json_field_bool(w, "at_least", plan->is_at_least);
    json_field_int(w, plan->verb == BULK_REDRIVE ? "redriven" : "removed", (int64_t)part->changed);
    if (plan->verb == BULK_REDRIVE && plan->dry_run && !plan->refused_is_known)
        json_field_cstr(w, "refused", NULL);
    else if (plan->verb == BULK_REDRIVE)
        json_field_int(w, "refused", (int64_t)refused);
    /* A dry run has nothing more to do: it has counted. */
    json_field_bool(w, "finished", plan->dry_run || part->finished);
    json_end_object(w);
    rest_send(call, status);
}

static void next_chunk(struct rest_call *call, struct bulk_call *b);

static void chunk_done(struct rest_call *call, struct op *op)
{
    struct bulk_call *b = (struct bulk_call *)(void *)op;
    struct bulk *part = &b->plan.parts[0];
    if (rest_refused(call, op))
        return;
    bulk_add(part, &b->op);
    if (!part->finished) {
        next_chunk(call, b);
        return;
    }
    if (b->plan.is_at_least) {
        b->plan.matched = part->changed + part->refused;
        b->plan.is_at_least = false;
    }
    send_counts(call, 200, b, part->refused);
}

static void next_chunk(struct rest_call *call, struct bulk_call *b)
{
    bulk_op_init(&b->op, &b->plan.parts[0], BULK_CHUNK_MAX);
    rest_commit(call, &b->op.op, chunk_done);
}

/* Counts, and then carries out what was asked for. */
static void start(struct rest_call *call, struct bulk_call *b)
{
    struct bulk_plan *plan = &b->plan;
    struct redrive_err err = {0};
    call->is_dry_run = plan->dry_run;
    int rc = bulk_plan_count(plan, rest_store(call), BULK_COUNT_MAX, true, &err);
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else if (plan->dry_run || plan->matched == 0) {
        plan->parts[0].finished = !plan->dry_run;
        send_counts(call, 200, b, plan->refused);
    } else if (plan->rate.count == 0) {
        next_chunk(call, b);
    } else if (bulk_runs_start(call->rest->bulk_runs, plan, &b->run_id, &err) < 0) {
        rest_fail(call, &err, NULL);
    } else {
        send_counts(call, 202, b, plan->refused);
    }
}

static void post_retry(struct rest_call *call)
{
    struct api_input input;
    const struct api_context context = rest_context(call, &input);
    struct bulk_call *b = kit_alloc(call, sizeof *b);
    struct redrive_err err = {0};
    if (!b)
        return;
    if (bulk_plan_read(&b->plan, &context, true, &err) < 0)
        kit_fail(call, &err, input.at_fault);
    else
        start(call, b);
}

static void delete_letters(struct rest_call *call)
{
    struct api_input input;
    const struct api_context context = rest_context(call, &input);
    struct bulk_call *b = kit_alloc(call, sizeof *b);
    struct redrive_err err = {0};
    if (!b)
        return;
    if (bulk_plan_read_purge(&b->plan, &context, &err) < 0)
        kit_fail(call, &err, input.at_fault);
    else
        start(call, b);
}

/* ---- Retries at a rate ----------------------------------------------------------------------- */

static void get_retries(struct rest_call *call)
{
    struct json_writer *w = rest_json(call);
    api_begin_items(w);
    bulk_runs_write_redrives(call->rest->bulk_runs, call->principal.tenant, kit_redacts(call), w);
    api_end_items(w, NULL);
    rest_send(call, 200);
}

static void delete_retry(struct rest_call *call)
{
    kit_stop_run(call, "retry");
}

#define LETTERS "/retry/dead-letters"
#define RETRIES LETTERS "/retries"

const struct rest_route REST_DEAD[] = {
    {.operation = &API_DEAD_LETTERS},
    {.operation = &API_DEAD_GROUPS},
    {.operation = &API_DEAD_STATS},
    {.own_path = LETTERS "/{id}", .operation = &API_DEAD_LETTER},
    {.own_path = LETTERS "/{id}", .operation = &API_EDIT_LETTER},
    {.own_path = LETTERS "/{id}", .operation = &API_REMOVE_LETTER},
    {.own_path = LETTERS "/{id}/retry", .operation = &API_RETRY_LETTER},
    /* The same for every id, also one that is a word of the paths above. */
    {.operation = &API_DEAD_LETTER,
     .own_summary = "Show a dead letter with its history, whatever its id"},
    {.operation = &API_EDIT_LETTER,
     .own_summary = "Give a dead letter another payload, whatever its id"},
    {.operation = &API_REMOVE_LETTER,
     .own_summary = "Remove a dead letter, whatever its id, and its history for good"},
    {.operation = &API_RETRY_LETTER,
     .own_summary = "Redrive a dead letter, whatever its id, with fresh attempts"},
    {HTTP_POST, LETTERS "/retry", CONFIG_SCOPE_ADMIN, true, post_retry,
     .own_summary = "Redrive all dead letters that match", .own_body = {BULK_FIELDS, 0}},
    {HTTP_GET, RETRIES, CONFIG_SCOPE_READ, false, get_retries,
     .own_summary = "The redrives at a rate that are under way"},
    {HTTP_DELETE, RETRIES "/{id}", CONFIG_SCOPE_ADMIN, true, delete_retry,
     .own_summary = "Stop a redrive at a rate; jobs that were not redriven stay dead"},
    {HTTP_DELETE, LETTERS, CONFIG_SCOPE_ADMIN, true, delete_letters,
     .own_summary = "Remove dead letters that are old enough, for good",
     .own_parameters = {JOB_QUERY_FIELDS, BULK_PURGE_USES}},
    {0},
};
