/* job_json.c - a job, its error and its attempts as JSON. */
#include "store/job_json.h"

#include "base/json/json.h"
#include "base/time/clock.h"
#include "core/experiment/arm.h"

void job_write_time(struct json_writer *w, const char *key, int64_t at_ms)
{
    char text[CLOCK_TEXT_MAX];
    json_field_cstr(w, key, at_ms == 0 ? NULL : clock_format(at_ms, text));
}

void job_write_error(struct json_writer *w, const char *key, const struct job_error *error)
{
    json_key(w, key);
    if (error->class_ == REDRIVE_CLASS_SUCCESS) {
        json_put_null(w);
        return;
    }
    json_begin_object(w);
    json_field_cstr(w, "class", redrive_class_name(error->class_));
    json_field_string_or_null(w, "type", error->type);
    json_field_string_or_null(w, "message", error->message);
    json_field_string_or_null(w, "stacktrace", error->stacktrace);
    json_field_int(w, "code", error->code);
    json_end_object(w);
}

void job_write_value(struct json_writer *w, const char *key, struct str value)
{
    json_key(w, key);
    if (value.len == 0)
        json_put_null(w);
    else if (json_check(value, NULL, NULL) == 0)
        json_put_raw(w, value);
    else
        json_put_string(w, value);
}

void job_write_parents(struct json_writer *w, const struct job_parent *parents, size_t n,
                       size_t max_bytes)
{
    json_begin_array(w);
    for (size_t i = 0; i < n; i++) {
        const struct job_parent *parent = &parents[i];
        json_begin_object(w);
        json_field_string(w, "id", parent->id);
        json_field_cstr(w, "state", redrive_state_name(parent->state));
        if (parent->is_omitted || parent->result.len > max_bytes) {
            json_field_bool(w, "result_omitted", true);
        } else {
            job_write_value(w, "result", parent->result);
            max_bytes -= parent->result.len;
        }
        json_end_object(w);
    }
    json_end_array(w);
}

bool job_is_damaged(const struct job *job)
{
    const struct str payload = job->spec.payload;
    if (job->is_damaged || payload.len == 0)
        return job->is_damaged;
    const int rc = json_check(payload, NULL, NULL);
    return rc != 0 && rc != REDRIVE_E_NOMEM; /* what could not be checked is not called damaged */
}

static void write_attempt(struct json_writer *w, const struct job_attempt *a)
{
    json_begin_object(w);
    json_field_int(w, "epoch", a->epoch);
    json_key(w, "number");
    if (a->number == 0)
        json_put_null(w);
    else
        json_put_int(w, a->number);
    job_write_time(w, "started_at", a->started_ms);
    job_write_time(w, "ended_at", a->ended_ms);
    json_field_string_or_null(w, "worker", a->worker);
    json_field_cstr(w, "outcome", redrive_state_name(a->outcome));
    job_write_error(w, "error", &a->error);
    json_field_double(w, "delay", (double)a->delay_ms / 1000);
    json_field_string_or_null(w, "why", a->why);
    job_write_time(w, "process_after", a->next_ms);
    json_end_object(w);
}

static void write_history(struct json_writer *w, const struct attempt_page *history)
{
    json_key(w, "history");
    json_begin_array(w);
    for (size_t i = 0; i < history->n; i++)
        write_attempt(w, &history->attempts[i]);
    json_end_array(w);
}

/* The policy without the arm and the traceparent that are kept with it, which are members of their
 * own. */
static void write_policy(struct json_writer *w, struct str policy)
{
    const struct str trace = trace_kept(policy), arm = arm_kept(policy);
    RELEASED_BY(buf_release) struct buf own = BUF_MAX(policy.len + 1);
    job_write_value(w, "retry", arm_own_policy(policy, &own));
    if (arm.len > 0)
        json_field_string(w, "experiment", arm);
    if (trace.len > 0)
        json_field_string(w, "traceparent", trace);
    if (buf_failed(&own))
        w->out->failed = buf_failed(&own);
}

static void write_spec(struct json_writer *w, const struct job_spec *spec)
{
    json_field_string(w, "id", spec->id);
    json_field_string(w, "task", spec->task);
    json_field_string(w, "queue", spec->queue);
    json_field_string(w, "tenant", spec->tenant);
    job_write_value(w, "payload", spec->payload);
    json_field_int(w, "priority", spec->priority);
    json_field_string_or_null(w, "user", spec->user);
    json_field_string_or_null(w, "project", spec->project);
    json_field_string_or_null(w, "service", spec->service);
    json_field_string_or_null(w, "unique_key", spec->unique_key);
    json_field_cstr(w, "unique",
                    spec->unique_key.len == 0 ? NULL
                    : spec->unique_forever    ? "forever"
                                              : "live");
    write_policy(w, spec->policy);
    job_write_time(w, "deadline", spec->deadline_ms);
}

const char *job_reason_word(const struct job_status *s)
{
    if (s->state == REDRIVE_STATE_PARKED)
        return s->parked_by_limit ? "limit" : "breaker";
    return s->reason == REDRIVE_REASON_NONE ? NULL : redrive_reason_name(s->reason);
}

static void write_status(struct json_writer *w, const struct job *job)
{
    const struct job_status *s = &job->status;
    json_field_cstr(w, "state", redrive_state_name(s->state));
    json_field_cstr(w, "reason", job_reason_word(s));
    json_field_int(w, "attempts", s->attempts);
    json_field_int(w, "max_attempts", job_max_attempts(job));
    json_field_int(w, "deferrals", s->deferrals);
    json_field_int(w, "epoch", s->epoch);
    if (s->parents > 0) {
        json_field_int(w, "parents", s->parents);
        json_field_int(w, "open_parents", s->open_parents);
    }
    if (s->children > 0)
        json_field_int(w, "children", s->children);
    job_write_time(w, "process_after", s->process_after_ms);
    job_write_time(w, "created_at", s->created_ms);
    job_write_time(w, "updated_at", s->updated_ms);
    job_write_time(w, "started_at", s->started_ms);
    job_write_time(w, "finished_at", s->finished_ms);
    json_field_string_or_null(w, "worker", s->worker);
    job_write_error(w, "last_error", &s->error);
    job_write_value(w, "result", s->result);
}

void job_write_members(struct json_writer *w, const struct job *job,
                       const struct attempt_page *history)
{
    write_spec(w, &job->spec);
    write_status(w, job);
    if (job_is_damaged(job))
        json_field_bool(w, "damaged", true);
    if (history)
        write_history(w, history);
}

void job_write_json(struct json_writer *w, const struct job *job,
                    const struct attempt_page *history)
{
    json_begin_object(w);
    job_write_members(w, job, history);
    json_end_object(w);
}
