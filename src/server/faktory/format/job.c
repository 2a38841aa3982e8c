/* job.c - reads jobs from clients, and writes them for workers. */
#include "server/faktory/format/job.h"

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "core/check.h"
#include "core/time/civil.h"

#define JID_MIN_BYTES 8
#define PRIORITY_STEP 25

/* ---- Reading --------------------------------------------------------------------------------- */

/* What is read beside the job's own fields. */
struct extras {
    struct str at;
    int64_t reserve_for;
    bool has_args;
};

static int skip_args(struct json_reader *r, struct extras *extras)
{
    int type = json_peek(r);
    if (type < 0)
        return type;
    if (type != JSON_TYPE_ARRAY)
        return json_fail(r, REDRIVE_E_INVALID, "expected an array of args, found %s",
                         json_type_name((enum json_type)type));
    extras->has_args = true;
    return json_skip(r, NULL);
}

/* Of `custom` only the traceparent matters here; what else it is does not. */
static int read_custom(struct json_reader *r, struct arena *arena, struct str *ret)
{
    struct json_string key;
    if (json_peek(r) != JSON_TYPE_OBJECT)
        return json_skip(r, NULL);
    int rc = json_enter_object(r);
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0)
        rc = json_string_is(key, "traceparent") && json_peek(r) == JSON_TYPE_STRING
                 ? json_read_text(r, arena, ret)
                 : json_skip(r, NULL);
    return rc;
}

static int read_member(struct json_reader *r, struct json_string key, struct arena *arena,
                       struct faktory_job *job, struct extras *extras)
{
    if (json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r);
    if (json_string_is(key, "jid"))
        return json_read_text(r, arena, &job->jid);
    if (json_string_is(key, "jobtype"))
        return json_read_text(r, arena, &job->type);
    if (json_string_is(key, "queue"))
        return json_read_text(r, arena, &job->queue);
    if (json_string_is(key, "at"))
        return json_read_text(r, arena, &extras->at);
    if (json_string_is(key, "args"))
        return skip_args(r, extras);
    if (json_string_is(key, "retry"))
        return json_read_int(r, &job->retry);
    if (json_string_is(key, "priority"))
        return json_read_int(r, &job->priority);
    if (json_string_is(key, "reserve_for"))
        return json_read_int(r, &extras->reserve_for);
    if (json_string_is(key, "custom"))
        return read_custom(r, arena, &job->traceparent);
    return json_skip(r, NULL);
}

static int read_members(struct str json, struct arena *arena, struct faktory_job *job,
                        struct extras *extras, struct redrive_err *err)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    struct json_string key;
    struct redrive_err why = {0};
    json_reader_init(&r, json, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = read_member(&r, key, arena, job, extras);
    if (rc == 0)
        rc = json_end(&r);
    (void)json_error(&r, &why);
    return rc < 0 ? err_set(err, rc, "invalid JSON: %s", why.message) : 0;
}

/* Whether the job can be looked at any further: its names are safe to look up. */
static int check(const struct faktory_job *job, const struct extras *extras,
                 struct redrive_err *err)
{
    if (job->jid.len < JID_MIN_BYTES)
        return err_set(err, REDRIVE_E_INVALID, "jobs must have a reasonable jid parameter");
    if (job->type.len == 0)
        return err_set(err, REDRIVE_E_INVALID, "jobs must have a jobtype parameter");
    if (!extras->has_args)
        return err_set(err, REDRIVE_E_INVALID, "jobs must have an args parameter");
    if (extras->reserve_for > FAKTORY_RESERVE_MAX_MS / 1000)
        return err_set(err, REDRIVE_E_RANGE, "jobs cannot be reserved for more than one day");
    int rc = name_check("jid", job->jid, err);
    if (rc == 0)
        rc = name_check("jobtype", job->type, err);
    return rc < 0 || job->queue.len == 0 ? rc : name_check_queue(job->queue, err);
}

int faktory_job_read(struct str json, struct arena *arena, struct faktory_job *ret,
                     struct redrive_err *err)
{
    struct extras extras = {0};
    *ret = (struct faktory_job){
        .text = str_trim(json),
        .retry = FAKTORY_RETRY_DEFAULT,
        .priority = FAKTORY_PRIORITY_DEFAULT,
    };
    int rc = read_members(ret->text, arena, ret, &extras, err);
    if (rc == 0)
        rc = check(ret, &extras, err);
    if (rc < 0)
        return rc;
    if (ret->queue.len == 0)
        ret->queue = STR("default");
    if (extras.at.len > 0 && !moment_parse(extras.at, &ret->at_ms))
        return err_set(err, REDRIVE_E_INVALID,
                       "invalid timestamp for 'at': \"%.*s\": not an RFC 3339 time",
                       extras.at.len < 64 ? (int)extras.at.len : 64, extras.at.ptr);
    return 0;
}

/* ---- Submitting ------------------------------------------------------------------------------ */

int32_t faktory_priority_in(int64_t priority)
{
    if (priority < 1 || priority > 9)
        return 0;
    return (int32_t)(priority - FAKTORY_PRIORITY_DEFAULT) * PRIORITY_STEP;
}

int64_t faktory_priority_out(int32_t priority)
{
    int32_t half = priority < 0 ? -PRIORITY_STEP / 2 : PRIORITY_STEP / 2;
    int64_t step = (priority + half) / PRIORITY_STEP;
    return FAKTORY_PRIORITY_DEFAULT + (step < -4 ? -4 : step > 4 ? 4 : step);
}

static int retries_of(const struct faktory_job *job)
{
    return job->retry > REDRIVE_MAX_RETRIES ? REDRIVE_MAX_RETRIES : (int)job->retry;
}

/* On top of the task's own. Most clients send the default of the protocol without having been
 * asked, so that it says nothing. */
static struct str policy_on_top(const struct faktory_job *job, enum faktory_policy from,
                                struct arena *arena)
{
    if (job->retry == 0)
        return STR("{\"max_retries\":0,\"enable_dlq\":false}");
    if (job->retry < 0)
        return STR("{\"max_retries\":0}");
    if (from == FAKTORY_POLICY_TASK || job->retry == FAKTORY_RETRY_DEFAULT)
        return (struct str){0};
    return str_of(arena_printf(arena, "{\"max_retries\":%d}", retries_of(job)));
}

/* The job's own policy, or none. All that depends on the task's definition stays open. */
static struct str policy_of(const struct faktory_job *job, enum faktory_policy from,
                            struct arena *arena)
{
#define FAKTORY_POLICY(retries, more)                                                         \
    "{\"profile\":\"faktory\",\"max_retries\":" retries ",\"dlq_retention_days\":180,\"retry" \
    "_on\":[\"*\",\"system\"]" more "}"
    if (from != FAKTORY_POLICY_CLIENT)
        return policy_on_top(job, from, arena);
    if (job->retry == 0)
        return STR(FAKTORY_POLICY("0", ",\"enable_dlq\":false"));
    if (job->retry < 0)
        return STR(FAKTORY_POLICY("0", ""));
    if (job->retry == FAKTORY_RETRY_DEFAULT)
        return STR(FAKTORY_POLICY("25", ""));
    return str_of(arena_printf(arena, FAKTORY_POLICY("%d", ""), retries_of(job)));
#undef FAKTORY_POLICY
}

void faktory_job_spec(const struct faktory_job *job, struct str tenant, enum faktory_policy from,
                      struct arena *arena, struct job_spec *ret)
{
    *ret = (struct job_spec){
        .tenant = tenant,
        .id = job->jid,
        .task = job->type,
        .queue = job->queue,
        .payload = job->text,
        .policy = trace_keep(job->traceparent, policy_of(job, from, arena), arena),
        .priority = faktory_priority_in(job->priority),
        .process_after_ms = job->at_ms,
    };
}

/* ---- Handing out ----------------------------------------------------------------------------- */

int64_t faktory_job_lease_ms(const struct job *job)
{
    const struct str payload = job->spec.payload;
    struct json_reader r;
    struct json_string key;
    int64_t seconds = 0;
    int rc;
    /* Most jobs do not say, and need not be read. */
    if (!str_contains(payload, STR("\"reserve_for\"")))
        return FAKTORY_RESERVE_MS;
    json_reader_init(&r, payload, NULL);
    rc = json_enter_object(&r);
    while (rc == 0 && json_next_key(&r, &key) > 0)
        rc = json_string_is(key, "reserve_for") && json_peek(&r) == JSON_TYPE_NUMBER
                 ? json_read_int(&r, &seconds)
                 : json_skip(&r, NULL);
    json_reader_release(&r);
    if (seconds <= 0 || rc < 0)
        return FAKTORY_RESERVE_MS;
    if (seconds > FAKTORY_RESERVE_MAX_MS / 1000)
        return FAKTORY_RESERVE_MAX_MS;
    return seconds * 1000 < FAKTORY_RESERVE_MIN_MS ? FAKTORY_RESERVE_MIN_MS : seconds * 1000;
}

static void write_time(struct json_writer *w, const char *key, int64_t at_ms)
{
    char text[CLOCK_TEXT_MAX];
    json_field_cstr(w, key, clock_format(at_ms, text));
}

static void write_lines(struct json_writer *w, const char *key, struct str text)
{
    json_open_array(w, key);
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct str line = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
        json_put_string(w, line);
        size_t used = line.len + (end ? 1 : 0);
        text.ptr += used;
        text.len -= used;
    }
    json_end_array(w);
}

/* Whether it waits for its next run, or for nothing any more; otherwise it is being run. */
static bool is_at_rest(const struct job *job)
{
    return job->status.state == REDRIVE_STATE_RETRYING ||
           job->status.state == REDRIVE_STATE_DEAD_LETTER;
}

/* A job that was redriven has failed before, whatever its attempts since. */
static bool has_failed(const struct job *job)
{
    const struct job_status *s = &job->status;
    return (s->attempts > (is_at_rest(job) ? 0 : 1) || s->epoch > 0) &&
           s->error.class_ != REDRIVE_CLASS_SUCCESS;
}

/* The count of retries starts with 0, and this run is the latest of them. The first run after a
 * redrive is none: the job has all of its retries again. */
static void write_failure(struct json_writer *w, const struct job *job)
{
    const struct job_status *s = &job->status;
    const int64_t before = (int64_t)s->attempts - (is_at_rest(job) ? 1 : 2);
    const int64_t retry_count = before > 0 ? before : 0;
    int64_t remaining = (int64_t)job_max_attempts(job) - 1 - retry_count;
    json_open_object(w, "failure");
    json_field_int(w, "retry_count", retry_count);
    json_field_int(w, "remaining", remaining > 0 ? remaining : 0);
    write_time(w, "failed_at", s->first_started_ms);
    write_time(w, "next_at", s->process_after_ms);
    json_field_string(w, "errtype", s->error.type);
    json_field_string(w, "message", s->error.message);
    if (s->error.stacktrace.len > 0)
        write_lines(w, "backtrace", s->error.stacktrace);
    json_end_object(w);
}

static int64_t enqueued_ms(const struct job *job)
{
    const struct job_status *s = &job->status;
    return s->process_after_ms > s->created_ms ? s->process_after_ms : s->created_ms;
}

/* Which members the producer has given. */
struct given {
    bool jid;
    bool type;
    bool args;
    bool queue;
    bool retry;
    bool created_at;
};

/* Copies a member, unless it is null or the server's own. */
static int copy_member(struct json_reader *r, struct json_string key, const struct job *job,
                       struct given *given, struct json_writer *w)
{
    struct str value;
    int type = json_peek(r);
    int rc = json_skip(r, &value);
    if (rc < 0)
        return rc;
    if (type == JSON_TYPE_STRING && json_string_is(key, "jid") && value.len >= 2) {
        struct json_string jid = {{value.ptr + 1, value.len - 2}, false};
        jid.escaped = jid.raw.len > 0 && memchr(jid.raw.ptr, '\\', jid.raw.len);
        struct buf text;
        buf_init(&text, value.len);
        given->jid = json_unescape(jid, &text) == 0 && str_eq(buf_str(&text), job->spec.id);
        buf_release(&text);
    }
    given->type |= type == JSON_TYPE_STRING && json_string_is(key, "jobtype");
    given->args |= type == JSON_TYPE_ARRAY && json_string_is(key, "args");
    if (type == JSON_TYPE_NULL || json_string_is(key, "enqueued_at") ||
        (json_string_is(key, "failure") && has_failed(job)))
        return 0;
    given->queue |= json_string_is(key, "queue");
    given->retry |= json_string_is(key, "retry");
    given->created_at |= json_string_is(key, "created_at");
    if (key.escaped) {
        struct buf text;
        buf_init(&text, key.raw.len + 1);
        (void)json_unescape(key, &text);
        json_key_str(w, buf_str(&text));
        buf_release(&text);
    } else {
        json_key_str(w, key.raw);
    }
    json_put_raw(w, value);
    return 0;
}

static void write_common(struct json_writer *w, const struct job *job, const struct given *given)
{
    if (!given->queue)
        json_field_string(w, "queue", job->spec.queue);
    if (!given->retry)
        json_field_int(w, "retry", (int64_t)job_max_attempts(job) - 1);
    if (!given->created_at)
        write_time(w, "created_at", job->status.created_ms);
    write_time(w, "enqueued_at", enqueued_ms(job));
    if (has_failed(job))
        write_failure(w, job);
    json_end_object(w);
}

/* The producer's own object with what has happened since; false when the payload is none. */
static bool write_own(const struct job *job, struct buf *out)
{
    struct json_reader r;
    struct json_writer w;
    struct json_string key;
    struct given given = {0};
    json_reader_init(&r, job->spec.payload, NULL);
    json_writer_init(&w, out);
    int rc = json_peek(&r) == JSON_TYPE_OBJECT ? json_enter_object(&r) : REDRIVE_E_INVALID;
    json_begin_object(&w);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = copy_member(&r, key, job, &given, &w);
    json_reader_release(&r);
    if (rc < 0 || !given.jid || !given.type || !given.args)
        return false;
    write_common(&w, job, &given);
    return true;
}

static void write_args(struct json_writer *w, struct str payload)
{
    payload = str_trim(payload);
    json_key(w, "args");
    if (payload.len > 0 && *payload.ptr == '[') {
        json_put_raw(w, payload);
        return;
    }
    json_begin_array(w);
    if (payload.len > 0 && !str_is(payload, "null"))
        json_put_raw(w, payload);
    json_end_array(w);
}

static void write_foreign(const struct job *job, struct buf *out)
{
    static const struct given NONE = {0};
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_string(&w, "jid", job->spec.id);
    json_field_string(&w, "jobtype", job->spec.task);
    write_args(&w, job->spec.payload);
    json_field_int(&w, "priority", faktory_priority_out(job->spec.priority));
    json_field_int(&w, "reserve_for", FAKTORY_RESERVE_MS / 1000);
    if (trace_kept(job->spec.policy).len > 0) {
        json_open_object(&w, "custom");
        json_field_string(&w, "traceparent", trace_kept(job->spec.policy));
        json_end_object(&w);
    }
    write_common(&w, job, &NONE);
}

int faktory_job_write(const struct job *job, struct buf *out)
{
    size_t start = out->len;
    if (!write_own(job, out) && buf_failed(out) == 0) {
        buf_truncate(out, start);
        write_foreign(job, out);
    }
    return buf_failed(out);
}
