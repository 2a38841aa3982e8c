/* request.c - reads the arguments of HELLO, ACK, FAIL, BEAT and MUTATE. */
#include "server/faktory/format/request.h"

#include <ctype.h>
#include <stdio.h>

#include "base/json/json.h"
#include "base/sha256.h"
#include "server/faktory/format/job.h"

#define TYPE_MAX_BYTES 255
#define LINES_MAX      1000
#define JIDS_MAX       10000

/* Reads one member into the request; a reader of one kind of request. */
typedef int (*member_fn)(struct json_reader *r, struct json_string key, struct arena *arena,
                         void *request);

static int read_object(struct str json, struct arena *arena, member_fn member, void *request,
                       struct redrive_err *err)
{
    struct json_reader r;
    struct json_string key;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = json_peek(&r) == JSON_TYPE_NULL ? json_read_null(&r) : member(&r, key, arena, request);
    if (rc == 0)
        rc = json_end(&r);
    (void)json_error(&r, err);
    json_reader_release(&r);
    return rc;
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

static int hello_member(struct json_reader *r, struct json_string key, struct arena *arena,
                        void *request)
{
    struct faktory_hello *hello = request;
    if (json_string_is(key, "wid"))
        return faktory_read_text(r, arena, &hello->wid);
    if (json_string_is(key, "pwdhash"))
        return faktory_read_text(r, arena, &hello->pwdhash);
    if (json_string_is(key, "v"))
        return json_read_int(r, &hello->version);
    return json_skip(r, NULL);
}

int faktory_hello_read(struct str json, struct arena *arena, struct faktory_hello *ret,
                       struct redrive_err *err)
{
    *ret = (struct faktory_hello){0};
    return read_object(json, arena, hello_member, ret, err);
}

void faktory_password_hash(struct str password, struct str salt, int iterations,
                           char out[FAKTORY_HASH_TEXT])
{
    uint8_t hash[SHA256_BYTES];
    struct buf text;
    buf_init(&text, password.len + salt.len + 1);
    (void)buf_add_str(&text, password);
    (void)buf_add_str(&text, salt);
    sha256(buf_cstr(&text), text.len, hash);
    buf_release(&text);
    for (int i = 1; i < iterations; i++)
        sha256(hash, sizeof hash, hash);
    for (size_t i = 0; i < sizeof hash; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", hash[i]);
}

/* ---- ACK and FAIL ---------------------------------------------------------------------------- */

static int ack_member(struct json_reader *r, struct json_string key, struct arena *arena,
                      void *request)
{
    return json_string_is(key, "jid") ? faktory_read_text(r, arena, request) : json_skip(r, NULL);
}

int faktory_ack_read(struct str json, struct arena *arena, struct str *ret_jid,
                     struct redrive_err *err)
{
    *ret_jid = (struct str){0};
    return read_object(json, arena, ack_member, ret_jid, err);
}

/* What is read of a FAIL before it is brought into form. */
struct raw_fail {
    struct str jid;
    struct str type;
    struct str types[REDRIVE_ERROR_TYPES_MAX]; /* of `errtypes`, an addition of ours */
    size_t n_types;
    struct str message;
    struct buf *backtrace;
};

/* Lines beyond the limits are passed over. */
static int read_backtrace(struct json_reader *r, struct buf *out)
{
    struct json_string line;
    int rc = json_enter_array(r);
    for (int n = 0; rc == 0 && (rc = json_next_item(r)) > 0; n++) {
        rc = json_read_string(r, &line);
        if (rc < 0 || n >= LINES_MAX || buf_failed(out) < 0)
            continue;
        size_t start = out->len;
        if (start > 0)
            (void)buf_putc(out, '\n');
        if (json_unescape(line, out) < 0)
            buf_truncate(out, start);
    }
    return rc;
}

/* Those beyond the maximum are the least derived. */
static int read_types(struct json_reader *r, struct arena *arena, struct raw_fail *fail)
{
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        struct str type;
        rc = faktory_read_text(r, arena, &type);
        if (rc == 0 && fail->n_types < REDRIVE_ERROR_TYPES_MAX)
            fail->types[fail->n_types++] = type;
    }
    return rc;
}

static int fail_member(struct json_reader *r, struct json_string key, struct arena *arena,
                       void *request)
{
    struct raw_fail *fail = request;
    if (json_string_is(key, "jid"))
        return faktory_read_text(r, arena, &fail->jid);
    if (json_string_is(key, "errtype"))
        return faktory_read_text(r, arena, &fail->type);
    if (json_string_is(key, "errtypes"))
        return read_types(r, arena, fail);
    if (json_string_is(key, "message"))
        return faktory_read_text(r, arena, &fail->message);
    if (json_string_is(key, "backtrace"))
        return read_backtrace(r, fail->backtrace);
    return json_skip(r, NULL);
}

/* A terminated copy of at most `max` bytes, in which a NUL does not end the text. */
static const char *keep_text(struct arena *arena, struct str text, size_t max)
{
    text = str_trim(text);
    if (text.len == 0)
        return "unknown";
    size_t size = (text.len < max ? text.len : max) + 1;
    char *copy = arena_alloc(arena, size);
    if (!copy)
        return "unknown";
    (void)str_copy(copy, size, text);
    size_t kept = size - 1;
    while (kept > 0 && copy[kept - 1] == '\0')
        kept--;
    for (size_t i = 0; i < kept; i++)
        if (copy[i] == '\0')
            copy[i] = ' ';
    return copy;
}

/* The type that a stack begins with, as in "TypeError: the message", where the client has sent none
 * worth the name: the Node package gives the error's `code`, which most errors do not have. */
static struct str type_of(const struct raw_fail *fail)
{
    struct str type =
        str_trim(fail->type.len > 0 || fail->n_types == 0 ? fail->type : fail->types[0]);
    struct str stack = buf_str(fail->backtrace);
    size_t n = 0;
    if (type.len > 0 && !str_is(type, "undefined"))
        return type;
    while (n < stack.len && (isalnum((unsigned char)stack.ptr[n]) || stack.ptr[n] == '_'))
        n++;
    if (n == 0 || fail->message.len == 0 || stack.len < n + 2 || stack.ptr[n] != ':')
        return type;
    struct str rest = {stack.ptr + n + 2, stack.len - n - 2};
    return str_starts_with(rest, fail->message) ? (struct str){stack.ptr, n} : type;
}

static void keep_types(struct arena *arena, const struct raw_fail *raw, struct faktory_fail *ret)
{
    const char **types = arena_array(arena, raw->n_types, sizeof *types);
    for (size_t i = 0; types && i < raw->n_types; i++)
        types[i] = keep_text(arena, raw->types[i], TYPE_MAX_BYTES);
    ret->error_types = types;
    ret->n_error_types = types ? raw->n_types : 0;
}

int faktory_fail_read(struct str json, struct arena *arena, struct faktory_fail *ret,
                      struct redrive_err *err)
{
    struct buf backtrace;
    buf_init(&backtrace, REDRIVE_STACKTRACE_MAX);
    struct raw_fail raw = {.backtrace = &backtrace};
    int rc = read_object(json, arena, fail_member, &raw, err);
    *ret = (struct faktory_fail){.jid = raw.jid};
    if (rc == 0) {
        ret->error_type = keep_text(arena, type_of(&raw), TYPE_MAX_BYTES);
        keep_types(arena, &raw, ret);
        ret->message = keep_text(arena, raw.message, REDRIVE_MESSAGE_MAX - 1);
        if (backtrace.len > 0)
            ret->backtrace = keep_text(arena, buf_str(&backtrace), REDRIVE_STACKTRACE_MAX - 1);
    }
    buf_release(&backtrace);
    return rc;
}

/* ---- BEAT ------------------------------------------------------------------------------------ */

static int beat_member(struct json_reader *r, struct json_string key, struct arena *arena,
                       void *request)
{
    struct faktory_beat *beat = request;
    if (json_string_is(key, "wid"))
        return faktory_read_text(r, arena, &beat->wid);
    if (json_string_is(key, "current_state"))
        return faktory_read_text(r, arena, &beat->state);
    return json_skip(r, NULL);
}

int faktory_beat_read(struct str json, struct arena *arena, struct faktory_beat *ret,
                      struct redrive_err *err)
{
    *ret = (struct faktory_beat){0};
    return read_object(json, arena, beat_member, ret, err);
}

/* ---- MUTATE ---------------------------------------------------------------------------------- */

static int read_jids(struct json_reader *r, struct arena *arena, struct faktory_mutation *m)
{
    size_t capacity = 0;
    struct str *jids = NULL;
    int rc = json_enter_array(r);
    while (rc == 0 && (rc = json_next_item(r)) > 0) {
        if (m->n_jids == JIDS_MAX)
            return json_fail(r, REDRIVE_E_TOO_BIG, "expected at most %d jids", JIDS_MAX);
        if (m->n_jids == capacity) {
            capacity = capacity ? capacity * 2 : 16;
            struct str *grown = arena_array(arena, capacity, sizeof *grown);
            if (!grown)
                return json_fail(r, REDRIVE_E_NOMEM, "out of memory");
            if (m->n_jids > 0)
                memcpy(grown, jids, m->n_jids * sizeof *grown);
            m->jids = jids = grown;
        }
        rc = faktory_read_text(r, arena, &jids[m->n_jids]);
        m->n_jids += rc == 0;
    }
    return rc;
}

static int read_pattern(struct json_reader *r, struct arena *arena, struct faktory_mutation *m)
{
    struct str text;
    int rc = faktory_read_text(r, arena, &text);
    if (rc < 0 || text.len == 0)
        return rc;
    struct faktory_pattern *pattern = arena_alloc(arena, sizeof *pattern);
    if (!pattern)
        return json_fail(r, REDRIVE_E_NOMEM, "out of memory");
    if (!faktory_pattern_init(pattern, text))
        return json_fail(r, REDRIVE_E_TOO_BIG, "regexp is over %d bytes", FAKTORY_PATTERN_MAX);
    m->pattern = pattern;
    return 0;
}

static int read_filter(struct json_reader *r, struct arena *arena, struct faktory_mutation *m)
{
    struct json_string key;
    int rc = json_enter_object(r);
    m->has_filter = true;
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
        if (json_peek(r) == JSON_TYPE_NULL)
            rc = json_read_null(r);
        else if (json_string_is(key, "jids"))
            rc = read_jids(r, arena, m);
        else if (json_string_is(key, "jobtype"))
            rc = faktory_read_text(r, arena, &m->jobtype);
        else if (json_string_is(key, "regexp"))
            rc = read_pattern(r, arena, m);
        else
            rc = json_skip(r, NULL);
    }
    return rc;
}

static int mutation_member(struct json_reader *r, struct json_string key, struct arena *arena,
                           void *request)
{
    struct faktory_mutation *m = request;
    if (json_string_is(key, "cmd"))
        return faktory_read_text(r, arena, &m->command);
    if (json_string_is(key, "target"))
        return faktory_read_text(r, arena, &m->target);
    if (json_string_is(key, "filter"))
        return read_filter(r, arena, m);
    return json_skip(r, NULL);
}

int faktory_mutation_read(struct str json, struct arena *arena, struct faktory_mutation *ret,
                          struct redrive_err *err)
{
    *ret = (struct faktory_mutation){0};
    return read_object(json, arena, mutation_member, ret, err);
}
