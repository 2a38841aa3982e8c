/* classify.c - the keys of `classify`. */
#include "config/schema/schema.h"

#include <stdio.h>

#include "base/err.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "core/classify/classify.h"

/* ---- Patterns: a key for each source --------------------------------------------------------- */

static void bind_pattern(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct redrive_classify_row *row = member;
    row->source = (enum redrive_source)vocabulary_find(VOCABULARY_SOURCE, str_of(field->name));
    TYPE_STRING.bind(b, field, node, &row->pattern);
}

static void write_pattern(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_classify_row *row = member;
    if (str_is(str_of(field->name), vocabulary_word(VOCABULARY_SOURCE, (int)row->source)))
        json_field_cstr(w, field->name, row->pattern);
}

static const char *expects_pattern(const struct field *field, char out[EXPECTS_MAX])
{
    static const char *const FORMS[REDRIVE_SOURCE_COUNT] = {
        [REDRIVE_SOURCE_STATUS] = "a word",
        [REDRIVE_SOURCE_ERROR_TYPE] = "a type, its last component, or a glob such as Quota*",
        [REDRIVE_SOURCE_HTTP_STATUS] = "a number or a range such as 500-599",
        [REDRIVE_SOURCE_SQLSTATE] = "a prefix such as 40",
        [REDRIVE_SOURCE_CURL] = "a number or a range",
        [REDRIVE_SOURCE_ERRNO] = "a name such as ECONNRESET, or a number",
        [REDRIVE_SOURCE_SIGNAL] = "a name such as SIGKILL, or a number",
        [REDRIVE_SOURCE_EXIT_CODE] = "a number or a range",
        [REDRIVE_SOURCE_MESSAGE] = "a POSIX extended regular expression",
    };
    (void)out;
    return FORMS[vocabulary_find(VOCABULARY_SOURCE, str_of(field->name))];
}

static const struct field_type TYPE_PATTERN = {FIELD_SCALAR, bind_pattern, write_pattern,
                                               expects_pattern};

/* ---- The table ------------------------------------------------------------------------------- */

#define PATTERN(source, text)                                            \
    {                                                                    \
        .name = source, .type = &TYPE_PATTERN, .offset = 0, .help = text \
    }
#define AT(member) .offset = offsetof(struct redrive_classify_row, member)
#define ONLY(limit, kind, text)                                  \
    {                                                            \
        .name = #limit, .type = &(kind), AT(limit), .help = text \
    }

static const struct field CLASSIFY_FIELDS[] = {
    PATTERN("status", "the status that the handler gave"),
    PATTERN("error_type", "the type of the error"),
    PATTERN("http_status", "the status of an HTTP answer"),
    PATTERN("sqlstate", "the state that a database gave"),
    PATTERN("curl", "the code of a failed transfer"),
    PATTERN("errno", "the error of a system call"),
    PATTERN("signal", "the signal that ended a process"),
    PATTERN("exit_code", "the exit code of a process"),
    PATTERN("message", "found anywhere in the message, case ignored"),
    {.name = "class",
     .type = &TYPE_VOCABULARY,
     AT(class_),
     .vocabulary = VOCABULARY_CLASS,
     .required = true,
     .help = "what such a failure is"},
    {.name = "severity",
     .type = &TYPE_VOCABULARY,
     AT(severity),
     .vocabulary = VOCABULARY_SEVERITY,
     .default_text = "that of the class",
     .help = "what logs and alerts call it"},
    ONLY(task, TYPE_NAME, "only for jobs of this task"),
    ONLY(queue, TYPE_NAME, "only for jobs of this queue"),
    ONLY(service, TYPE_STRING, "only for jobs of this service"),
    ONLY(user, TYPE_STRING, "only for jobs of this user"),
};

static void init(struct binder *b, void *object)
{
    struct redrive_classify_row *row = object;
    (void)b;
    row->severity = REDRIVE_SEVERITY_OF_CLASS;
}

static void finish(struct binder *b, const struct node *map, void *object)
{
    const struct redrive_classify_row *row = object;
    const struct node *pattern = NULL;
    struct redrive_err why;
    int given = 0;

    NODE_FOREACH (map, child) {
        if (vocabulary_find(VOCABULARY_SOURCE, child->key) >= 0) {
            pattern = child;
            given++;
        }
    }
    if (given != 1) {
        struct redrive_err *err =
            bind_error(b, map, given ? "looks at several things" : "does not say what to look at");
        err_detail(err, "expected one of status, error_type, http_status, sqlstate, curl, errno, "
                        "signal, exit_code and message");
        if (given)
            err_hint(err, "write a row for each");
        return;
    }
    if (row->pattern && classify_row_check(row, &why) < 0)
        bind_error_from(b, pattern, &why);
}

const struct table TABLE_CLASSIFY = {.name = "classify",
                                     FIELDS(CLASSIFY_FIELDS),
                                     .size = sizeof(struct redrive_classify_row),
                                     .init = init,
                                     .finish = finish};
