/* types_list.c - lists of text, and lists and maps of tables. */
#include "config/schema/types.h"

#include "base/err.h"
#include "config/schema/bind.h"

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
        if (child->type != NODE_SCALAR || node_is_null(child) || child->text.len > TYPE_TEXT_MAX) {
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
    json_key(w, field->name);
    json_begin_array(w);
    for (size_t i = 0; i < strings->n; i++)
        json_put_cstr(w, strings->items[i]);
    json_end_array(w);
}

static const char *expects_strings(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "a list of text";
}

const struct field_type TYPE_STRINGS = {FIELD_PART, bind_strings, write_strings, expects_strings};

/* ---- Tables ---------------------------------------------------------------------------------- */

void type_table_bind(struct binder *b, const struct field *field, const struct node *node,
                     void *member)
{
    bind_table(b, field->table, node, member);
}

void type_table_write(const struct field *field, const void *member, struct json_writer *w)
{
    json_key(w, field->name);
    json_begin_object(w);
    table_write(field->table, member, w);
    json_end_object(w);
}

const char *type_table_expects(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "a map";
}

const struct field_type TYPE_TABLE = {FIELD_NESTED, type_table_bind, type_table_write,
                                      type_table_expects};

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

static void bind_list(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    if (node->type != NODE_LIST && !node_is_null(node)) {
        bind_expected(b, field, node);
        return;
    }
    char *element = new_elements(b, field, node, member);
    if (!element)
        return;
    NODE_FOREACH (node, child) {
        bind_table(b, field->table, child, element);
        element += field->table->size;
    }
}

static void write_list(const struct field *field, const void *member, struct json_writer *w)
{
    const char *element = *(const char *const *)member;
    json_key(w, field->name);
    json_begin_array(w);
    for (size_t n = count_of(field, member); n > 0; n--) {
        json_begin_object(w);
        table_write(field->table, element, w);
        json_end_object(w);
        element += field->table->size;
    }
    json_end_array(w);
}

static const char *expects_list(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "a list of maps";
}

const struct field_type TYPE_LIST = {FIELD_PART, bind_list, write_list, expects_list};

static void bind_map(struct binder *b, const struct field *field, const struct node *node,
                     void *member)
{
    if (node->type != NODE_MAP && !node_is_null(node)) {
        bind_expected(b, field, node);
        return;
    }
    char *element = new_elements(b, field, node, member);
    if (!element)
        return;
    NODE_FOREACH (node, child) {
        char shown[NODE_SHOW_MAX];
        if (!type_name_valid(child->key))
            err_detail(bind_key_error(b, child, "%s cannot be a name in %s",
                                      node_show(child->key, shown), field->name),
                       "expected 1 to %d bytes without spaces", TYPE_NAME_MAX);
        *(const char **)(void *)element = arena_dup(b->arena, child->key);
        bind_table(b, field->table, child, element);
        element += field->table->size;
    }
}

static void write_map(const struct field *field, const void *member, struct json_writer *w)
{
    const char *element = *(const char *const *)member;
    json_key(w, field->name);
    json_begin_object(w);
    for (size_t n = count_of(field, member); n > 0; n--) {
        json_key(w, *(const char *const *)(const void *)element);
        json_begin_object(w);
        table_write(field->table, element, w);
        json_end_object(w);
        element += field->table->size;
    }
    json_end_object(w);
}

static const char *expects_map(const struct field *field, char out[EXPECTS_MAX])
{
    (void)field, (void)out;
    return "a map by name, such as NAME: {...}";
}

const struct field_type TYPE_MAP = {FIELD_PART, bind_map, write_map, expects_map};
