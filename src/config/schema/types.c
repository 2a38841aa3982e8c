/* types.c - text, numbers, durations, words, lists, and maps of tables. */
#include "config/schema/types.h"

#include <float.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/str.h"
#include "base/time/duration.h"
#include "config/schema/bind.h"
#include "core/check.h"

#define DIGITS_OF(number) #number
#define DIGITS(number)    DIGITS_OF(number)

/* ---- Text ------------------------------------------------------------------------------------ */

static void bind_string(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    if (node->text.len == 0) {
        bind_expected(b, field, node);
        return;
    }
    if (b->is_json && node->style == NODE_PLAIN) {
        err_hint(bind_expected(b, field, node), "put it in quotes");
        return;
    }
    if (node->text.len > NODE_TEXT_MAX) {
        err_detail(bind_error(b, node, "text is too long"), "at most %d bytes", NODE_TEXT_MAX);
        return;
    }
    *(const char **)member = arena_dup(b->arena, node->text);
}

void type_string_write(const struct field *field, const void *member, struct json_writer *w)
{
    const char *text = *(const char *const *)member;
    if (text)
        json_field_cstr(w, field->name, text);
}

const struct field_type TYPE_STRING = {FIELD_SCALAR, bind_string, type_string_write,
                                       .expects = "some text"};

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
    if (!type_name_valid(node->text))
        bind_expected(b, field, node);
    else
        bind_string(b, field, node, member);
}

static void bind_queue(struct binder *b, const struct field *field, const struct node *node,
                       void *member)
{
    if (!type_name_valid(node->text) || name_check_queue(node->text, NULL) < 0)
        bind_expected(b, field, node);
    else
        bind_string(b, field, node, member);
}

const struct field_type TYPE_QUEUE = {
    FIELD_SCALAR, bind_queue, type_string_write,
    .expects = "a name of at most " DIGITS(TYPE_NAME_MAX) " letters, digits, '.', '_' and '-'"};
const struct field_type TYPE_NAME = {
    FIELD_SCALAR, bind_name, type_string_write,
    .expects = "a name of at most " DIGITS(TYPE_NAME_MAX) " bytes without spaces"};

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
    for (size_t i = 0; i < 6; i++)
        if (str_eq_nocase(node->text, str_of(WORDS[i])))
            err_hint(err, "did you mean '%s'?", i < 3 ? "true" : "false");
}

static void write_bool(const struct field *field, const void *member, struct json_writer *w)
{
    if (*(const bool *)member || !field->sparse)
        json_field_bool(w, field->name, *(const bool *)member);
}

const struct field_type TYPE_BOOL = {FIELD_SCALAR, bind_bool, write_bool,
                                     .expects = "true or false"};

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
    if (!node_is_number(node) || !is_whole(node->text) || !node_parse_number(node->text, &value)) {
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
    if (value > 0 || (value == 0 && !field->sparse))
        json_field_int(w, field->name, value);
}

const char *type_int_describe(const struct field *field, char out[EXPECTS_MAX])
{
    snprintf(out, EXPECTS_MAX, "a whole number from %.0f to %.0f", field->min, field->max);
    return out;
}

const struct field_type TYPE_INT = {FIELD_SCALAR, bind_int, write_int,
                                    .describe = type_int_describe};

static void bind_double(struct binder *b, const struct field *field, const struct node *node,
                        void *member)
{
    double value;
    if (!node_is_number(node) || !node_parse_number(node->text, &value))
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

const char *type_double_describe(const struct field *field, char out[EXPECTS_MAX])
{
    snprintf(out, EXPECTS_MAX, "a number from %g to %.*g", field->min,
             field->max < 1e9 ? 9 : DBL_DIG, field->max);
    return out;
}

const struct field_type TYPE_DOUBLE = {FIELD_SCALAR, bind_double, write_double,
                                       .describe = type_double_describe};

/* ---- Durations ------------------------------------------------------------------------------- */

static double longest_ms(const struct field *field)
{
    return field->max > 0 ? field->max : (double)DURATION_MAX_MS;
}

static void bad_duration(struct binder *b, const struct field *field, const struct node *node,
                         const struct redrive_err *why)
{
    char shown[NODE_SHOW_MAX];
    double number;

    node_show(node->text, shown);
    bool bare = node_parse_number(node->text, &number) && number >= 0;
    bool negative = node->text.len && node->text.ptr[0] == '-';
    struct redrive_err *err = bind_error(b, node, "%s %s", shown,
                                         bare       ? "has no unit"
                                         : negative ? "is negative"
                                                    : "is not a duration");
    bind_detail(err, field);
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
    if (*(const int64_t *)member != 0 || !field->sparse)
        json_field_cstr(w, field->name, duration_format(*(const int64_t *)member, text));
}

static const char *describe_duration(const struct field *field, char out[EXPECTS_MAX])
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
                                         .describe = describe_duration};

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

const char *type_join(const char *const *words, size_t n, char out[EXPECTS_MAX])
{
    size_t used = 0;
    for (size_t i = 0; i < n && used < EXPECTS_MAX; i++) {
        const char *joint = i == 0 ? "" : i + 1 == n ? " or " : ", ";
        used += (size_t)snprintf(out + used, EXPECTS_MAX - used, "%s%s", joint, words[i]);
    }
    return out;
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
    char shown[NODE_SHOW_MAX];

    for (size_t i = 0; i < n; i++) {
        if (str_is(node->text, words[i])) {
            *(int *)member = first_number(field) + (int)i;
            return;
        }
    }
    struct redrive_err *err = bind_error(b, node, "unknown word %s", node_show(node->text, shown));
    bind_detail(err, field);
    err_suggest(err, suggest(node->text, words, n));
}

static void write_word(const struct field *field, const void *member, struct json_writer *w)
{
    size_t n;
    const char *const *words = words_of(field, &n);
    int number = *(const int *)member - first_number(field);
    if (number >= 0 && (size_t)number < n)
        json_field_cstr(w, field->name, words[number]);
}

static const char *describe_word(const struct field *field, char out[EXPECTS_MAX])
{
    size_t n;
    const char *const *words = words_of(field, &n);
    return type_join(words, n, out);
}

const struct field_type TYPE_WORD = {FIELD_SCALAR, bind_word, write_word,
                                     .describe = describe_word};
const struct field_type TYPE_VOCABULARY = {FIELD_SCALAR, bind_word, write_word,
                                           .describe = describe_word};

/* ---- Lists of text --------------------------------------------------------------------------- */

static void bind_strings(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    struct config_strings *strings = member;
    size_t n = 0;

    if (node->type != NODE_LIST || node->n_children == 0) {
        bind_expected_list(b, field, node);
        return;
    }
    const char **items = arena_array(b->arena, node->n_children + 1, sizeof *items);
    if (!items)
        return;
    NODE_FOREACH (node, child) {
        if (child->type != NODE_SCALAR || node_is_null(child) || child->text.len > NODE_TEXT_MAX) {
            err_detail(bind_error(b, child, "found %s", node_kind(child)), "expected some text");
            return;
        }
        items[n++] = arena_dup(b->arena, child->text);
    }
    *strings = (struct config_strings){items, n};
}

static void write_strings(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_strings *strings = member;
    if (strings->n == 0)
        return;
    json_open_array(w, field->name);
    for (size_t i = 0; i < strings->n; i++)
        json_put_cstr(w, strings->items[i]);
    json_end_array(w);
}

const struct field_type TYPE_STRINGS = {FIELD_PART, bind_strings, write_strings,
                                        .expects = "a list of text"};

/* ---- Tables ---------------------------------------------------------------------------------- */

void type_bind_later(struct binder *b, const struct field *field, const struct node *node,
                     void *member)
{
    (void)b, (void)field, (void)node, (void)member;
}

void type_table_bind(struct binder *b, const struct field *field, const struct node *node,
                     void *member)
{
    bind_table(b, field->table, node, member);
}

void type_table_write(const struct field *field, const void *member, struct json_writer *w)
{
    json_open_object(w, field->name);
    table_write(field->table, member, w);
    json_end_object(w);
}

const struct field_type TYPE_TABLE = {FIELD_NESTED, type_table_bind, type_table_write,
                                      .expects = "a map"};

/* The member that counts the elements lies at a fixed distance from the one that points. */
static size_t count_of(const struct field *field, const void *member)
{
    const char *object = (const char *)member - field->offset;
    return *(const size_t *)(const void *)(object + field->count_offset);
}

static void set_count(const struct field *field, void *member, size_t n)
{
    char *object = (char *)member - field->offset;
    *(size_t *)(void *)(object + field->count_offset) = n;
}

static void *new_elements(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    char *elements = arena_array(b->arena, node->n_children, field->table->size);
    if (!elements)
        return NULL;
    *(void **)member = elements;
    set_count(field, member, node->n_children);
    for (size_t i = 0; i < node->n_children && field->table->init; i++)
        field->table->init(b, elements + i * field->table->size);
    return elements;
}

/* The element of a map starts with its name. */
static void bind_name_of(struct binder *b, const struct field *field, const struct node *child,
                         void *element)
{
    char shown[NODE_SHOW_MAX];
    if (!type_name_valid(child->key))
        err_detail(bind_key_error(b, child, "%s cannot be a name in %s",
                                  node_show(child->key, shown), field->name),
                   "expected 1 to %d bytes without spaces", TYPE_NAME_MAX);
    *(const char **)element = arena_dup(b->arena, child->key);
}

/* TYPE_LIST and TYPE_MAP. */
static void bind_elements(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    const bool is_map = field->type == &TYPE_MAP;
    if (node->type != (is_map ? NODE_MAP : NODE_LIST) && !node_is_null(node)) {
        bind_expected(b, field, node);
        return;
    }
    char *element = new_elements(b, field, node, member);
    if (!element)
        return;
    NODE_FOREACH (node, child) {
        if (is_map)
            bind_name_of(b, field, child, element);
        bind_table(b, field->table, child, element);
        element += field->table->size;
    }
}

static void write_list(const struct field *field, const void *member, struct json_writer *w)
{
    const char *element = *(const char *const *)member;
    json_open_array(w, field->name);
    for (size_t n = count_of(field, member); n > 0; n--) {
        json_begin_object(w);
        table_write(field->table, element, w);
        json_end_object(w);
        element += field->table->size;
    }
    json_end_array(w);
}

const struct field_type TYPE_LIST = {FIELD_PART, bind_elements, write_list,
                                     .expects = "a list of maps"};

static void write_map(const struct field *field, const void *member, struct json_writer *w)
{
    const char *element = *(const char *const *)member;
    json_open_object(w, field->name);
    for (size_t n = count_of(field, member); n > 0; n--) {
        json_open_object(w, *(const char *const *)(const void *)element);
        table_write(field->table, element, w);
        json_end_object(w);
        element += field->table->size;
    }
    json_end_object(w);
}

const struct field_type TYPE_MAP = {FIELD_PART, bind_elements, write_map,
                                    .expects = "a map by name, such as NAME: {...}"};
