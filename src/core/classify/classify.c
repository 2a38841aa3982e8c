/* classify.c - compiles the user's rows; asks the sources of a failure for its class, in order;
 * copies failures. */
#include "core/classify/classify.h"

#include <regex.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/str.h"
#include "core/classify/table.h"
#include "core/vocabulary.h"

#define REGEX_MAX_BYTES   1024
#define REGEX_MAX_REPEATS 1000

struct row {
    enum redrive_source source;
    enum redrive_class class_;
    enum redrive_severity severity;
    char *pattern;
    int min; /* of the numeric sources */
    int max;
    regex_t regex; /* of message */
    bool has_regex;
    char *task;
    char *queue;
    char *service;
    char *user;
};

struct classifier {
    size_t n_rows;
    struct row rows[];
};

static void row_release(struct row *row)
{
    if (row->has_regex)
        regfree(&row->regex);
    free(row->pattern);
    free(row->task);
    free(row->queue);
    free(row->service);
    free(row->user);
}

/* Digits only, at most six of them; -1 for anything else. */
static int parse_number(struct str s)
{
    int n = 0;
    if (s.len == 0 || s.len > 6)
        return -1;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return -1;
        n = n * 10 + (s.ptr[i] - '0');
    }
    return n;
}

/* "503" or "500-599" */
static bool parse_range(struct str text, int *ret_min, int *ret_max)
{
    const char *dash = memchr(text.ptr, '-', text.len);
    size_t first_len = dash ? (size_t)(dash - text.ptr) : text.len;
    *ret_min = *ret_max = parse_number((struct str){text.ptr, first_len});
    if (dash)
        *ret_max = parse_number((struct str){dash + 1, text.len - first_len - 1});
    return *ret_min >= 0 && *ret_max >= *ret_min;
}

static int bad_pattern(const struct row *row, const char *expected, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_INVALID, "bad %s pattern '%s'",
            vocabulary_word(VOCABULARY_SOURCE, (int)row->source), row->pattern);
    err_detail(err, "expected %s", expected);
    return REDRIVE_E_INVALID;
}

static int compile_name(struct row *row, int (*number_of)(struct str), const char *expected,
                        struct redrive_err *err)
{
    struct str text = str_of(row->pattern);
    int number = parse_number(text);
    if (number < 0)
        number = number_of(text);
    row->min = row->max = number;
    return number > 0 ? 0 : bad_pattern(row, expected, err);
}

/* The larger number of `{m,n}`; `p` is behind the brace. */
static long most_repeats(const char *p)
{
    long most = 1;
    while (*p && *p != '}') {
        char *end;
        long n = *p >= '0' && *p <= '9' ? strtol(p, &end, 10) : 0;
        most = n > most ? n : most;
        p = n > 0 ? end : p + 1;
    }
    return most;
}

/* regcomp writes `x{100}` out a hundred times and the operand of `+` twice, and nested ones
 * multiply: a pattern of thirty bytes can eat all memory. A back-reference makes matching
 * exponential. Escapes and brackets are not looked at; they only make it stricter. */
static bool costs_too_much(const char *pattern)
{
    long product = 1;
    for (const char *p = pattern; *p; p++) {
        long factor = 1;
        if (*p == '{')
            factor = most_repeats(p + 1);
        else if (*p == '+' && p > pattern && strchr(")}+*?", p[-1]))
            factor = 2;
        else if (*p == '\\' && p[1] >= '1' && p[1] <= '9')
            return true;
        if (factor > REGEX_MAX_REPEATS / product)
            return true;
        product *= factor;
    }
    return false;
}

static int compile_regex(struct row *row, struct redrive_err *err)
{
    if (strlen(row->pattern) > REGEX_MAX_BYTES || costs_too_much(row->pattern)) {
        bad_pattern(row, "a smaller regular expression", err);
        err_hint(err,
                 "at most %d bytes, repetitions that multiply to at most %d, no back-references",
                 REGEX_MAX_BYTES, REGEX_MAX_REPEATS);
        return REDRIVE_E_INVALID;
    }
    int rc = regcomp(&row->regex, row->pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
    if (rc != 0) {
        char why[128];
        regerror(rc, &row->regex, why, sizeof why);
        bad_pattern(row, "a POSIX extended regular expression", err);
        err_hint(err, "%s", why);
        return REDRIVE_E_INVALID;
    }
    row->has_regex = true;
    return 0;
}

static int compile_pattern(struct row *row, struct redrive_err *err)
{
    switch (row->source) {
    case REDRIVE_SOURCE_HTTP_STATUS:
    case REDRIVE_SOURCE_CURL:
    case REDRIVE_SOURCE_EXIT_CODE:
        if (parse_range(str_of(row->pattern), &row->min, &row->max))
            return 0;
        return bad_pattern(row, "a number or a range such as 500-599", err);
    case REDRIVE_SOURCE_ERRNO:
        return compile_name(row, classify_errno_number, "a name such as ECONNRESET, or a number",
                            err);
    case REDRIVE_SOURCE_SIGNAL:
        return compile_name(row, classify_signal_number, "a name such as SIGKILL, or a number",
                            err);
    case REDRIVE_SOURCE_MESSAGE: return compile_regex(row, err);
    case REDRIVE_SOURCE_STATUS:
    case REDRIVE_SOURCE_ERROR_TYPE:
    case REDRIVE_SOURCE_SQLSTATE: return row->pattern[0] ? 0 : bad_pattern(row, "some text", err);
    default: return err_set(err, REDRIVE_E_INVALID, "unknown source");
    }
}

static bool copy(char **dst, const char *src)
{
    *dst = src ? str_dup(str_of(src)) : NULL;
    return !src || *dst;
}

static int row_compile(struct row *row, const struct redrive_classify_row *from,
                       struct redrive_err *err)
{
    *row = (struct row){.source = from->source, .class_ = from->class_};
    if ((unsigned)from->class_ >= REDRIVE_CLASS_COUNT)
        return err_set(err, REDRIVE_E_INVALID, "unknown class");
    if ((unsigned)from->severity >= REDRIVE_SEVERITY_COUNT)
        return err_set(err, REDRIVE_E_INVALID, "unknown severity");
    if (!from->pattern)
        return err_set(err, REDRIVE_E_INVALID, "the row has no pattern");
    row->severity =
        from->severity == REDRIVE_SEVERITY_OF_CLASS ? class_severity(from->class_) : from->severity;
    if (!copy(&row->pattern, from->pattern) || !copy(&row->task, from->task) ||
        !copy(&row->queue, from->queue) || !copy(&row->service, from->service) ||
        !copy(&row->user, from->user))
        return err_nomem(err);
    return compile_pattern(row, err);
}

int classify_row_check(const struct redrive_classify_row *row, struct redrive_err *err)
{
    struct row compiled;
    int rc = row_compile(&compiled, row, err);
    row_release(&compiled);
    return rc;
}

int classifier_new(const struct redrive_classify_row *rows, size_t n_rows, struct classifier **ret,
                   struct redrive_err *err)
{
    struct classifier *c = malloc(sizeof *c + n_rows * sizeof c->rows[0]);
    if (!c)
        return err_nomem(err);
    c->n_rows = 0;
    for (size_t i = 0; i < n_rows; i++) {
        struct redrive_err why;
        int rc = row_compile(&c->rows[c->n_rows++], &rows[i], &why);
        if (rc < 0) {
            classifier_free(c);
            err_set(err, rc, "classify row %zu: %.200s", i + 1, why.message);
            err_detail(err, "%s", why.detail);
            err_hint(err, "%s", why.hint);
            return rc;
        }
    }
    *ret = c;
    return 0;
}

void classifier_free(struct classifier *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n_rows; i++)
        row_release(&c->rows[i]);
    free(c);
}

static bool limit_allows(const char *limit, const char *value)
{
    return !limit || (value && strcmp(limit, value) == 0);
}

static bool in_range(const struct row *row, int value)
{
    return value != 0 && value >= row->min && value <= row->max;
}

static bool pattern_matches(const struct row *row, const struct redrive_failure *f)
{
    switch (row->source) {
    case REDRIVE_SOURCE_STATUS: return f->status && strcmp(f->status, row->pattern) == 0;
    case REDRIVE_SOURCE_ERROR_TYPE: return type_name_matches_any(row->pattern, f);
    case REDRIVE_SOURCE_HTTP_STATUS: return in_range(row, f->http_status);
    case REDRIVE_SOURCE_SQLSTATE:
        return f->sqlstate && str_starts_with(str_of(f->sqlstate), str_of(row->pattern));
    case REDRIVE_SOURCE_CURL: return in_range(row, f->curl_code);
    case REDRIVE_SOURCE_ERRNO: return in_range(row, f->errnum);
    case REDRIVE_SOURCE_SIGNAL: return in_range(row, f->signal);
    case REDRIVE_SOURCE_EXIT_CODE: return in_range(row, f->exit_code);
    case REDRIVE_SOURCE_MESSAGE:
    default: return f->message && regexec(&row->regex, f->message, 0, NULL, 0) == 0;
    }
}

/* True and a verdict when a row matches. */
static bool classifier_match(const struct classifier *c, const struct redrive_failure *failure,
                             const struct classify_context *context, struct verdict *ret)
{
    static const struct classify_context no_names;
    const struct classify_context *who = context ? context : &no_names;

    for (size_t i = 0; i < c->n_rows; i++) {
        const struct row *row = &c->rows[i];
        if (!limit_allows(row->task, who->task) || !limit_allows(row->queue, who->queue) ||
            !limit_allows(row->service, who->service) || !limit_allows(row->user, who->user))
            continue;
        if (pattern_matches(row, failure)) {
            *ret = (struct verdict){.class_ = row->class_, .severity = row->severity};
            return true;
        }
    }
    return false;
}

/* ---- The order of the sources ---------------------------------------------------------------- */

/* Does anything indicate a failure? A message alone does not. */
static bool has_failed(const struct redrive_failure *f)
{
    return f->failed || failure_type(f) || f->sqlstate || f->curl_code != 0 || f->errnum != 0 ||
           f->signal != 0 || f->exit_code != 0 ||
           (f->http_status != 0 && (f->http_status < 200 || f->http_status > 299));
}

static int special_case(const struct redrive_failure *f)
{
    if (f->http_status == 503 && f->retry_after_ms > 0)
        return REDRIVE_CLASS_RATE_LIMITED;
    if (f->http_status == 403 && f->message && table_is_rate_limit_message(str_of(f->message)))
        return REDRIVE_CLASS_RATE_LIMITED;
    return -1;
}

/* What the types say from number `first` on, the most derived of those that are known. */
static int built_in_types(const struct redrive_failure *f, size_t first, size_t last)
{
    const char *type;
    int found = -1;
    for (size_t i = first; i <= last && found < 0 && (type = failure_type_at(f, i)); i++)
        found = table_error_type(str_of(type));
    return found;
}

/* Each source that the failure carries, in the order of enum redrive_source. */
static int built_in(const struct redrive_failure *f)
{
    int found = built_in_types(f, 0, 0);
    if (found < 0 && f->http_status != 0)
        found = table_http_status(f->http_status);
    if (found < 0 && f->sqlstate)
        found = table_sqlstate(str_of(f->sqlstate));
    if (found < 0 && f->curl_code != 0)
        found = table_curl(f->curl_code);
    if (found < 0 && f->errnum != 0)
        found = table_errno(f->errnum);
    if (found < 0 && f->signal != 0)
        found = table_signal(f->signal);
    if (found < 0)
        found = built_in_types(f, 1, REDRIVE_ERROR_TYPES_MAX);
    if (found < 0 && f->exit_code != 0)
        found = table_exit_code(f->exit_code);
    if (found < 0 && f->message)
        found = table_message(str_of(f->message));
    return found;
}

static struct verdict verdict_of(enum redrive_class class_)
{
    return (struct verdict){.class_ = class_, .severity = class_severity(class_)};
}

struct verdict classify(const struct classifier *classifier, const struct redrive_failure *f,
                        const struct classify_context *context)
{
    if (f->status) {
        int own_word = classify_status(str_of(f->status));
        if (own_word >= 0 && own_word < CLASSIFY_FAIL)
            return verdict_of((enum redrive_class)own_word);
    }
    /* An unknown word is not SUCCESS. */
    if (!f->status && !has_failed(f))
        return verdict_of(REDRIVE_CLASS_SUCCESS);
    struct verdict verdict;
    if (classifier && classifier_match(classifier, f, context, &verdict))
        return verdict;

    int found = special_case(f);
    if (found < 0)
        found = built_in(f);
    if (found >= 0)
        return verdict_of((enum redrive_class)found);
    verdict = verdict_of(REDRIVE_CLASS_TRANSIENT);
    verdict.unclassified = true;
    return verdict;
}

/* ---- The facts of a failure ------------------------------------------------------------------ */

/* The strings of a failure, each with the name of its limit. */
#define FAILURE_TEXTS(XX)      \
    XX(status, name)           \
    XX(error_type, name)       \
    XX(message, message)       \
    XX(stacktrace, stacktrace) \
    XX(sqlstate, name)

/* Space for a copy of `s` and its terminator. */
static size_t room_for(const char *s, size_t max)
{
    return s ? strnlen(s, max) + 1 : 0;
}

static const char *copy_text(char **at, const char *s, size_t max)
{
    size_t room = room_for(s, max);
    if (room == 0)
        return NULL;
    char *copy = *at;
    str_copy(copy, room, str_of(s));
    *at += room;
    return copy;
}

static size_t count_types(const struct redrive_failure *f)
{
    return f->n_error_types < REDRIVE_ERROR_TYPES_MAX ? f->n_error_types : REDRIVE_ERROR_TYPES_MAX;
}

static size_t measure(const struct redrive_failure *f, const struct failure_limits *limits)
{
    size_t size = count_types(f) * sizeof(char *);
    for (size_t i = 0; i < count_types(f); i++)
        size += room_for(f->error_types[i], limits->name);
#define XX(field, limit) size += room_for(f->field, limits->limit);
    FAILURE_TEXTS(XX)
#undef XX
    return size;
}

void *failure_copy(const struct redrive_failure *failure, const struct failure_limits *limits,
                   struct redrive_failure *ret)
{
    struct redrive_failure copy = *failure;
    const size_t size = measure(failure, limits);
    const char **block = size > 0 ? malloc(size) : NULL;

    copy.n_error_types = block ? count_types(failure) : 0;
    copy.error_types = copy.n_error_types > 0 ? block : NULL;
    char *at = block ? (char *)(block + copy.n_error_types) : NULL;
    for (size_t i = 0; i < copy.n_error_types; i++)
        block[i] = copy_text(&at, failure->error_types[i], limits->name);
#define XX(field, limit) copy.field = block ? copy_text(&at, failure->field, limits->limit) : NULL;
    FAILURE_TEXTS(XX)
#undef XX
    *ret = copy;
    return block;
}
