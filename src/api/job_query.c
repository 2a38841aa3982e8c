/* job_query.c - parses the parameters of a filter. */
#include "api/job_query.h"

#include <stdio.h>

#include "base/err.h"
#include "store/page.h"

#define JOBS      JOB_QUERY_JOBS
#define COUNTS    JOB_QUERY_COUNTS
#define STATE     JOB_QUERY_STATE
#define PAGE      JOB_QUERY_PAGE
#define PURGE     JOB_QUERY_PURGE
#define HOURS_MAX 876000

#define TEXT(number)    #number
#define TEXT_OF(number) TEXT(number)

static const char *const ORDERS[] = {
    [ORDER_OLDEST] = "oldest", [ORDER_NEWEST] = "newest", [ORDER_FINISHED] = "finished", NULL};

#define QUERY(m)  offsetof(struct job_query, m)
#define FILTER(m) offsetof(struct job_query, filter.m)

const struct field JOB_QUERY_FIELDS[] = {
    {"task", &FIELD_WORDING, FILTER(task), .uses = JOBS | COUNTS},
    {"queue", &FIELD_WORDING, FILTER(queue), .uses = JOBS | COUNTS},
    {"user", &FIELD_WORDING, FILTER(user), .uses = JOBS},
    {"unique_key", &FIELD_WORDING, FILTER(unique_key), .uses = JOBS},
    {"class", &FIELD_TERMS, FILTER(classes), .vocabulary = VOCABULARY_CLASS, .skip = 1,
     .uses = JOBS},
    {"reason", &FIELD_TERMS, FILTER(reasons), .vocabulary = VOCABULARY_REASON, .skip = 1,
     .uses = JOBS},
    {"type", &FIELD_WORDING, FILTER(error_type), .uses = JOBS},
    {"error_type", &FIELD_WORDING, FILTER(error_type), .uses = JOBS},
    {"text", &FIELD_WORDING, FILTER(text), .uses = JOBS},
    {"group", &FIELD_FINGERPRINT, FILTER(fingerprint), .uses = JOBS},
    {"older_than", &FIELD_AGE, FILTER(finished_before_ms), .uses = JOBS},
    {"newer_than", &FIELD_AGE, FILTER(finished_after_ms), .uses = JOBS},
    {"state", &FIELD_TERMS, FILTER(states), .vocabulary = VOCABULARY_STATE, .uses = STATE | COUNTS},
    {"status", &FIELD_TERMS, FILTER(states), .vocabulary = VOCABULARY_STATE, .uses = STATE},
    {"older_than_hours", &FIELD_INT, QUERY(hours), .min = 0, .max = HOURS_MAX, .uses = PURGE},
    {"dry_run", &FIELD_BOOL, QUERY(dry_run), .uses = PURGE},
    {"limit", &FIELD_COUNT, FILTER(limit), .min = 1, .max = STORE_PAGE_MAX,
     .default_text = TEXT_OF(JOB_QUERY_LIMIT), .uses = PAGE | JOB_QUERY_LIMITS},
    {"order", &FIELD_WORD, FILTER(order), .words = ORDERS, .uses = PAGE},
    {"cursor", &FIELD_WORDING, QUERY(cursor), .uses = PAGE},
    {0},
};

void job_query_init(struct job_query *q, struct str tenant, unsigned uses, enum job_order order,
                    int64_t now_ms, struct arena *arena, struct redrive_err *err)
{
    fields_query_open(&q->reader, uses, arena, now_ms, err);
    q->filter = (struct job_filter){.tenant = tenant, .order = order, .limit = JOB_QUERY_LIMIT};
    q->cursor = (struct str){0};
    q->hours = -1;
    q->dry_run = false;
    q->given = 0;
    q->rc = 0;
}

bool job_query_add(struct str name, struct str value, void *query)
{
    struct job_query *q = query;
    q->rc = fields_query_add(&q->reader, JOB_QUERY_FIELDS, name, value, q, &q->given);
    return q->rc == 0;
}

/* ---- The members of an object ---------------------------------------------------------------- */

static int not_a_text(struct job_query *q, struct str name, enum json_type type)
{
    char field[FIELD_PLACE_MAX];
    (void)str_copy(field, sizeof field, name);
    int rc = field_fault(&q->reader, field, REDRIVE_E_INVALID, "it is %s %s",
                         type == JSON_TYPE_OBJECT ? "an" : "a", json_type_name(type));
    err_detail(q->reader.err, "expected a text, or an array of texts");
    return rc;
}

static int add_text(struct job_query *q, struct json_reader *r, struct str name)
{
    struct str value;
    const int type = json_peek(r);
    if (type >= 0 && type != JSON_TYPE_STRING)
        return not_a_text(q, name, (enum json_type)type);
    const int rc = json_read_text(r, q->reader.arena, &value);
    if (rc < 0)
        return rc == REDRIVE_E_NOMEM ? err_nomem(q->reader.err) : rc;
    (void)job_query_add(name, value, q);
    return q->rc;
}

/* A list without a word is refused as an empty text is: it must not mean every job. */
static int add_list(struct job_query *q, struct json_reader *r, struct str name)
{
    bool is_empty = true;
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        is_empty = false;
        rc = add_text(q, r, name);
    }
    if (rc == 0 && is_empty)
        (void)job_query_add(name, STR(""), q);
    return rc < 0 ? rc : q->rc;
}

static int add_member(struct job_query *q, struct json_reader *r, struct json_string key)
{
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(FIELD_NAME_MAX);
    (void)json_unescape(key, &text);
    const struct str name = buf_str(&text);
    (void)snprintf(q->reader.place, sizeof q->reader.place, "%s%.*s", q->reader.at, (int)name.len,
                   name.ptr);
    if (json_peek(r) == JSON_TYPE_NULL)
        return json_read_null(r);
    return json_peek(r) == JSON_TYPE_ARRAY ? add_list(q, r, name) : add_text(q, r, name);
}

int job_query_add_object(struct job_query *q, struct str json)
{
    struct json_string key;
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = add_member(q, &r, key);
    if (rc < 0)
        (void)json_error(&r, q->reader.err);
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* What ended in this very millisecond is older than 0. */
static void set_bounds(struct job_query *q)
{
    int64_t *before_ms = &q->filter.finished_before_ms;
    const int64_t hour_ms = INT64_C(3600) * 1000;
    if (q->hours >= 0)
        *before_ms = q->reader.now_ms - q->hours * hour_ms;
    if (q->hours >= 0 || *before_ms != 0)
        *before_ms = *before_ms > 1 ? *before_ms + 1 : 1;
}

int job_query_finish(struct job_query *q)
{
    const struct job_filter *f = &q->filter;
    if (q->rc < 0)
        return q->rc;
    set_bounds(q);
    if (f->finished_before_ms != 0 && f->finished_after_ms >= f->finished_before_ms)
        return field_fault(&q->reader, "newer_than", REDRIVE_E_INVALID,
                           "no job is that new and that old");
    if (!q->cursor.ptr)
        return 0;
    (void)str_copy(q->reader.place, sizeof q->reader.place, STR("cursor"));
    return job_cursor_read(q->cursor, &q->filter, q->reader.err);
}

bool job_query_selects(const struct job_query *q)
{
    uint64_t rows = 0;
    for (size_t i = 0; JOB_QUERY_FIELDS[i].name; i++)
        if (JOB_QUERY_FIELDS[i].uses & (JOBS | STATE))
            rows |= UINT64_C(1) << i;
    return (q->given & rows) != 0;
}
