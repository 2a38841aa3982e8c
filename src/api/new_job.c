/* new_job.c - reads new jobs from JSON. */
#include "api/new_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "core/vocabulary.h"
#include "store/after_json.h"

struct given_job {
    struct job_spec spec;
    int64_t priority;
    int64_t at_ms;
    int unique;
    struct str retry;
    struct str after;
    struct str traceparent;
    struct str failed;
    int64_t max_attempts;
};

struct given_failure {
    int class_;
    int reason;
    const char *error_type;
    const char *message;
    const char *stacktrace;
};

static const char *const UNIQUE[] = {"live", "forever", NULL};

#define JOB(m)  offsetof(struct given_job, m)
#define SPEC(m) offsetof(struct given_job, spec.m)

const struct field NEW_JOB_FIELDS[] = {
    [NEW_JOB_TASK] = {.name = "task", &FIELD_NAME, SPEC(task)},
    [NEW_JOB_PAYLOAD] = {.name = "payload", &FIELD_JSON, SPEC(payload)},
    [NEW_JOB_ID] = {.name = "id", &FIELD_NAME, SPEC(id)},
    [NEW_JOB_QUEUE] = {.name = "queue", &FIELD_QUEUE, SPEC(queue)},
    [NEW_JOB_PRIORITY] = {.name = "priority", &FIELD_INT, JOB(priority), .min = -100, .max = 100},
    [NEW_JOB_DELAY] = {.name = "delay", &FIELD_SPAN, SPEC(delay_ms), .max = DURATION_MAX_MS},
    [NEW_JOB_PROCESS_AFTER] = {.name = "process_after", &FIELD_TIME, SPEC(process_after_ms)},
    [NEW_JOB_AT] = {.name = "at", &FIELD_TIME, JOB(at_ms)},
    [NEW_JOB_DEADLINE] = {.name = "deadline", &FIELD_WHEN, SPEC(deadline_ms)},
    [NEW_JOB_UNIQUE_KEY] = {.name = "unique_key", &FIELD_NAME, SPEC(unique_key)},
    [NEW_JOB_UNIQUE] = {.name = "unique", &FIELD_WORD, JOB(unique), .words = UNIQUE},
    [NEW_JOB_USER] = {.name = "user", &FIELD_NAME, SPEC(user)},
    [NEW_JOB_PROJECT] = {.name = "project", &FIELD_NAME, SPEC(project)},
    [NEW_JOB_SERVICE] = {.name = "service", &FIELD_NAME, SPEC(service)},
    [NEW_JOB_RETRY] = {.name = "retry", &FIELD_OBJECT, JOB(retry)},
    [NEW_JOB_TRACEPARENT] = {.name = "traceparent", &FIELD_JSON, JOB(traceparent)},
    [NEW_JOB_MAX_ATTEMPTS] = {.name = "max_attempts",
                              &FIELD_INT,
                              JOB(max_attempts),
                              .min = 1,
                              .max = REDRIVE_MAX_RETRIES + 1},
    [NEW_JOB_AFTER] = {.name = "after", &FIELD_JSON, JOB(after)},
    [NEW_JOB_FAILED] = {.name = "failed", &FIELD_OBJECT, JOB(failed)},
    {0},
};

/* Classes without success, and the reasons that a program can know. */
static const char *const REASONS[] = {"exhausted", "not_retriable", "deadline", "breaker_open",
                                      NULL};

#define FAILURE(m) offsetof(struct given_failure, m)
static const struct field FAILURE_MEMBERS[] = {
    {.name = "class", &FIELD_TERM, FAILURE(class_), .vocabulary = VOCABULARY_CLASS, .skip = 1},
    {.name = "reason", &FIELD_WORD, FAILURE(reason), .words = REASONS},
    {.name = "error_type", &FIELD_TEXT, FAILURE(error_type), .max = FIELD_NAME_MAX},
    {.name = "message", &FIELD_TEXT, FAILURE(message), .max = REDRIVE_MESSAGE_MAX},
    {.name = "stacktrace", &FIELD_TEXT, FAILURE(stacktrace), .max = REDRIVE_STACKTRACE_MAX},
    {0},
};

/* max_attempts is a key of the policy like any other. */
static struct str policy_of(const struct given_job *job, struct arena *arena)
{
    char *text;
    if (job->max_attempts == 0)
        return job->retry;
    if (job->retry.len == 0) {
        text = arena_printf(arena, "{\"max_attempts\":%" PRId64 "}", job->max_attempts);
    } else {
        struct str rest = str_trim((struct str){job->retry.ptr + 1, job->retry.len - 1});
        text = arena_printf(arena, "{\"max_attempts\":%" PRId64 "%s%.*s", job->max_attempts,
                            rest.ptr[0] == '}' ? "" : ",", (int)rest.len, rest.ptr);
    }
    return str_of(text);
}

/* The ways to say when a job may start. */
static const size_t STARTS[] = {NEW_JOB_DELAY, NEW_JOB_PROCESS_AFTER, NEW_JOB_AT};
#define N_STARTS (sizeof STARTS / sizeof STARTS[0])

static int check_starts(struct field_reader *in, uint64_t given)
{
    const char *first = NULL;
    for (size_t i = 0; i < N_STARTS; i++) {
        const char *name = NEW_JOB_FIELDS[STARTS[i]].name;
        if (field_given(given, STARTS[i]) && first)
            return field_excludes(in, name, first);
        if (field_given(given, STARTS[i]))
            first = name;
    }
    return 0;
}

static int read_times(struct field_reader *in, struct given_job *job, uint64_t given)
{
    struct job_spec *spec = &job->spec;
    int rc = check_starts(in, given);
    if (rc < 0)
        return rc;
    if (field_given(given, NEW_JOB_AT))
        spec->process_after_ms = job->at_ms;
    if (!field_given(given, NEW_JOB_DEADLINE) || (spec->deadline_ms > in->now_ms + spec->delay_ms &&
                                                  spec->deadline_ms > spec->process_after_ms))
        return 0;
    rc = field_fault(in, "deadline", REDRIVE_E_INVALID,
                     spec->deadline_ms <= in->now_ms ? "that time has passed"
                                                     : "the job could never start");
    err_detail(in->err, "expected a time later than now, and than the job's own");
    return rc;
}

static int read_after(struct field_reader *in, struct given_job *job)
{
    struct redrive_err why = {0};
    const int rc =
        after_read_json(job->after, in->arena, &job->spec.after, &job->spec.n_after, &why);
    return rc < 0 ? field_fault(in, "after", rc, "%s", why.message) : 0;
}

/* The object is read by itself: members of it are named `failed.class` in an error. */
static int read_failure(struct field_reader *in, struct given_job *job)
{
    struct given_failure given = {.class_ = REDRIVE_CLASS_PERMANENT};
    uint64_t rows;
    struct field_reader inner;
    fields_json_open(&inner, job->failed, in->arena, in->now_ms, in->err);
    (void)snprintf(inner.at, sizeof inner.at, "%.50sfailed.", field_at(in));
    int rc = fields_json_object(&inner, FAILURE_MEMBERS, &given, &rows);
    fields_json_close(&inner);
    if (rc < 0) {
        (void)str_copy(in->place, sizeof in->place, str_of(inner.place));
        return rc;
    }
    struct job_failed *failed = arena_alloc(in->arena, sizeof *failed);
    if (!failed)
        return err_nomem(in->err);
    *failed = (struct job_failed){
        .reason =
            (enum redrive_reason)vocabulary_find(VOCABULARY_REASON, str_of(REASONS[given.reason])),
        .error = {.class_ = (enum redrive_class)given.class_,
                  .type = str_of(given.error_type),
                  .message = str_of(given.message),
                  .stacktrace = str_of(given.stacktrace)},
    };
    job->spec.failed = failed;
    return 0;
}

/* A dead letter does not start: a time, or jobs to wait for, would be lost without a word. */
static int read_failed(struct field_reader *in, struct given_job *job, uint64_t given)
{
    for (size_t i = 0; i < N_STARTS; i++)
        if (field_given(given, STARTS[i]))
            return field_excludes(in, NEW_JOB_FIELDS[STARTS[i]].name, "failed");
    if (job->spec.n_after > 0)
        return field_excludes(in, "after", "failed");
    return read_failure(in, job);
}

static int read_one(struct field_reader *in, struct str tenant, struct job_spec *ret)
{
    struct given_job job = {.spec = {.tenant = tenant, .payload_is_json = true}};
    uint64_t given;
    int rc = fields_json_object(in, NEW_JOB_FIELDS, &job, &given);
    if (rc == 0 && !field_given(given, NEW_JOB_TASK))
        rc = field_missing(in, "task", "the name of a task");
    if (rc == 0 && field_given(given, NEW_JOB_UNIQUE) && !field_given(given, NEW_JOB_UNIQUE_KEY))
        rc = field_missing(in, "unique_key", "a key, since 'unique' is given");
    if (rc == 0)
        rc = read_times(in, &job, given);
    if (rc == 0 && field_given(given, NEW_JOB_AFTER))
        rc = read_after(in, &job);
    if (rc == 0 && field_given(given, NEW_JOB_FAILED))
        rc = read_failed(in, &job, given);
    if (rc < 0)
        return rc;
    job.spec.priority = (int32_t)job.priority;
    job.spec.unique_forever = job.unique == 1;
    job.spec.policy = policy_of(&job, in->arena);
    /* Of any type: a trace that cannot be used is no fault of the job. */
    if (job.traceparent.len > 2)
        job.spec.policy = trace_keep((struct str){job.traceparent.ptr + 1, job.traceparent.len - 2},
                                     job.spec.policy, in->arena);
    *ret = job.spec;
    return 0;
}

static int check_count(size_t n, struct redrive_err *err)
{
    if (n > 0 && n <= NEW_JOBS_MAX)
        return 0;
    (void)err_set(err, REDRIVE_E_RANGE,
                  n == 0 ? "there is no job in the array" : "there are too many jobs in the array");
    err_detail(err, "expected 1 to %d jobs", NEW_JOBS_MAX);
    return REDRIVE_E_RANGE;
}

/* As many jobs as a text has room for, and the one at which reading fails. */
static size_t most_jobs(struct str text)
{
    const size_t n = text.len / strlen("{\"task\":\"t\"},") + 1;
    return n < NEW_JOBS_MAX ? n : NEW_JOBS_MAX;
}

static int read_array(struct field_reader *in, struct str tenant, struct new_jobs *ret)
{
    int rc = fields_json_enter(in, "");
    while (rc == 0 && (rc = fields_json_next(in, "", ret->n)) > 0)
        rc = ret->n < NEW_JOBS_MAX ? read_one(in, tenant, &ret->specs[ret->n++])
                                   : check_count(ret->n + 1, in->err);
    return rc < 0 ? rc : check_count(ret->n, in->err);
}

static int read_jobs(struct field_reader *in, const struct new_jobs_input *input,
                     struct new_jobs *ret)
{
    ret->is_array = fields_json_is_array(in);
    ret->specs =
        arena_array(in->arena, ret->is_array ? most_jobs(input->text) : 1, sizeof *ret->specs);
    if (!ret->specs)
        return err_nomem(in->err);
    if (ret->is_array)
        return read_array(in, input->tenant, ret);
    ret->n = 1;
    return read_one(in, input->tenant, ret->specs);
}

int new_jobs_read(const struct new_jobs_input *input, struct arena *arena, struct new_jobs *ret,
                  struct redrive_err *err)
{
    const struct str text = str_trim(input->text);
    const unsigned levels = text.len > 0 && text.ptr[0] == '[' ? 2 : 1;
    struct field_reader in;
    *ret = (struct new_jobs){0};
    fields_json_open_deeper(&in, input->text, levels, arena, input->now_ms, err);
    in.is_option = input->are_options;
    int rc = read_jobs(&in, input, ret);
    if (rc == 0)
        rc = fields_json_end(&in);
    fields_json_close(&in);
    (void)str_copy(ret->field, sizeof ret->field, str_of(in.place));
    return rc == 0 && arena->failed ? err_nomem(err) : rc;
}
