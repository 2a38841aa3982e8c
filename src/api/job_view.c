/* job_view.c - writes jobs as clients see them. */
#include "api/job_view.h"

#include "core/classify/fingerprint.h"
#include "store/job_json.h"

/* Also how long payload and result are as they were given, which JSON does not tell. */
static void other_names(struct json_writer *w, const struct job *job)
{
    json_field_string(w, "job_id", job->spec.id);
    json_field_string(w, "task_name", job->spec.task);
    json_field_cstr(w, "status", redrive_state_name(job->status.state));
    job_write_time(w, "scheduled_at", job->status.process_after_ms);
    json_field_int(w, "payload_bytes", (int64_t)job->spec.payload.len);
    json_field_int(w, "result_bytes", (int64_t)job->status.result.len);
}

void view_job(struct json_writer *w, const struct job *job, const struct attempt_page *history)
{
    json_begin_object(w);
    job_write_members(w, job, history);
    other_names(w, job);
    json_end_object(w);
}

static void write_group(struct json_writer *w, const struct job *job)
{
    const uint64_t group = job->status.fingerprint;
    char text[FINGERPRINT_TEXT_MAX];
    json_field_cstr(w, "group", group ? fingerprint_text(group, text) : NULL);
}

/* The names that other systems have for what is known of a dead letter. */
static void letter_names(struct json_writer *w, const struct job *job)
{
    const struct job_status *s = &job->status;
    json_field_string(w, "task_id", job->spec.id);
    json_field_string_or_null(w, "error_message", s->error.message);
    json_field_string_or_null(w, "error_type", s->error.type);
    json_field_int(w, "retry_count", job_retry_count(s));
    job_write_time(w, "failed_at", s->finished_ms);
}

void view_whole_job(struct json_writer *w, const struct whole_job *whole)
{
    const struct job *job = whole->job;
    json_begin_object(w);
    job_write_members(w, job, whole->history);
    other_names(w, job);
    if (whole->is_letter)
        letter_names(w, job);
    gate_write_json(w, whole->gate);
    edge_views_write_json(w, whole->edges);
    json_field_bool(w, "queue_paused", whole->is_paused);
    write_group(w, job);
    json_end_object(w);
}

void view_dead_letter(struct json_writer *w, const struct job *job,
                      const struct attempt_page *history)
{
    json_begin_object(w);
    job_write_members(w, job, history);
    other_names(w, job);
    letter_names(w, job);
    write_group(w, job);
    json_end_object(w);
}
