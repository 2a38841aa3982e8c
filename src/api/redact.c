/* redact.c - finds the values that rules name, and replaces them. */
#include "api/redact.h"

#include <string.h>

#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/text/buf.h"

static const struct str HIDDEN = {REDACTED, sizeof REDACTED - 1};

#define JSON_MAX (64u * 1024 * 1024)

/* The text of a buffer, in the arena; without memory all of it is hidden. */
static struct str finish(struct redactor *r, struct buf *out)
{
    struct str kept = HIDDEN;
    if (!buf_failed(out))
        kept = arena_str(r->arena, buf_str(out));
    buf_release(out);
    return kept.ptr ? kept : HIDDEN;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* The keys that lead to a value, the outermost first. */
struct path {
    struct str keys[JSON_MAX_DEPTH];
    size_t n;
};

/* Takes the last name off a rule. */
static struct str last_name(struct str *rule)
{
    size_t at = rule->len;
    while (at > 0 && rule->ptr[at - 1] != '.')
        at--;
    const struct str name = {rule->ptr + at, rule->len - at};
    rule->len = at > 0 ? at - 1 : 0;
    return name;
}

/* About another job: nothing has been hidden of it so far. */
static void forget(struct redactor *r)
{
    r->n_secrets = 0;
    r->work = 0;
    r->learns = false;
    r->is_cut = false;
    memset(r->begins, 0, sizeof r->begins);
    for (size_t i = 0; r->rules && i < r->rules->n; i++) {
        struct str rule = str_of(r->rules->items[i]);
        const struct str name = last_name(&rule);
        if (name.len == 0)
            continue;
        const unsigned char first = (unsigned char)name.ptr[0];
        r->begins[first] = true;
        if ((first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z'))
            r->begins[first ^ 0x20] = true;
    }
}

void redactor_init(struct redactor *r, const struct config_strings *rules, struct arena *arena)
{
    r->rules = rules && rules->n > 0 ? rules : NULL;
    r->arena = arena;
    forget(r);
}

static bool rule_matches(struct str rule, const struct path *path)
{
    for (size_t i = path->n; rule.len > 0; i--) {
        const struct str name = last_name(&rule);
        if (i == 0 || (!str_is(name, "*") && !str_eq_nocase(name, path->keys[i - 1])))
            return false;
    }
    return true;
}

static bool is_hidden(const struct redactor *r, const struct path *path)
{
    for (size_t i = 0; i < r->rules->n; i++)
        if (rule_matches(str_of(r->rules->items[i]), path))
            return true;
    return false;
}

/* ---- What was hidden ------------------------------------------------------------------------- */

static void add_secret(struct redactor *r, struct str secret)
{
    if (secret.len < REDACT_TEXT_MIN || r->n_secrets > REDACT_SECRETS_MAX)
        return;
    for (size_t i = 0; i < r->n_secrets; i++)
        if (str_eq(r->secrets[i], secret))
            return;
    if (r->n_secrets < REDACT_SECRETS_MAX)
        r->secrets[r->n_secrets] = secret;
    r->begins[(unsigned char)secret.ptr[0]] = true;
    r->n_secrets++;
}

static struct str unescaped(struct redactor *r, struct json_string s)
{
    struct buf out;
    if (!s.escaped)
        return s.raw;
    buf_init(&out, JSON_MAX);
    (void)json_unescape(s, &out);
    return finish(r, &out);
}

/* A text may be quoted as it is, or as it stands in the JSON. */
static void note_scalar(struct redactor *r, struct json_reader *reader, int type)
{
    struct json_string text;
    struct str raw;
    if (type == JSON_TYPE_STRING && json_read_string(reader, &text) == 0) {
        add_secret(r, text.raw);
        add_secret(r, unescaped(r, text));
    } else if (type == JSON_TYPE_NUMBER && json_skip(reader, &raw) == 0) {
        add_secret(r, raw);
    } else {
        (void)json_skip(reader, NULL);
    }
}

/* Reads a value that is hidden, and notes every text and number in it. */
static void note_secrets(struct redactor *r, struct json_reader *reader)
{
    struct json_string key;
    const int type = json_peek(reader);
    if (type == JSON_TYPE_OBJECT && json_enter_object(reader) == 0) {
        while (json_next_key(reader, &key) > 0)
            note_secrets(r, reader);
    } else if (type == JSON_TYPE_ARRAY && json_enter_array(reader) == 0) {
        while (json_next_item(reader) > 0)
            note_secrets(r, reader);
    } else {
        note_scalar(r, reader, type);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool copy_value(struct redactor *r, struct json_reader *reader, struct path *path,
                       struct json_writer *w);
static struct str redact_cut(struct redactor *r, struct str text);

/* True when something of it was hidden. */
static bool copy_object(struct redactor *r, struct json_reader *reader, struct path *path,
                        struct json_writer *w)
{
    struct json_string key;
    bool has_hidden = false;
    (void)json_enter_object(reader);
    json_begin_object(w);
    while (json_next_key(reader, &key) > 0) {
        const struct str name = unescaped(r, key);
        path->keys[path->n++] = name;
        json_key_str(w, name);
        if (is_hidden(r, path)) {
            note_secrets(r, reader);
            json_put_string(w, HIDDEN);
            has_hidden = true;
        } else {
            has_hidden |= copy_value(r, reader, path, w);
        }
        path->n--;
    }
    json_end_object(w);
    return has_hidden;
}

/* A text may quote what is hidden elsewhere. */
static bool copy_scalar(struct redactor *r, struct json_reader *reader, struct json_writer *w)
{
    struct str raw = STR("null");
    (void)json_skip(reader, &raw);
    if (raw.ptr[0] == '"') {
        const struct str inside = {raw.ptr + 1, raw.len - 2};
        const bool is_escaped = memchr(inside.ptr, '\\', inside.len) != NULL;
        const struct str text = unescaped(r, (struct json_string){inside, is_escaped});
        const struct str shown = redact_text(r, text);
        if (shown.ptr != text.ptr) {
            json_put_string(w, shown);
            return true;
        }
    }
    json_put_raw(w, raw);
    return false;
}

static bool copy_value(struct redactor *r, struct json_reader *reader, struct path *path,
                       struct json_writer *w)
{
    bool has_hidden = false;
    const int type = json_peek(reader);
    if (type == JSON_TYPE_OBJECT)
        return copy_object(r, reader, path, w);
    if (type != JSON_TYPE_ARRAY)
        return copy_scalar(r, reader, w);
    (void)json_enter_array(reader);
    json_begin_array(w);
    while (json_next_item(reader) > 0)
        has_hidden |= copy_value(r, reader, path, w);
    json_end_array(w);
    return has_hidden;
}

struct str redact_value(struct redactor *r, struct str value)
{
    struct json_writer w;
    struct path path = {.n = 0};
    if (!r->rules || value.len == 0)
        return value;
    r->work += value.len;
    if (json_check(value, NULL, NULL) != 0)
        return redact_cut(r, value);
    RELEASED_BY(buf_release) struct buf out = BUF_MAX(JSON_MAX);
    json_writer_init(&w, &out);
    RELEASED_BY(json_reader_release) struct json_reader reader;
    json_reader_init(&reader, value, NULL);
    const bool has_hidden = copy_value(r, &reader, &path, &w);
    if (has_hidden)
        return finish(r, &out);
    return value;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool ends_value(char c)
{
    return c != '\0' && strchr(" \t\r\n,;&)]}\"'", c) != NULL;
}

static size_t skip_any(struct str text, size_t at, const char *chars)
{
    while (at < text.len && text.ptr[at] && strchr(chars, text.ptr[at]))
        at++;
    return at;
}

/* `password=x`, `password: x`, `"password": "x y"` at `at`: where the value begins and ends. */
static bool find_assigned(struct str text, size_t at, struct str name, size_t *ret_from,
                          size_t *ret_to)
{
    const struct str here = {text.ptr + at, name.len};
    if (name.len == 0 || text.len - at < name.len || !str_eq_nocase(here, name) ||
        (at > 0 && is_letter(text.ptr[at - 1])))
        return false;
    size_t from = skip_any(text, at + name.len, "\\\"' ");
    if (from == text.len || (text.ptr[from] != '=' && text.ptr[from] != ':'))
        return false;
    from = skip_any(text, from + 1, " \\>");
    const bool is_quoted = from < text.len && (text.ptr[from] == '"' || text.ptr[from] == '\'');
    const size_t quote_at = from;
    from += is_quoted;
    size_t to = from;
    /* Where an object or a list ends cannot be told of a text that may be cut: all of it goes. */
    if (!is_quoted && from < text.len && (text.ptr[from] == '{' || text.ptr[from] == '['))
        to = text.len;
    while (to < text.len &&
           (is_quoted ? text.ptr[to] != text.ptr[quote_at] : !ends_value(text.ptr[to])))
        to += is_quoted && text.ptr[to] == '\\' && to + 1 < text.len ? 2 : 1;
    *ret_from = from;
    *ret_to = to;
    return to > from;
}

/* Whole words are compared where the first bytes are the same, so many bytes in about one step. */
#define BYTES_A_STEP 16

static bool is_same(struct redactor *r, const char *text, const char *secret, size_t len)
{
    if (len < REDACT_TEXT_MIN || memcmp(text, secret, REDACT_TEXT_MIN) != 0)
        return false;
    r->work += len / BYTES_A_STEP;
    return memcmp(text, secret, len) == 0;
}

/* The length of the longest known secret that the text begins with; 0: none. Of a text that may be
 * cut, all of it where a secret goes on behind its end. */
static size_t known_secret(struct redactor *r, struct str text)
{
    size_t longest = 0;
    r->work += r->n_secrets;
    for (size_t i = 0; i < r->n_secrets; i++) {
        const struct str secret = r->secrets[i];
        const size_t len = r->is_cut && secret.len > text.len ? text.len : secret.len;
        if (len > longest && len <= text.len && is_same(r, text.ptr, secret.ptr, len))
            longest = len;
    }
    return longest;
}

static bool is_too_much(const struct redactor *r)
{
    return r->n_secrets > REDACT_SECRETS_MAX || r->work > REDACT_WORK_MAX;
}

/* How much of a text that may be cut is the end of a secret. */
static size_t known_end(struct redactor *r, struct str text)
{
    size_t longest = 0;
    for (size_t i = 0; r->is_cut && i < r->n_secrets && !is_too_much(r); i++) {
        const struct str secret = r->secrets[i];
        size_t len = secret.len - 1 < text.len ? secret.len - 1 : text.len;
        r->work += len;
        while (len > longest && !is_same(r, text.ptr, secret.ptr + secret.len - len, len) &&
               !is_too_much(r))
            len--;
        longest = len > longest ? len : longest;
    }
    return longest >= REDACT_TEXT_MIN ? longest : 0;
}

/* Moves the end of what is hidden behind every known secret that begins in it: a value may be
 * longer than it looks, with a space in it, say, and secrets may overlap. */
static size_t with_known(struct redactor *r, struct str text, size_t from, size_t to)
{
    for (size_t at = from; at < to && !is_too_much(r); at++) {
        const size_t known = known_secret(r, (struct str){text.ptr + at, text.len - at});
        if (at + known > to)
            to = at + known;
    }
    return to;
}

/* What is hidden at `at`: the bytes up to *ret_from are shown, those up to *ret_to are not. */
static bool find_secret(struct redactor *r, struct str text, size_t at, size_t *ret_from,
                        size_t *ret_to)
{
    const size_t known = known_secret(r, (struct str){text.ptr + at, text.len - at});
    if (known > 0) {
        *ret_from = at;
        *ret_to = with_known(r, text, at, at + known);
        return true;
    }
    for (size_t i = 0; i < r->rules->n; i++) {
        struct str rule = str_of(r->rules->items[i]);
        const struct str name = last_name(&rule);
        if (str_is(name, "*") || !find_assigned(text, at, name, ret_from, ret_to))
            continue;
        *ret_to = with_known(r, text, *ret_from, *ret_to);
        return true;
    }
    return false;
}

struct str redact_text(struct redactor *r, struct str text)
{
    struct buf out;
    size_t from, to, shown = 0;
    if (!r->rules || r->learns || text.len == 0)
        return text;
    buf_init(&out, JSON_MAX);
    if (!is_too_much(r))
        shown = with_known(r, text, 0, known_end(r, text));
    if (shown > 0)
        (void)buf_add_str(&out, HIDDEN);
    for (size_t at = shown; at < text.len && !is_too_much(r); at++) {
        if (!r->begins[(unsigned char)text.ptr[at]] || !find_secret(r, text, at, &from, &to))
            continue;
        (void)buf_add(&out, text.ptr + shown, from - shown);
        (void)buf_add_str(&out, HIDDEN);
        shown = to;
        at = to - 1;
    }
    if (shown == 0 || is_too_much(r)) {
        buf_release(&out);
        return is_too_much(r) ? HIDDEN : text;
    }
    (void)buf_add(&out, text.ptr + shown, text.len - shown);
    return finish(r, &out);
}

static struct str redact_cut(struct redactor *r, struct str text)
{
    r->is_cut = true;
    const struct str shown = redact_text(r, text);
    r->is_cut = false;
    return shown;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* The epoch from which on all errors are about the payload that the job has. An edit changes the
 * time of a dead letter's last change and nothing else does. */
static uint32_t epoch_of_payload(const struct job_status *s)
{
    const bool is_edited = s->state == REDRIVE_STATE_DEAD_LETTER && s->updated_ms > s->finished_ms;
    return s->epoch + is_edited;
}

/* Whether the last error may be older than the last redrive: no attempt since then is known to have
 * failed. */
static bool has_older_error(const struct job_status *s)
{
    const bool may_be_no_failure = s->state == REDRIVE_STATE_RUNNING ||
                                   s->state == REDRIVE_STATE_COMPLETED ||
                                   s->state == REDRIVE_STATE_CANCELLED;
    return s->epoch > 0 && s->attempts <= may_be_no_failure;
}

static struct str hide(struct str text)
{
    return text.len > 0 ? HIDDEN : text;
}

static void hide_error(struct job_error *error)
{
    error->type = hide(error->type);
    error->message = hide(error->message);
    error->stacktrace = hide(error->stacktrace);
}

static void redact_error(struct redactor *r, struct job_error *error)
{
    error->type = redact_text(r, error->type);
    error->message = redact_cut(r, error->message);
    error->stacktrace = redact_cut(r, error->stacktrace);
}

struct job redact_job(struct redactor *r, const struct job *job)
{
    struct job shown = *job;
    if (!r->rules)
        return shown;
    forget(r);
    /* Once to learn what is hidden, and once more to find it in the rest. */
    r->learns = true;
    (void)redact_value(r, job->spec.payload);
    (void)redact_value(r, job->status.result);
    r->learns = false;
    shown.spec.payload = redact_value(r, job->spec.payload);
    shown.status.result = redact_value(r, job->status.result);
    r->epoch = epoch_of_payload(&job->status);
    if (r->epoch > job->status.epoch || has_older_error(&job->status))
        hide_error(&shown.status.error);
    else
        redact_error(r, &shown.status.error);
    return shown;
}

struct job redact_unknown(const struct job *job)
{
    struct job shown = *job;
    shown.spec.payload = hide(job->spec.payload);
    shown.status.result = hide(job->status.result);
    hide_error(&shown.status.error);
    return shown;
}

void redact_history(struct redactor *r, struct attempt_page *history)
{
    for (size_t i = 0; r->rules && history && i < history->n; i++) {
        struct job_attempt *attempt = &history->attempts[i];
        if (attempt->epoch < r->epoch)
            hide_error(&attempt->error);
        else
            redact_error(r, &attempt->error);
    }
}
