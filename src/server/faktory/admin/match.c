/* match.c - the text of a job over which MUTATE's pattern goes.
 *
 * Faktory's patterns see the job as that server keeps it: one line without blanks, escapes only
 * where JSON needs them, the members in a fixed order, with the failure. A producer's own spelling
 * does not matter.
 */
#include "server/faktory/admin/match.h"

#include "base/json/json.h"
#include "base/json/writer.h"
#include "server/faktory/format/job.h"

#define TEXT_MAX_BYTES ((size_t)8 * 1024 * 1024)
#define MEMBERS_MAX    64

static const char *const ORDER[] = {"retry", "failure", "custom",      "jid",
                                    "queue", "jobtype", "created_at",  "enqueued_at",
                                    "at",    "args",    "reserve_for", "backtrace"};
#define N_ORDER (sizeof ORDER / sizeof ORDER[0])

struct member {
    struct json_string key;
    struct str value;
};

static struct json_string unquoted(struct str value)
{
    struct str raw = {value.ptr + 1, value.len - 2};
    return (struct json_string){raw, raw.len > 0 && memchr(raw.ptr, '\\', raw.len)};
}

static void put_string(struct json_writer *w, struct json_string s, bool is_key)
{
    struct buf text;
    buf_init(&text, s.raw.len + 1);
    (void)json_unescape(s, &text);
    if (is_key)
        json_key_str(w, buf_str(&text));
    else
        json_put_string(w, buf_str(&text));
    buf_release(&text);
}

/* Depth and form have been checked when the job came in. */
static int put_value(struct json_reader *r, struct json_writer *w)
{
    struct json_string key;
    struct str value;
    const int type = json_peek(r);
    int rc = 0;
    if (type == JSON_TYPE_OBJECT) {
        json_begin_object(w);
        rc = json_enter_object(r);
        while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
            put_string(w, key, true);
            rc = put_value(r, w);
        }
        json_end_object(w);
    } else if (type == JSON_TYPE_ARRAY) {
        json_begin_array(w);
        rc = json_enter_array(r);
        while (rc == 0 && (rc = json_next_item(r)) > 0)
            rc = put_value(r, w);
        json_end_array(w);
    } else {
        rc = json_skip(r, &value);
        if (rc == 0 && type == JSON_TYPE_STRING)
            put_string(w, unquoted(value), false);
        else if (rc == 0)
            json_put_raw(w, value);
    }
    return rc;
}

static void put_member(struct json_writer *w, struct member *m)
{
    struct json_reader r;
    put_string(w, m->key, true);
    json_reader_init(&r, m->value, NULL);
    (void)put_value(&r, w);
    json_reader_release(&r);
    m->value.ptr = NULL; /* it is written */
}

void faktory_normalise(struct str job, struct buf *out)
{
    struct member members[MEMBERS_MAX];
    struct json_reader r;
    struct json_writer w;
    size_t n = 0;
    json_reader_init(&r, job, NULL);
    /* What cannot be read is left out, with all that follows. */
    (void)json_enter_object(&r);
    while (n < MEMBERS_MAX && json_next_key(&r, &members[n].key) > 0 &&
           json_skip(&r, &members[n].value) == 0)
        n++;
    json_reader_release(&r);
    json_writer_init(&w, out);
    json_begin_object(&w);
    for (size_t i = 0; i < N_ORDER; i++)
        for (size_t m = 0; m < n; m++)
            if (members[m].value.ptr && json_string_is(members[m].key, ORDER[i]))
                put_member(&w, &members[m]);
    for (size_t m = 0; m < n; m++)
        if (members[m].value.ptr)
            put_member(&w, &members[m]);
    json_end_object(&w);
}

bool faktory_job_fits(const struct faktory_pattern *pattern, const struct job *job)
{
    struct buf text, normal;
    buf_init(&text, TEXT_MAX_BYTES);
    buf_init(&normal, TEXT_MAX_BYTES);
    bool fits = false;
    if (faktory_job_write(job, &text) == 0) {
        faktory_normalise(buf_str(&text), &normal);
        fits = buf_failed(&normal) == 0 && faktory_pattern_fits(pattern, buf_str(&normal));
    }
    buf_release(&text);
    buf_release(&normal);
    return fits;
}
