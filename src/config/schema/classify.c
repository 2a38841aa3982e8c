/* classify.c - the keys of `classify`. */
#include "config/schema/schema.h"

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
    bind_as(b, field, &FIELD_TEXT, node, &row->pattern);
}

static void write_pattern(const struct field *field, const void *member, struct json_writer *w)
{
    const struct redrive_classify_row *row = member;
    if (str_is(str_of(field->name), vocabulary_word(VOCABULARY_SOURCE, (int)row->source)))
        json_field_cstr(w, field->name, row->pattern);
}

static const struct field_kind TYPE_PATTERN = {
    .form = FORM_SCALAR, .bind = bind_pattern, .write = write_pattern};

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(member)                  offsetof(struct redrive_classify_row, member)
#define PATTERN(source, text, form) ROW(source, TYPE_PATTERN, 0, text, .expects = (form))

static const struct field CLASSIFY_FIELDS[] = {
    PATTERN("status", "the status that the handler gave", "a word"),
    PATTERN("error_type", "the type of the error",
            "a type, its last component, or a glob such as Quota*"),
    PATTERN("http_status", "the status of an HTTP answer", "a number or a range such as 500-599"),
    PATTERN("sqlstate", "the state that a database gave", "a prefix such as 40"),
    PATTERN("curl", "the code of a failed transfer", "a number or a range"),
    PATTERN("errno", "the error of a system call", "a name such as ECONNRESET, or a number"),
    PATTERN("signal", "the signal that ended a process", "a name such as SIGKILL, or a number"),
    PATTERN("exit_code", "the exit code of a process", "a number or a range"),
    PATTERN("message", "found anywhere in the message, case ignored",
            "a POSIX extended regular expression"),
    ROW("class", FIELD_TERM, AT(class_), "what such a failure is", .vocabulary = VOCABULARY_CLASS,
        .required = true),
    ROW("severity", FIELD_TERM, AT(severity), "what logs and alerts call it",
        .vocabulary = VOCABULARY_SEVERITY, DEFAULT("that of the class")),
    ROW("task", TYPE_NAME, AT(task), "only for jobs of this task"),
    ROW("queue", TYPE_NAME, AT(queue), "only for jobs of this queue"),
    ROW("service", FIELD_TEXT, AT(service), "only for jobs of this service"),
    ROW("user", FIELD_TEXT, AT(user), "only for jobs of this user"),
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
