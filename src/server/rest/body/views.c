/* views.c - writes the JSON of answers. */
#include "server/rest/body/views.h"

#include "server/rest/body/work.h"
#include "store/job_json.h"

void view_claimed(struct json_writer *w, const struct job *job, const struct trace_sampler *sampler,
                  size_t parents_bytes)
{
    const struct job_spec *spec = &job->spec;
    const struct trace_job trace = job_trace(job);
    char token[LEASE_TOKEN_MAX], traceparent[TRACEPARENT_LEN + 1];
    json_begin_object(w);
    json_field_string(w, "id", spec->id);
    json_field_string(w, "task", spec->task);
    json_field_string(w, "queue", spec->queue);
    job_write_value(w, "payload", spec->payload);
    json_field_int(w, "attempt", job->status.attempts);
    json_field_int(w, "max_attempts", job_max_attempts(job));
    json_field_int(w, "epoch", job->status.epoch);
    json_field_cstr(w, "token", lease_token_write(job->status.token, token));
    job_write_time(w, "lease_until", job->status.lease_until_ms);
    json_field_int(w, "priority", spec->priority);
    json_field_string_or_null(w, "user", spec->user);
    json_field_string_or_null(w, "project", spec->project);
    json_field_string_or_null(w, "service", spec->service);
    job_write_time(w, "created_at", job->status.created_ms);
    job_write_time(w, "deadline", spec->deadline_ms);
    if (trace_for_handler(sampler, &trace, traceparent))
        json_field_cstr(w, "traceparent", traceparent);
    if (job->parents) {
        json_key(w, "parents");
        job_write_parents(w, job->parents, job->n_parents, parents_bytes);
    }
    json_end_object(w);
}

static const char *refusal(const struct move_result *result)
{
    if (result->code == REDRIVE_E_NOT_FOUND)
        return "there is no such job";
    if (result->code != REDRIVE_E_STATE)
        return redrive_err_text(result->code);
    return result->state == REDRIVE_STATE_RUNNING ? "the token is not the lease's"
                                                  : "the job is no longer running";
}

void view_item(struct json_writer *w, struct str id, const struct move_result *result,
               const struct decision *decision, int64_t again_ms)
{
    const bool is_done = result->code == 0;
    json_begin_object(w);
    json_field_string(w, "id", id);
    json_field_int(w, "status", is_done ? 200 : redrive_err_http_status(result->code));
    json_field_cstr(w, "state",
                    result->code == REDRIVE_E_NOT_FOUND ? NULL : redrive_state_name(result->state));
    if (!is_done)
        json_field_cstr(w, "error", refusal(result));
    if (is_done && decision && decision->class_ != REDRIVE_CLASS_SUCCESS)
        json_field_cstr(w, "class", redrive_class_name(decision->class_));
    if (is_done && decision && decision->delay_ms > 0) {
        json_field_double(w, "delay", (double)decision->delay_ms / 1000);
        job_write_time(w, "process_after", again_ms);
    }
    json_end_object(w);
}

void view_bad_item(struct json_writer *w, struct str id, const struct redrive_err *err,
                   const char *field)
{
    json_begin_object(w);
    if (id.len > 0)
        json_field_string(w, "id", id);
    else
        json_field_cstr(w, "id", NULL);
    json_field_int(w, "status", redrive_err_http_status(err->code));
    json_field_cstr(w, "state", NULL);
    json_field_cstr(w, "error", err->message);
    json_field_cstr(w, "field", field);
    if (err->detail[0])
        json_field_cstr(w, "detail", err->detail);
    if (err->hint[0])
        json_field_cstr(w, "hint", err->hint);
    json_end_object(w);
}
