/* request.c - reads the arguments of HELLO, ACK, FAIL, BEAT and MUTATE. */
#include "server/faktory/format/request.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json/json.h"
#include "base/sha256.h"
#include "base/text/encode.h"
#include "core/check.h"
#include "redrive.h"
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
    RELEASED_BY(json_reader_release) struct json_reader r;
    struct json_string key;
    json_reader_init(&r, json, NULL);
    int rc = json_enter_object(&r);
    while (rc == 0 && (rc = json_next_key(&r, &key)) > 0)
        rc = json_peek(&r) == JSON_TYPE_NULL ? json_read_null(&r) : member(&r, key, arena, request);
    if (rc == 0)
        rc = json_end(&r);
    (void)json_error(&r, err);
    return rc;
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

static int hello_member(struct json_reader *r, struct json_string key, struct arena *arena,
                        void *request)
{
    struct faktory_hello *hello = request;
    if (json_string_is(key, "wid"))
        return json_read_text(r, arena, &hello->wid);
    if (json_string_is(key, "pwdhash"))
        return json_read_text(r, arena, &hello->pwdhash);
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
    return json_string_is(key, "jid") ? json_read_text(r, arena, request) : json_skip(r, NULL);
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
        rc = json_read_text(r, arena, &type);
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
        return json_read_text(r, arena, &fail->jid);
    if (json_string_is(key, "errtype"))
        return json_read_text(r, arena, &fail->type);
    if (json_string_is(key, "errtypes"))
        return read_types(r, arena, fail);
    if (json_string_is(key, "message"))
        return json_read_text(r, arena, &fail->message);
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
    RELEASED_BY(buf_release) struct buf backtrace = BUF_MAX(REDRIVE_STACKTRACE_MAX);
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
    return rc;
}

/* ---- BEAT ------------------------------------------------------------------------------------ */

static int beat_member(struct json_reader *r, struct json_string key, struct arena *arena,
                       void *request)
{
    struct faktory_beat *beat = request;
    if (json_string_is(key, "wid"))
        return json_read_text(r, arena, &beat->wid);
    if (json_string_is(key, "current_state"))
        return json_read_text(r, arena, &beat->state);
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
        rc = json_read_text(r, arena, &jids[m->n_jids]);
        m->n_jids += rc == 0;
    }
    return rc;
}

static int read_pattern(struct json_reader *r, struct arena *arena, struct faktory_mutation *m)
{
    struct str text;
    int rc = json_read_text(r, arena, &text);
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
    while (rc == 0 && (rc = json_next_key(r, &key)) > 0) {
        if (json_peek(r) == JSON_TYPE_NULL)
            rc = json_read_null(r);
        else if (json_string_is(key, "jids"))
            rc = read_jids(r, arena, m);
        else if (json_string_is(key, "jobtype"))
            rc = json_read_text(r, arena, &m->jobtype);
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
        return json_read_text(r, arena, &m->command);
    if (json_string_is(key, "target"))
        return json_read_text(r, arena, &m->target);
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

/* ---- Lines and replies ----------------------------------------------------------------------- */

/* Of the text of an error; a longer one is cut. */
#define ERROR_MAX 512

int faktory_line_next(struct str bytes, size_t max, size_t *scanned, struct faktory_line *ret,
                      size_t *ret_used)
{
    const char *from = bytes.ptr + *scanned;
    const char *end = *scanned < bytes.len ? memchr(from, '\n', bytes.len - *scanned) : NULL;
    if (!end) {
        *scanned = bytes.len;
        /* There may be a CR at the end already. */
        return bytes.len > max + 1 ? REDRIVE_E_TOO_BIG : 0;
    }
    struct str line = {bytes.ptr, (size_t)(end - bytes.ptr)};
    *scanned = 0;
    *ret_used = line.len + 1;
    if (line.len > 0 && line.ptr[line.len - 1] == '\r')
        line.len--;
    if (line.len > max)
        return REDRIVE_E_TOO_BIG;
    const char *blank = line.len > 0 ? memchr(line.ptr, ' ', line.len) : NULL;
    ret->verb = (struct str){line.ptr, blank ? (size_t)(blank - line.ptr) : line.len};
    ret->args = blank ? (struct str){blank + 1, line.len - ret->verb.len - 1}
                      : (struct str){line.ptr + line.len, 0};
    return 1;
}

bool faktory_word_next(struct str *rest, struct str *ret)
{
    while (rest->len > 0 && *rest->ptr == ' ') {
        rest->ptr++;
        rest->len--;
    }
    if (rest->len == 0)
        return false;
    const char *blank = memchr(rest->ptr, ' ', rest->len);
    ret->ptr = rest->ptr;
    ret->len = blank ? (size_t)(blank - rest->ptr) : rest->len;
    rest->ptr += ret->len;
    rest->len -= ret->len;
    return true;
}

bool faktory_is_name(struct str word)
{
    return name_check("name", word, NULL) == 0;
}

void faktory_put_ok(struct buf *out)
{
    (void)buf_add_str(out, STR("+OK\r\n"));
}

void faktory_put_error(struct buf *out, const char *format, ...)
{
    char text[ERROR_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    utf8_make_printable(text);
    (void)buf_printf(out, "-ERR %s\r\n", text);
}

void faktory_put_bulk(struct buf *out, struct str bytes)
{
    (void)buf_printf(out, "$%zu\r\n", bytes.len);
    (void)buf_add_str(out, bytes);
    (void)buf_add_str(out, STR("\r\n"));
}

void faktory_put_nil(struct buf *out)
{
    (void)buf_add_str(out, STR("$-1\r\n"));
}

/* ---- Patterns -------------------------------------------------------------------------------- */

static void set(uint64_t *words, unsigned bit)
{
    words[bit / 64] |= UINT64_C(1) << bit % 64;
}

static bool is_set(const uint64_t *words, unsigned bit)
{
    return words[bit / 64] >> bit % 64 & 1;
}

/* A byte of the pattern, which may come after a `\\`; `*at` goes behind it. */
static unsigned char literal(struct str text, size_t *at)
{
    if (text.ptr[*at] == '\\' && *at + 1 < text.len)
        ++*at;
    return (unsigned char)text.ptr[(*at)++];
}

/* `[abc]`, `[a-z]`, `[^a]`; without its end it goes to the end of the pattern. `*at` is behind the
 * first bracket, and goes behind the last. */
static void accept_class(struct faktory_pattern *p, struct str text, size_t *at)
{
    bool has[256] = {false};
    const bool is_negated = *at < text.len && text.ptr[*at] == '^';
    if (is_negated)
        ++*at;
    while (*at < text.len && text.ptr[*at] != ']') {
        unsigned char from = literal(text, at), to = from;
        if (*at + 1 < text.len && text.ptr[*at] == '-' && text.ptr[*at + 1] != ']') {
            ++*at;
            to = literal(text, at);
        }
        for (int byte = from < to ? from : to; byte <= (from < to ? to : from); byte++)
            has[byte] = true;
    }
    if (*at < text.len)
        ++*at;
    for (int byte = 0; byte < 256; byte++)
        if (has[byte] != is_negated)
            set(p->accepts[byte], p->n);
    p->n++;
}

bool faktory_pattern_init(struct faktory_pattern *p, struct str text)
{
    *p = (struct faktory_pattern){0};
    if (text.len > FAKTORY_PATTERN_MAX)
        return false;
    for (size_t i = 0; i < text.len;) {
        if (text.ptr[i] == '*') {
            set(p->stays, p->n);
            i++;
        } else if (text.ptr[i] == '?') {
            for (int byte = 0; byte < 256; byte++)
                set(p->accepts[byte], p->n);
            p->n++;
            i++;
        } else if (text.ptr[i] == '[') {
            i++;
            accept_class(p, text, &i);
        } else {
            set(p->accepts[literal(text, &i)], p->n++);
        }
    }
    p->n_words = p->n / 64 + 1;
    return true;
}

/* Bit i of `at`: the signs before the i-th fit what has been read so far. */
static uint64_t step(const struct faktory_pattern *p, unsigned char byte, uint64_t *at)
{
    uint64_t carry = 0, any = 0;
    for (unsigned i = 0; i < p->n_words; i++) {
        const uint64_t moved = at[i] & p->accepts[byte][i];
        at[i] = moved << 1 | carry | (at[i] & p->stays[i]);
        carry = moved >> 63;
        any |= at[i];
    }
    return any;
}

bool faktory_pattern_fits(const struct faktory_pattern *p, struct str text)
{
    uint64_t at[FAKTORY_PATTERN_WORDS] = {1};
    const bool ends_open = is_set(p->stays, p->n);
    for (size_t i = 0; i < text.len; i++) {
        if (ends_open && is_set(at, p->n))
            return true;
        if (step(p, (unsigned char)text.ptr[i], at) == 0)
            return false;
    }
    return is_set(at, p->n);
}
