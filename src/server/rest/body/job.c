/* job.c - reads new jobs from a request. */
#include "server/rest/body/job.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/encode.h"
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

enum {
    TASK,
    PAYLOAD,
    ID,
    QUEUE,
    PRIORITY,
    DELAY,
    PROCESS_AFTER,
    AT,
    DEADLINE,
    UNIQUE_KEY,
    UNIQUE_HOW,
    USER,
    PROJECT,
    SERVICE,
    RETRY,
    TRACEPARENT,
    MAX_ATTEMPTS,
    AFTER,
    FAILED,
};

#define JOB(m)  offsetof(struct given_job, m)
#define SPEC(m) offsetof(struct given_job, spec.m)

static const struct field MEMBERS[] = {
    [TASK] = {.name = "task", &FIELD_NAME, SPEC(task)},
    [PAYLOAD] = {.name = "payload", &FIELD_JSON, SPEC(payload)},
    [ID] = {.name = "id", &FIELD_NAME, SPEC(id)},
    [QUEUE] = {.name = "queue", &FIELD_NAME, SPEC(queue)},
    [PRIORITY] = {.name = "priority", &FIELD_INT, JOB(priority), .min = -100, .max = 100},
    [DELAY] = {.name = "delay", &FIELD_SPAN, SPEC(delay_ms), .max = DURATION_MAX_MS},
    [PROCESS_AFTER] = {.name = "process_after", &FIELD_TIME, SPEC(process_after_ms)},
    [AT] = {.name = "at", &FIELD_TIME, JOB(at_ms)},
    [DEADLINE] = {.name = "deadline", &FIELD_WHEN, SPEC(deadline_ms)},
    [UNIQUE_KEY] = {.name = "unique_key", &FIELD_NAME, SPEC(unique_key)},
    [UNIQUE_HOW] = {.name = "unique", &FIELD_WORD, JOB(unique), .words = UNIQUE},
    [USER] = {.name = "user", &FIELD_NAME, SPEC(user)},
    [PROJECT] = {.name = "project", &FIELD_NAME, SPEC(project)},
    [SERVICE] = {.name = "service", &FIELD_NAME, SPEC(service)},
    [RETRY] = {.name = "retry", &FIELD_OBJECT, JOB(retry)},
    [TRACEPARENT] = {.name = "traceparent", &FIELD_JSON, JOB(traceparent)},
    [MAX_ATTEMPTS] = {.name = "max_attempts",
                      &FIELD_INT,
                      JOB(max_attempts),
                      .min = 1,
                      .max = REDRIVE_MAX_RETRIES + 1},
    [AFTER] = {.name = "after", &FIELD_JSON, JOB(after)},
    [FAILED] = {.name = "failed", &FIELD_OBJECT, JOB(failed)},
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

static int read_times(struct field_reader *in, struct given_job *job, uint64_t given)
{
    static const size_t WAYS[] = {DELAY, PROCESS_AFTER, AT};
    struct job_spec *spec = &job->spec;
    const char *first = NULL;
    for (size_t i = 0; i < sizeof WAYS / sizeof WAYS[0]; i++) {
        if (!field_given(given, WAYS[i]))
            continue;
        if (first)
            return field_fault(in, MEMBERS[WAYS[i]].name, REDRIVE_E_INVALID,
                               "it and '%s' exclude each other", first);
        first = MEMBERS[WAYS[i]].name;
    }
    if (field_given(given, AT))
        spec->process_after_ms = job->at_ms;
    if (field_given(given, DEADLINE) && (spec->deadline_ms <= in->now_ms + spec->delay_ms ||
                                         spec->deadline_ms <= spec->process_after_ms)) {
        int rc = field_fault(in, "deadline", REDRIVE_E_INVALID, "the job could never start");
        err_detail(in->err, "expected a time later than now, and than the job's own");
        return rc;
    }
    return 0;
}

static int read_after(struct field_reader *in, struct given_job *job)
{
    struct redrive_err why = {0};
    const int rc =
        after_read_json(job->after, in->arena, &job->spec.after, &job->spec.n_after, &why);
    return rc < 0 ? field_fault(in, "after", rc, "%s", why.message) : 0;
}

/* The object is read by itself: members of it are named `failed.class` in an error. */
static int read_failed(struct field_reader *in, struct given_job *job)
{
    struct given_failure given = {.class_ = REDRIVE_CLASS_PERMANENT};
    uint64_t rows;
    struct field_reader inner;
    fields_json_open(&inner, job->failed, in->arena, in->now_ms, in->err);
    (void)snprintf(inner.at, sizeof inner.at, "%.50sfailed.", in->at);
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

static int read_one(struct field_reader *in, struct str tenant, struct job_spec *ret)
{
    struct given_job job = {.spec = {.tenant = tenant}};
    uint64_t given;
    int rc = fields_json_object(in, MEMBERS, &job, &given);
    if (rc == 0 && !field_given(given, TASK))
        rc = field_missing(in, "task", "the name of a task");
    if (rc == 0 && field_given(given, UNIQUE_HOW) && !field_given(given, UNIQUE_KEY))
        rc = field_missing(in, "unique_key", "a key, since 'unique' is given");
    if (rc == 0)
        rc = read_times(in, &job, given);
    if (rc == 0 && field_given(given, AFTER))
        rc = read_after(in, &job);
    if (rc == 0 && field_given(given, FAILED))
        rc = read_failed(in, &job);
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

static int read_array(struct field_reader *in, struct str tenant, struct job_body *ret)
{
    int rc = fields_json_enter(in, "");
    while (rc == 0 && (rc = fields_json_next(in, "", ret->n)) > 0) {
        rc = read_one(in, tenant, &ret->specs[ret->n++]);
    }
    return rc;
}

static int check_count(size_t n, struct redrive_err *err)
{
    if (n > 0 && n <= JOB_BODY_MAX)
        return 0;
    (void)err_set(err, REDRIVE_E_RANGE,
                  n == 0 ? "there is no job in the array" : "there are too many jobs in the array");
    err_detail(err, "expected 1 to %d jobs", JOB_BODY_MAX);
    return REDRIVE_E_RANGE;
}

int job_body_check_key(struct str key, struct redrive_err *err)
{
    const bool good = key.len > 0 && utf8_valid(key) && !str_has_control(key);
    if (good && key.len <= JOB_BODY_KEY_MAX)
        return 0;
    int rc = good ? REDRIVE_E_TOO_BIG : REDRIVE_E_INVALID;
    (void)err_set(err, rc, "Idempotency-Key: it is %s", good ? "too long" : "empty or not text");
    err_detail(err, "expected 1 to %d bytes", JOB_BODY_KEY_MAX);
    return rc;
}

static void give_ids(struct job_body *body, struct str key, struct arena *arena)
{
    for (size_t i = 0; i < body->n; i++) {
        struct job_spec *spec = &body->specs[i];
        if (spec->id.len > 0)
            continue;
        spec->id = body->is_array
                       ? str_of(arena_printf(arena, "%.*s/%zu", (int)key.len, key.ptr, i))
                       : arena_str(arena, key);
    }
}

/* One more element than there are jobs that can be read: the next one is where reading fails. */
static int read_jobs(struct field_reader *in, struct str text, struct str tenant,
                     struct job_body *ret)
{
    ret->is_array = fields_json_is_array(in);
    const size_t n = ret->is_array ? fields_json_count(text, JOB_BODY_MAX) : 1;
    if (n > JOB_BODY_MAX)
        return check_count(n, in->err);
    ret->specs = arena_array(in->arena, n + 1, sizeof *ret->specs);
    if (!ret->specs)
        return err_nomem(in->err);
    int rc = ret->is_array ? read_array(in, tenant, ret) : read_one(in, tenant, &ret->specs[0]);
    if (!ret->is_array)
        ret->n = 1;
    if (rc == 0)
        rc = fields_json_end(in);
    return rc == 0 ? check_count(ret->n, in->err) : rc;
}

int job_body_read(struct str text, struct str tenant, struct str key, int64_t now_ms,
                  struct arena *arena, struct job_body *ret, struct redrive_err *err)
{
    struct field_reader in;
    *ret = (struct job_body){0};
    int rc = key.ptr ? job_body_check_key(key, err) : 0;
    if (rc < 0) {
        (void)str_copy(ret->field, sizeof ret->field, STR("Idempotency-Key"));
        return rc;
    }
    fields_json_open(&in, text, arena, now_ms, err);
    rc = read_jobs(&in, text, tenant, ret);
    fields_json_close(&in);
    (void)str_copy(ret->field, sizeof ret->field, str_of(in.place));
    if (rc == 0 && key.ptr)
        give_ids(ret, key, arena);
    return rc == 0 && arena->failed ? err_nomem(err) : rc;
}
