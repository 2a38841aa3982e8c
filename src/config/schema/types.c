/* types.c - text, numbers, durations and words. */
#include "config/schema/types.h"

#include <float.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/suggest.h"
#include "base/time/duration.h"
#include "config/schema/bind.h"
#include "core/name.h"

/* ---- Text ------------------------------------------------------------------------------------ */

static void bind_string(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    if (node->type != NODE_SCALAR || node->text.len == 0) {
        bind_expected(b, field, node);
        return;
    }
    if (b->is_json && node->style == NODE_PLAIN) {
        err_hint(bind_expected(b, field, node), "put it in quotes");
        return;
    }
    if (node->text.len > TYPE_TEXT_MAX) {
        err_detail(bind_error(b, node, "text is too long"), "at most %d bytes", TYPE_TEXT_MAX);
        return;
    }
    *(const char **)member = arena_dup(b->arena, node->text);
}

static void write_string(const struct field *field, const void *member, struct json_writer *w)
{
    const char *text = *(const char *const *)member;
    if (text)
        json_field_cstr(w, field->name, text);
}

static const char *expects_string(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "some text";
}

const struct field_type TYPE_STRING = {FIELD_SCALAR, bind_string, write_string, expects_string};

bool type_name_valid(struct str name)
{
    if (name.len == 0 || name.len > TYPE_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.ptr[i] <= ' ' || name.ptr[i] == 0x7f)
            return false;
    return true;
}

static void bind_name(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    if (node->type != NODE_SCALAR || !type_name_valid(node->text))
        bind_expected(b, field, node);
    else
        bind_string(b, field, node, member);
}

static const char *expects_name(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field;
    snprintf(out, EXPECTS_MAX, "a name of at most %d bytes without spaces", TYPE_NAME_MAX);
    return out;
}

static void bind_queue(struct binder *b, const struct field *field, const struct node *node,
                       void *member)
{
    if (node->type != NODE_SCALAR || !type_name_valid(node->text) ||
        name_check_queue(node->text, NULL) < 0)
        bind_expected(b, field, node);
    else
        bind_string(b, field, node, member);
}

static const char *expects_queue(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field;
    snprintf(out, EXPECTS_MAX, "a name of at most %d letters, digits, '.', '_' and '-'",
             TYPE_NAME_MAX);
    return out;
}

const struct field_type TYPE_QUEUE = {FIELD_SCALAR, bind_queue, write_string, expects_queue};
const struct field_type TYPE_NAME = {FIELD_SCALAR, bind_name, write_string, expects_name};

/* ---- Truth values and numbers ---------------------------------------------------------------- */

static void bind_bool(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    int truth = node_truth(node);
    if (truth >= 0) {
        *(bool *)member = truth;
        return;
    }
    struct redrive_err *err = bind_expected(b, field, node);
    static const char *const WORDS[] = {"yes", "on", "1", "no", "off", "0"};
    for (size_t i = 0; node->type == NODE_SCALAR && i < 6; i++)
        if (str_eq_nocase(node->text, str_of(WORDS[i])))
            err_hint(err, "did you mean '%s'?", i < 3 ? "true" : "false");
}

static void write_bool(const struct field *field, const void *member, struct json_writer *w)
{
    json_field_bool(w, field->name, *(const bool *)member);
}

static const char *expects_bool(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "true or false";
}

const struct field_type TYPE_BOOL = {FIELD_SCALAR, bind_bool, write_bool, expects_bool};

bool type_parse_number(struct str text, double *ret)
{
    struct json_reader reader;
    json_reader_init(&reader, text, NULL);
    bool ok = json_read_double(&reader, ret) == 0 && json_end(&reader) == 0;
    json_reader_release(&reader);
    return ok;
}

/* Only digits, perhaps after a minus: 1e3 and 5.0 are no way to write a count. */
static bool is_whole(struct str text)
{
    size_t i = text.len && text.ptr[0] == '-';
    if (i == text.len)
        return false;
    for (; i < text.len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    return true;
}

static void bind_int(struct binder *b, const struct field *field, const struct node *node,
                     void *member)
{
    double value;
    if (!node_is_number(node) || !is_whole(node->text) || !type_parse_number(node->text, &value)) {
        bind_expected(b, field, node);
    } else if (value < field->min || value > field->max) {
        bind_out_of_range(b, field, node);
    } else {
        *(int32_t *)member = (int32_t)value;
    }
}

/* No setting is negative: a negative member is one whose value is decided later. */
static void write_int(const struct field *field, const void *member, struct json_writer *w)
{
    int32_t value = *(const int32_t *)member;
    if (value >= 0)
        json_field_int(w, field->name, value);
}

static const char *expects_int(const struct field *field, char out[EXPECTS_MAX])
{
    snprintf(out, EXPECTS_MAX, "a whole number from %.0f to %.0f", field->min, field->max);
    return out;
}

const struct field_type TYPE_INT = {FIELD_SCALAR, bind_int, write_int, expects_int};

static void write_count(const struct field *field, const void *member, struct json_writer *w)
{
    if (*(const int32_t *)member > 0)
        write_int(field, member, w);
}

const struct field_type TYPE_COUNT = {FIELD_SCALAR, bind_int, write_count, expects_int};

static void bind_double(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    double value;
    if (!node_is_number(node) || !type_parse_number(node->text, &value))
        bind_expected(b, field, node);
    else if (!(value >= field->min && value <= field->max))
        bind_out_of_range(b, field, node);
    else
        *(double *)member = value;
}

static void write_double(const struct field *field, const void *member, struct json_writer *w)
{
    json_field_double(w, field->name, *(const double *)member);
}

static const char *expects_double(const struct field *field, char out[EXPECTS_MAX])
{
    snprintf(out, EXPECTS_MAX, "a number from %g to %.*g", field->min,
             field->max < 1e9 ? 9 : DBL_DIG, field->max);
    return out;
}

const struct field_type TYPE_DOUBLE = {FIELD_SCALAR, bind_double, write_double, expects_double};

/* ---- Durations ------------------------------------------------------------------------------- */

static double longest_ms(const struct field *field)
{
    return field->max > 0 ? field->max : (double)DURATION_MAX_MS;
}

static void bad_duration(struct binder *b, const struct field *field, const struct node *node,
                         const struct redrive_err *why)
{
    char shown[NODE_SHOW_MAX], expects[EXPECTS_MAX];
    double number;

    node_show(node->text, shown);
    bool bare = type_parse_number(node->text, &number) && number >= 0;
    bool negative = node->text.len && node->text.ptr[0] == '-';
    struct redrive_err *err = bind_error(b, node, "%s %s", shown,
                                         bare       ? "has no unit"
                                         : negative ? "is negative"
                                                    : "is not a duration");
    err_detail(err, "expected %s", field->type->expects(field, expects));
    if (bare)
        err_hint(err, "add a unit, for instance %.20ss", node->text.ptr);
    else if (!negative)
        err_hint(err, "%s", *why->hint ? why->hint : why->detail);
}

static void bind_duration(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    struct redrive_err why;
    int64_t ms;

    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
        return;
    }
    int rc = duration_parse(node->text, &ms, &why);
    if (rc == REDRIVE_E_RANGE ||
        (rc == 0 && ((double)ms < field->min || (double)ms > longest_ms(field))))
        bind_out_of_range(b, field, node);
    else if (rc < 0)
        bad_duration(b, field, node, &why);
    else
        *(int64_t *)member = ms;
}

static void write_duration(const struct field *field, const void *member, struct json_writer *w)
{
    char text[DURATION_TEXT_MAX];
    json_field_cstr(w, field->name, duration_format(*(const int64_t *)member, text));
}

static const char *expects_duration(const struct field *field, char out[EXPECTS_MAX])
{
    char least[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX];
    size_t used = (size_t)snprintf(out, EXPECTS_MAX, "a duration such as 500ms, 2m or 1h30m");
    if (field->min > 0)
        used += (size_t)snprintf(out + used, EXPECTS_MAX - used, ", at least %s",
                                 duration_format((int64_t)field->min, least));
    if (field->max > 0)
        snprintf(out + used, EXPECTS_MAX - used, ", at most %s",
                 duration_format((int64_t)field->max, most));
    return out;
}

const struct field_type TYPE_DURATION = {FIELD_SCALAR, bind_duration, write_duration,
                                         expects_duration};

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *const *words_of(const struct field *field, size_t *ret_n)
{
    if (field->type == &TYPE_VOCABULARY)
        return vocabulary_words(field->vocabulary, ret_n);
    *ret_n = 0;
    while (field->words[*ret_n])
        ++*ret_n;
    return field->words;
}

/* Of the words; those of a vocabulary have their own. */
static int first_number(const struct field *field)
{
    size_t n;
    return field->type == &TYPE_VOCABULARY
               ? vocabulary_find(field->vocabulary, str_of(*words_of(field, &n)))
               : 0;
}

static void bind_word(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    size_t n;
    const char *const *words = words_of(field, &n);
    char shown[NODE_SHOW_MAX], expects[EXPECTS_MAX];

    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (str_is(node->text, words[i])) {
            *(int *)member = first_number(field) + (int)i;
            return;
        }
    }
    struct redrive_err *err = bind_error(b, node, "unknown word %s", node_show(node->text, shown));
    err_detail(err, "expected %s", field->type->expects(field, expects));
    bind_suggest(err, node->text, words, n);
}

static void write_word(const struct field *field, const void *member, struct json_writer *w)
{
    size_t n;
    const char *const *words = words_of(field, &n);
    int number = *(const int *)member - first_number(field);
    if (number >= 0 && (size_t)number < n)
        json_field_cstr(w, field->name, words[number]);
}

static const char *expects_word(const struct field *field, char out[EXPECTS_MAX])
{
    size_t n, used = 0;
    const char *const *words = words_of(field, &n);
    for (size_t i = 0; i < n && used < EXPECTS_MAX; i++)
        used += (size_t)snprintf(out + used, EXPECTS_MAX - used, "%s%s",
                                 i == 0       ? ""
                                 : i + 1 == n ? " or "
                                              : ", ",
                                 words[i]);
    return out;
}

const struct field_type TYPE_WORD = {FIELD_SCALAR, bind_word, write_word, expects_word};
const struct field_type TYPE_VOCABULARY = {FIELD_SCALAR, bind_word, write_word, expects_word};
