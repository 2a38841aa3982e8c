/* types.c - names, lists of text, and lists and maps of tables. */
#include "config/schema/types.h"

#include "base/err.h"
#include "base/text/str.h"
#include "config/schema/bind.h"
#include "core/check.h"

#define DIGITS_OF(number) #number
#define DIGITS(number)    DIGITS_OF(number)

/* ---- Names ----------------------------------------------------------------------------------- */

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
        bind_as(b, field, &FIELD_TEXT, node, member);
}

static void bind_queue(struct binder *b, const struct field *field, const struct node *node,
                       void *member)
{
    if (!type_name_valid(node->text) || name_check_queue(node->text, NULL) < 0)
        bind_expected(b, field, node);
    else
        bind_as(b, field, &FIELD_TEXT, node, member);
}

const struct field_kind TYPE_QUEUE = {
    .form = FORM_SCALAR,
    .bind = bind_queue,
    .write = field_write_text,
    .expects = "a name of at most " DIGITS(TYPE_NAME_MAX) " letters, digits, '.', '_' and '-'"};
const struct field_kind TYPE_NAME = {
    .form = FORM_SCALAR,
    .bind = bind_name,
    .write = field_write_text,
    .expects = "a name of at most " DIGITS(TYPE_NAME_MAX) " bytes without spaces"};

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

const struct field_kind TYPE_STRINGS = {
    .form = FORM_PART, .bind = bind_strings, .write = write_strings, .expects = "a list of text"};

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

const struct field_kind TYPE_TABLE = {
    .form = FORM_NESTED, .bind = type_table_bind, .write = type_table_write, .expects = "a map"};

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
    const bool is_map = field->kind == &TYPE_MAP;
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

const struct field_kind TYPE_LIST = {
    .form = FORM_PART, .bind = bind_elements, .write = write_list, .expects = "a list of maps"};

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

const struct field_kind TYPE_MAP = {.form = FORM_PART,
                                    .bind = bind_elements,
                                    .write = write_map,
                                    .expects = "a map by name, such as NAME: {...}"};
