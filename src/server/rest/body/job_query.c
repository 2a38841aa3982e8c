/* job_query.c - parses the parameters of a filter. */
#include "server/rest/body/job_query.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/encode.h"
#include "base/time/duration.h"
#include "core/classify/fingerprint.h"
#include "core/vocabulary.h"
#include "server/rest/body/body.h"
#include "store/page.h"

enum {
    TASK,
    QUEUE,
    USER,
    UNIQUE_KEY,
    CLASS,
    REASON,
    TYPE,
    ERROR_TYPE,
    TEXT,
    GROUP,
    OLDER_THAN,
    NEWER_THAN,
    STATE,
    STATUS,
    LIMIT,
    ORDER,
    CURSOR,
    N_NAMES
};

static const struct {
    const char *name;
    unsigned needs; /* one of these bits, or 0 */
} NAMES[N_NAMES] = {
    [TASK] = {"task", 0},
    [QUEUE] = {"queue", 0},
    [USER] = {"user", 0},
    [UNIQUE_KEY] = {"unique_key", 0},
    [CLASS] = {"class", 0},
    [REASON] = {"reason", 0},
    [TYPE] = {"type", 0},
    [ERROR_TYPE] = {"error_type", 0},
    [TEXT] = {"text", 0},
    [GROUP] = {"group", 0},
    [OLDER_THAN] = {"older_than", 0},
    [NEWER_THAN] = {"newer_than", 0},
    [STATE] = {"state", JOB_QUERY_STATE},
    [STATUS] = {"status", JOB_QUERY_STATE},
    [LIMIT] = {"limit", JOB_QUERY_PAGE | JOB_QUERY_LIMITS},
    [ORDER] = {"order", JOB_QUERY_PAGE},
    [CURSOR] = {"cursor", JOB_QUERY_PAGE},
};

/* What does not narrow the jobs down. */
#define OF_THE_PAGE (UINT64_C(1) << LIMIT | UINT64_C(1) << ORDER | UINT64_C(1) << CURSOR)
/* What may be given more than once. */
#define LISTS \
    (UINT64_C(1) << STATE | UINT64_C(1) << STATUS | UINT64_C(1) << CLASS | UINT64_C(1) << REASON)

static const char *const ORDERS[] = {
    [ORDER_OLDEST] = "oldest", [ORDER_NEWEST] = "newest", [ORDER_FINISHED] = "finished"};

void job_query_init(struct job_query *q, struct str tenant, unsigned allows, enum job_order order,
                    int64_t now_ms, struct arena *arena)
{
    *q = (struct job_query){
        .filter = {.tenant = tenant, .order = order, .limit = JOB_QUERY_LIMIT},
        .allows = allows,
        .now_ms = now_ms,
        .arena = arena,
    };
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int unknown_word(const char *name, struct str word, const char *const *words, size_t n,
                        struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_INVALID, "%s: there is no '%.*s'", name,
                  (int)(word.len < 60 ? word.len : 60), word.ptr);
    body_suggest(err, word, words, n);
    return REDRIVE_E_INVALID;
}

/* The first `skip` words of the vocabulary are not for this. */
static int read_words(const char *name, enum vocabulary which, size_t skip, struct str text,
                      uint32_t *mask, struct redrive_err *err)
{
    struct str unknown;
    size_t n;
    if (vocabulary_mask(which, skip, text, mask, &unknown))
        return 0;
    const char *const *words = vocabulary_words(which, &n);
    return unknown_word(name, unknown, words + skip, n - skip, err);
}

static int read_group(struct str text, uint64_t *ret, struct redrive_err *err)
{
    if (fingerprint_parse(text, ret))
        return 0;
    (void)err_set(err, REDRIVE_E_INVALID, "group: it is not a fingerprint");
    err_detail(err, "expected 16 hexadecimal digits, as /retry/dead-letters/groups lists them");
    return REDRIVE_E_INVALID;
}

/* Before 1970 nothing has ended, and a bound of 0 would be none. */
static int read_age(const struct job_query *q, const char *name, struct str text, int64_t slack_ms,
                    int64_t *ret, struct redrive_err *err)
{
    int64_t age_ms;
    if (duration_parse(text, &age_ms, NULL) < 0) {
        (void)err_set(err, REDRIVE_E_INVALID, "%s: it is not a duration", name);
        err_detail(err, "expected a duration such as 90m, 24h or 30d");
        return REDRIVE_E_INVALID;
    }
    int64_t at_ms = q->now_ms - age_ms + slack_ms;
    *ret = at_ms > 0 ? at_ms : 1;
    return 0;
}

int query_int(const char *name, struct str value, int64_t min, int64_t max, int64_t *ret,
              struct redrive_err *err)
{
    bool negative = value.len > 0 && value.ptr[0] == '-';
    int64_t number = 0;
    size_t i = negative;
    for (; i < value.len && value.ptr[i] >= '0' && value.ptr[i] <= '9' && i < 18; i++)
        number = number * 10 + (value.ptr[i] - '0');
    if (negative)
        number = -number;
    if (i == value.len && i > negative && number >= min && number <= max) {
        *ret = number;
        return 0;
    }
    bool is_number = i == value.len && i > negative;
    (void)err_set(err, is_number ? REDRIVE_E_RANGE : REDRIVE_E_INVALID, "%s: %s", name,
                  is_number ? "it is out of range" : "it is not a whole number");
    err_detail(err, "expected a whole number from %" PRId64 " to %" PRId64, min, max);
    return is_number ? REDRIVE_E_RANGE : REDRIVE_E_INVALID;
}

int query_bool(const char *name, struct str value, bool *ret, struct redrive_err *err)
{
    *ret = str_is(value, "true") || str_is(value, "1") || value.len == 0;
    if (*ret || str_is(value, "false") || str_is(value, "0"))
        return 0;
    (void)err_set(err, REDRIVE_E_INVALID, "%s: it is neither true nor false", name);
    err_detail(err, "expected true or false");
    return REDRIVE_E_INVALID;
}

static int read_order(struct str text, enum job_order *ret, struct redrive_err *err)
{
    const size_t n = sizeof ORDERS / sizeof ORDERS[0];
    for (size_t i = 0; i < n; i++)
        if (str_is(text, ORDERS[i])) {
            *ret = (enum job_order)i;
            return 0;
        }
    return unknown_word("order", text, ORDERS, n, err);
}

static int read_value(struct job_query *q, int which, struct str value, struct redrive_err *err)
{
    struct job_filter *f = &q->filter;
    const char *name = NAMES[which].name;
    int64_t number;
    int rc;
    switch (which) {
    case TASK: f->task = value; return 0;
    case QUEUE: f->queue = value; return 0;
    case USER: f->user = value; return 0;
    case UNIQUE_KEY: f->unique_key = value; return 0;
    case TYPE:
    case ERROR_TYPE: f->error_type = value; return 0;
    case TEXT: f->text = value; return 0;
    case CLASS: return read_words(name, VOCABULARY_CLASS, 1, value, &f->classes, err);
    case REASON: return read_words(name, VOCABULARY_REASON, 1, value, &f->reasons, err);
    case STATE:
    case STATUS: return read_words(name, VOCABULARY_STATE, 0, value, &f->states, err);
    case GROUP: return read_group(value, &f->fingerprint, err);
    /* What ended in this very millisecond is older than 0. */
    case OLDER_THAN: return read_age(q, name, value, 1, &f->finished_before_ms, err);
    case NEWER_THAN: return read_age(q, name, value, 0, &f->finished_after_ms, err);
    case LIMIT:
        rc = query_int(name, value, 1, STORE_PAGE_MAX, &number, err);
        if (rc == 0)
            f->limit = (size_t)number;
        return rc;
    case ORDER: return read_order(value, &f->order, err);
    case CURSOR:
    default: q->cursor = value; return 0;
    }
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static bool is_allowed(const struct job_query *q, int which)
{
    return NAMES[which].needs == 0 || (NAMES[which].needs & q->allows) != 0;
}

static int unknown_name(struct job_query *q, struct str name, struct redrive_err *err)
{
    const char *allowed[N_NAMES];
    size_t n = 0;
    for (int i = 0; i < N_NAMES; i++)
        if (is_allowed(q, i))
            allowed[n++] = NAMES[i].name;
    const char *field =
        arena_printf(q->arena, "%.*s", (int)(name.len < 60 ? name.len : 60), name.ptr);
    q->field = field ? field : "";
    (void)err_set(err, REDRIVE_E_UNKNOWN, "%s: there is no such parameter", q->field);
    body_suggest(err, name, allowed, n);
    return REDRIVE_E_UNKNOWN;
}

int job_query_add(struct job_query *q, struct str name, struct str value, struct redrive_err *err)
{
    int which = 0;
    while (which < N_NAMES && !(is_allowed(q, which) && str_is(name, NAMES[which].name)))
        which++;
    if (which == N_NAMES)
        return unknown_name(q, name, err);
    const uint64_t bit = UINT64_C(1) << which;
    q->field = NAMES[which].name;
    if (value.len == 0)
        return err_set(err, REDRIVE_E_INVALID, "%s: it is empty", q->field);
    if (!utf8_valid(value))
        return err_set(err, REDRIVE_E_INVALID, "%s: it is not UTF-8", q->field);
    if (q->given & bit & ~LISTS)
        return err_set(err, REDRIVE_E_INVALID, "%s: it is given twice", q->field);
    q->given |= bit;
    return read_value(q, which, value, err);
}

static int add_text(struct job_query *q, struct json_reader *r, struct str name,
                    struct redrive_err *err)
{
    struct json_string s;
    if (json_read_string(r, &s) < 0)
        return json_error(r, err);
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(JSON_MAX_BYTES);
    int rc = json_unescape(s, &text);
    struct str value = arena_str(q->arena, buf_str(&text));
    if (rc < 0 || !value.ptr)
        return err_nomem(err);
    return job_query_add(q, name, value, err);
}

/* A list without a word is refused as an empty text is: it must not mean every job. */
static int add_list(struct job_query *q, struct json_reader *r, struct str name,
                    struct redrive_err *err)
{
    bool is_empty = true;
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        is_empty = false;
        rc = add_text(q, r, name, err);
    }
    if (rc < 0)
        (void)json_error(r, err);
    return rc == 0 && is_empty ? job_query_add(q, name, STR(""), err) : rc;
}

static int add_member(struct job_query *q, struct json_reader *r, struct json_string key,
                      struct redrive_err *err)
{
    int rc = 0;
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(BODY_NAME_MAX);
    (void)json_unescape(key, &text);
    struct str name = buf_str(&text);
    const char *field = arena_dup(q->arena, name);
    q->field = field ? field : "";
    if (json_peek(r) == JSON_TYPE_NULL) {
        rc = json_read_null(r);
    } else if (json_peek(r) == JSON_TYPE_ARRAY) {
        rc = add_list(q, r, name, err);
    } else {
        rc = add_text(q, r, name, err);
    }
    return rc;
}

int job_query_add_object(struct job_query *q, struct str json, struct redrive_err *err)
{
    struct json_string key;
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = add_member(q, &r, key, err);
    if (rc < 0)
        (void)json_error(&r, err);
    return rc;
}

int job_query_finish(struct job_query *q, struct redrive_err *err)
{
    const struct job_filter *f = &q->filter;
    if (f->finished_before_ms != 0 && f->finished_after_ms >= f->finished_before_ms) {
        q->field = "newer_than";
        return err_set(err, REDRIVE_E_INVALID, "newer_than: no job is that new and that old");
    }
    if (!q->cursor.ptr)
        return 0;
    q->field = "cursor";
    return job_cursor_read(q->cursor, &q->filter, err);
}

bool job_query_selects(const struct job_query *q)
{
    return (q->given & ~OF_THE_PAGE) != 0;
}
