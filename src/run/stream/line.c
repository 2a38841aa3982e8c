/* line.c - writes jobs and reads answers as JSON lines. */
#include "run/stream/private.h"

#include <math.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"
#include "run/stream/stream.h"
#include "store/job_json.h"

/* In valid JSON a bare line end can only be space between tokens. */
static void join_lines(char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] == '\n' || bytes[i] == '\r')
            bytes[i] = ' ';
}

int stream_line_write(const struct run_request *request, struct buf *out, struct redrive_err *err)
{
    struct str payload = request->payload.len > 0 ? request->payload : STR("null");
    int rc = json_check(payload, NULL, err);
    if (rc < 0)
        return rc;
    size_t start = out->len;
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "id", request->job_id);
    json_field_cstr(&w, "task", request->task);
    json_field_int(&w, "attempt", request->attempt);
    json_field_int(&w, "max_attempts", request->max_attempts);
    if (request->traceparent)
        json_field_cstr(&w, "traceparent", request->traceparent);
    json_key(&w, "payload");
    json_put_raw(&w, payload);
    if (request->parents) {
        json_key(&w, "parents");
        job_write_parents(&w, request->parents, request->n_parents, PARENTS_BYTES);
    }
    json_end_object(&w);
    if (buf_failed(out))
        return err_full(err, buf_failed(out), "the job does not fit in a line");
    join_lines(out->data + start, out->len - start);
    rc = buf_putc(out, '\n');
    return rc < 0 ? err_full(err, rc, "the job does not fit in a line") : 0;
}

#define SECONDS_MAX (100.0 * 365 * 24 * 3600)

static int read_seconds(struct json_reader *r, int64_t *ret_ms)
{
    double seconds = 0;
    if (json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r);
    int rc = json_read_double(r, &seconds);
    if (rc == 0 && !(seconds >= 0 && seconds <= SECONDS_MAX))
        return json_fail(r, REDRIVE_E_RANGE, "expected a number of seconds");
    *ret_ms = (int64_t)ceil(seconds * 1000);
    return rc;
}

static int read_snooze(struct json_reader *r, struct stream_answer *answer)
{
    answer->is_snoozed = json_peek(r) != JSON_TYPE_NULL;
    int rc = read_seconds(r, &answer->snooze_ms);
    if (answer->snooze_ms > STREAM_SNOOZE_MAX_MS)
        answer->snooze_ms = STREAM_SNOOZE_MAX_MS;
    return rc;
}

static int read_http_status(struct json_reader *r, int *ret)
{
    int64_t status = 0;
    if (json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r);
    int rc = json_read_int(r, &status);
    if (rc == 0 && !(status >= 100 && status <= 599))
        return json_fail(r, REDRIVE_E_RANGE, "expected a status of HTTP, 100 to 599");
    *ret = (int)status;
    return rc;
}

/* Where a string of an answer begins in `text`; text moves while it grows. */
struct place {
    bool is_set;
    size_t at;
};

static int read_text(struct json_reader *r, struct buf *text, struct place *ret)
{
    struct json_string s;
    if (json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r);
    int rc = json_read_string(r, &s);
    if (rc < 0)
        return rc;
    *ret = (struct place){true, text->len};
    json_unescape(s, text);
    return buf_putc(text, '\0');
}

enum {
    ID,
    STATUS,
    MESSAGE,
    ERROR_TYPE,
    STACKTRACE,
    SQLSTATE,
    N_TEXTS
};

struct places {
    struct place texts[N_TEXTS];
    struct place types[REDRIVE_ERROR_TYPES_MAX];
    size_t n_types;
};

/* Those beyond the maximum are the least derived, and say the least. */
static int read_types(struct json_reader *r, struct buf *text, struct places *places)
{
    if (json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r);
    int rc = json_enter_array(r);
    while (rc >= 0 && (rc = json_next_item(r)) > 0) {
        struct place type = {0};
        rc = read_text(r, text, &type);
        if (type.is_set && places->n_types < REDRIVE_ERROR_TYPES_MAX)
            places->types[places->n_types++] = type;
    }
    return rc;
}

static int read_members(struct json_reader *r, struct stream_answer *answer, struct places *places)
{
    static const char *const names[N_TEXTS] = {"id",         "status",     "message",
                                               "error_type", "stacktrace", "sqlstate"};
    struct json_string key;
    int rc = json_enter_object(r);
    while (rc >= 0 && (rc = json_next_key(r, &key)) > 0) {
        int i = 0;
        while (i < N_TEXTS && !json_string_is(key, names[i]))
            i++;
        if (i < N_TEXTS)
            rc = read_text(r, &answer->text, &places->texts[i]);
        else if (json_string_is(key, "error_types"))
            rc = read_types(r, &answer->text, places);
        else if (json_string_is(key, "retry_after"))
            rc = read_seconds(r, &answer->retry_after_ms);
        else if (json_string_is(key, "snooze"))
            rc = read_snooze(r, answer);
        else if (json_string_is(key, "http_status"))
            rc = read_http_status(r, &answer->http_status);
        else if (json_string_is(key, "result"))
            rc = json_skip(r, &answer->result);
        else
            rc = json_skip(r, NULL);
    }
    return rc < 0 ? rc : json_end(r);
}

/* The text does not move any more. */
static void point_to_texts(struct stream_answer *answer, const struct places *places)
{
    const char **const texts[N_TEXTS] = {&answer->id,         &answer->status,
                                         &answer->message,    &answer->error_type,
                                         &answer->stacktrace, &answer->sqlstate};
    for (int i = 0; i < N_TEXTS; i++)
        *texts[i] = places->texts[i].is_set ? answer->text.data + places->texts[i].at : NULL;
    answer->n_error_types = places->n_types;
    for (size_t i = 0; i < places->n_types; i++)
        answer->error_types[i] = answer->text.data + places->types[i].at;
}

int stream_answer_read(struct stream_answer *answer, struct str line, struct redrive_err *err)
{
    *answer = (struct stream_answer){0};
    buf_init(&answer->text, STREAM_LINE_MAX_BYTES + N_TEXTS);
    struct places places = {0};
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, line, NULL);
    int rc = read_members(&r, answer, &places);
    if (rc < 0 && json_error(&r, err) == 0)
        err_set(err, rc, "out of memory");
    if (rc < 0)
        return rc;
    point_to_texts(answer, &places);
    if (str_is(answer->result, "null"))
        answer->result = (struct str){0};
    if (!answer->id || (!answer->status && !answer->is_snoozed))
        return err_set(err, REDRIVE_E_INVALID, "an answer needs '%s'",
                       answer->id ? "status" : "id");
    return 0;
}

void stream_answer_release(struct stream_answer *answer)
{
    buf_release(&answer->text);
}
