/* The bodies of requests: what is taken is within its bounds, what is not has an error with a text
 * and perhaps the name of a member; nothing is read twice as something else. */
#include "fuzz.h"

#include "base/json/json.h"
#include "engine/verbs/settle.h"
#include "api/new_job.h"
#include "api/job_query.h"
#include "server/rest/body/work.h"

#define NOW_MS INT64_C(1800000000000)

static bool is_name(struct str name)
{
    return name.len > 0 && name.len <= FIELD_NAME_MAX;
}

static void check_failed(const struct redrive_err *err, const char *field)
{
    FUZZ_CHECK(err->code < 0 && err->message[0] != '\0');
    FUZZ_CHECK(strlen(field) < FIELD_PLACE_MAX);
}

static void try_jobs(struct str text, bool are_options, struct arena *arena)
{
    const struct new_jobs_input input = {
        .text = text, .tenant = STR("x"), .now_ms = NOW_MS, .are_options = are_options};
    struct redrive_err err = {0};
    struct new_jobs jobs;
    if (new_jobs_read(&input, arena, &jobs, &err) < 0) {
        check_failed(&err, jobs.field);
        return;
    }
    FUZZ_CHECK(jobs.n > 0 && jobs.n <= NEW_JOBS_MAX && (jobs.is_array || jobs.n == 1));
    for (size_t i = 0; i < jobs.n; i++) {
        const struct job_spec *spec = &jobs.specs[i];
        FUZZ_CHECK(str_is(spec->tenant, "x") && is_name(spec->task));
        FUZZ_CHECK(spec->id.len <= FIELD_NAME_MAX);
        FUZZ_CHECK(spec->priority >= -100 && spec->priority <= 100);
        FUZZ_CHECK(!spec->payload.ptr || json_check(spec->payload, NULL, NULL) == 0);
    }
}

static void try_work(struct str text, struct arena *arena)
{
    struct redrive_err err = {0};
    struct claim_body claim;
    struct items_body settle;
    struct items_body extend;
    if (claim_body_read(text, arena, &claim, &err) < 0)
        check_failed(&err, claim.field);
    else
        FUZZ_CHECK(claim.n >= 1 && claim.n <= CLAIM_BODY_MAX && claim.wait_ms >= 0 &&
                   claim.wait_ms <= CLAIM_WAIT_MAX_MS &&
                   (claim.lease_ms == 0 || claim.lease_ms >= LEASE_MIN_MS) &&
                   claim.lease_ms <= LEASE_MAX_MS && claim.queues.n <= CLAIM_BODY_QUEUES &&
                   claim.tasks.n <= CLAIM_BODY_TASKS);
    int rc = settle_body_read(text, STR("x"), arena, &settle, &err);
    if (rc < 0)
        check_failed(&err, settle.field);
    for (size_t i = 0; rc == 0 && i < settle.n; i++)
        FUZZ_CHECK(str_is(settle.settlements[i].tenant, "x") && is_name(settle.settlements[i].id));
    if (extend_body_read(text, STR("x"), arena, &extend, &err) < 0)
        check_failed(&err, extend.field);
    uint64_t token = lease_token_read(text);
    char out[LEASE_TOKEN_MAX];
    FUZZ_CHECK(token == 0 || lease_token_read(str_of(lease_token_write(token, out))) == token);
}

static void try_query(struct str text, struct arena *arena)
{
    struct redrive_err err = {0};
    struct job_query query;
    job_query_init(&query, STR("x"), JOB_QUERY_JOBS | JOB_QUERY_LIMITS, ORDER_NEWEST, NOW_MS, arena,
                   &err);
    int rc = job_query_add_object(&query, text);
    if (rc == 0)
        rc = job_query_finish(&query);
    FUZZ_CHECK(rc == 0 || err.message[0] != '\0');
    FUZZ_CHECK(str_is(query.filter.tenant, "x"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = {(const char *)data, size};
    struct arena arena;
    arena_init(&arena);
    try_jobs(text, false, &arena);
    try_jobs(text, true, &arena);
    try_work(text, &arena);
    try_query(text, &arena);
    arena_release(&arena);
    return 0;
}
