/* routes_dead.c - dead letters: many at once, by filter; and the operations on them. */
#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "engine/verbs/change.h"
#include "server/bulk_runs.h"
#include "fields/json.h"
#include "server/rest/private.h"
#include "server/rest/resource.h"

#define DEAD (1u << REDRIVE_STATE_DEAD_LETTER)

/* ---- Many at once ------------------------------------------------------------------------------
 *
 * Retry by filter, purge by age; the retries that go on at a rate.
 */

struct bulk_call {
    struct bulk_op op; /* first: the chunk that is under way */
    struct bulk bulk;
    const char *done; /* "redriven", "removed" */
    uint64_t matched;
    bool is_at_least;  /* more match than were counted */
    struct str filter; /* as it was sent */
    int64_t run_id;    /* 0: it does not go on after the answer */
};

static void send_counts(struct rest_call *call, int status, const struct bulk_call *b, bool dry_run,
                        uint64_t refused)
{
    struct json_writer *w = rest_json(call);
    char id[24];
    json_begin_object(w);
    if (b->run_id) {
        (void)snprintf(id, sizeof id, "%" PRId64, b->run_id);
        json_field_cstr(w, "id", id);
    }
    json_field_bool(w, "dry_run", dry_run);
    json_field_int(w, "matched", (int64_t)b->matched);
    json_field_bool(w, "at_least", b->is_at_least);
    json_field_int(w, b->done, (int64_t)b->bulk.changed);
    if (b->bulk.kind == MOVE_REDRIVE)
        json_field_int(w, "refused", (int64_t)refused);
    /* A dry run has nothing more to do: it has counted. */
    json_field_bool(w, "finished", dry_run || b->bulk.finished);
    json_end_object(w);
    rest_send(call, status);
}

/* ---- At once: chunk after chunk, others in between ------------------------------------------- */

static void next_chunk(struct rest_call *call, struct bulk_call *b);

static void chunk_done(struct rest_call *call, struct op *op)
{
    struct bulk_call *b = (struct bulk_call *)(void *)op;
    if (rest_refused(call, op))
        return;
    bulk_add(&b->bulk, &b->op);
    if (!b->bulk.finished) {
        next_chunk(call, b);
        return;
    }
    if (b->is_at_least) {
        b->matched = b->bulk.changed + b->bulk.refused;
        b->is_at_least = false;
    }
    send_counts(call, 200, b, false, b->bulk.refused);
}

static void next_chunk(struct rest_call *call, struct bulk_call *b)
{
    bulk_op_init(&b->op, &b->bulk, BULK_CHUNK_MAX);
    rest_commit(call, &b->op.op, chunk_done);
}

/* Counts, and then carries out what was asked for. */
static void start(struct rest_call *call, struct bulk_call *b, bool dry_run,
                  const struct rate *rate)
{
    struct bulk_run_spec run = {
        .verb = BULK_REDRIVE, .bulks = {&b->bulk}, .rate = rate, .filter = b->filter};
    struct redrive_err err = {0};
    struct bulk_forecast forecast;
    call->is_dry_run = dry_run;
    int rc = bulk_count(rest_store(call), &b->bulk, KIT_COUNT_MAX, &forecast, &err);
    run.matched = b->matched = forecast.changed + forecast.refused;
    run.is_at_least = b->is_at_least = forecast.is_at_least;
    if (rc < 0) {
        rest_fail(call, &err, NULL);
    } else if (dry_run || b->matched == 0) {
        b->bulk.finished = !dry_run;
        send_counts(call, 200, b, dry_run, forecast.refused);
    } else if (rate->count == 0) {
        next_chunk(call, b);
    } else if (bulk_runs_start(call->rest->bulk_runs, &run, &b->run_id, &err) < 0) {
        rest_fail(call, &err, NULL);
    } else {
        send_counts(call, 202, b, false, forecast.refused);
    }
}

/* ---- Retry by filter ------------------------------------------------------------------------- */

struct retry_body {
    struct str filter;
    struct rate rate;
    bool dry_run;
    bool all;
};

#define RETRY(m) offsetof(struct retry_body, m)

static const struct field RETRY_MEMBERS[] = {
    {"filter", &FIELD_OBJECT, RETRY(filter)},
    {"rate", &FIELD_RATE, RETRY(rate)},
    {"dry_run", &FIELD_BOOL, RETRY(dry_run)},
    {"all", &FIELD_BOOL, RETRY(all)},
    {0},
};

static int read_retry(struct rest_call *call, struct field_reader *b, struct retry_body *body,
                      struct job_query *query)
{
    const struct str text = http_body(call->request);
    uint64_t given;
    int rc = text.len > 0 ? fields_json_object(b, RETRY_MEMBERS, body, &given) : 0;
    if (rc == 0 && text.len > 0)
        rc = fields_json_end(b);
    return rc == 0 ? kit_read_filter(b, body->filter, body->all, "dead letters", query) : rc;
}

static void post_retry(struct rest_call *call)
{
    struct arena *arena = http_arena(call->request);
    struct bulk_call *bulk = kit_alloc(call, sizeof *bulk);
    struct retry_body body = {0};
    struct redrive_err err = {0};
    struct job_query query;
    struct field_reader b;
    if (!bulk)
        return;
    job_query_init(&query, call->principal.tenant, JOB_QUERY_JOBS, ORDER_OLDEST, rest_now_ms(call),
                   arena, &err);
    query.filter.states = DEAD;
    fields_json_open(&b, http_body(call->request), arena, 0, &err);
    int rc = read_retry(call, &b, &body, &query);
    fields_json_close(&b);
    if (rc < 0) {
        kit_fail(call, &err, b.place);
        return;
    }
    bulk_init(&bulk->bulk, MOVE_REDRIVE, &query.filter, rest_now_ms(call));
    bulk->done = "redriven";
    bulk->filter = body.filter;
    start(call, bulk, body.dry_run, &body.rate);
}

/* ---- Purge ----------------------------------------------------------------------------------- */

/* A missing parameter must not remove everything. */
static int need_age(struct job_query *query)
{
    if (query->filter.finished_before_ms != 0)
        return 0;
    return field_missing(&query->reader, "older_than_hours",
                         "a whole number of hours; 0 means all");
}

static void delete_letters(struct rest_call *call)
{
    static const struct rate AT_ONCE = {0};
    struct bulk_call *bulk = kit_alloc(call, sizeof *bulk);
    struct redrive_err err = {0};
    struct job_query query;
    if (!bulk)
        return;
    job_query_init(&query, call->principal.tenant, JOB_QUERY_JOBS | JOB_QUERY_PURGE, ORDER_OLDEST,
                   rest_now_ms(call), http_arena(call->request), &err);
    query.filter.states = DEAD;
    http_each_query(call->request, job_query_add, &query);
    int rc = job_query_finish(&query);
    if (rc == 0)
        rc = need_age(&query);
    if (rc < 0) {
        kit_fail(call, &err, query.reader.place);
        return;
    }
    bulk_init(&bulk->bulk, MOVE_REMOVE, &query.filter, rest_now_ms(call));
    bulk->done = "removed";
    start(call, bulk, query.dry_run, &AT_ONCE);
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
    {.operation = &API_DEAD_LETTER},
    {.operation = &API_EDIT_LETTER},
    {.operation = &API_REMOVE_LETTER},
    {.operation = &API_RETRY_LETTER},
    {HTTP_POST, LETTERS "/retry", CONFIG_SCOPE_ADMIN, true, post_retry},
    {HTTP_GET, RETRIES, CONFIG_SCOPE_READ, false, get_retries},
    {HTTP_DELETE, RETRIES "/{id}", CONFIG_SCOPE_ADMIN, true, delete_retry},
    {HTTP_DELETE, LETTERS, CONFIG_SCOPE_ADMIN, true, delete_letters},
    {0},
};
