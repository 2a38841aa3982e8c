/* layers.c - the list of keys that variables and flags can set, and values that override others. */
#include "config/load/layers.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/str.h"
#include "base/text/encode.h"
#include "config/config.h"
#include "config/schema/types.h"

#define MAX_KEYS 64
#define PREFIX   "REDRIVE_"

static struct key KEYS[MAX_KEYS];
static size_t N_KEYS;
static pthread_once_t ONCE = PTHREAD_ONCE_INIT;

/* ---- Making the list ------------------------------------------------------------------------- */

static void name_key(struct key *key)
{
    char *variable = key->variable + sizeof PREFIX - 1;
    memcpy(key->variable, PREFIX, sizeof PREFIX);
    for (size_t i = 0; key->name[i]; i++) {
        char c = key->name[i];
        bool joint = c == '.' || c == '_';
        bool lower = c >= 'a' && c <= 'z';
        variable[i] = (char)(joint ? '_' : lower ? c - ('a' - 'A') : c);
        key->flag[i] = (char)(joint ? '-' : c);
    }
}

static void list_choices(struct key *key, const struct field *field)
{
    size_t n = 0;
    if (field->kind == &FIELD_TERM) {
        const char *const *words = vocabulary_words(field->vocabulary, &n);
        assert(n <= KEY_MAX_CHOICES);
        memcpy(key->choices, words + field->skip, (n - field->skip) * sizeof words[0]);
    } else if (field->kind == &FIELD_WORD) {
        for (; field->words[n]; n++) {
            assert(n < KEY_MAX_CHOICES);
            key->choices[n] = field->words[n];
        }
    } else if (field->kind == &FIELD_BOOL) {
        key->choices[0] = "true";
        key->choices[1] = "false";
    }
}

static void add_key(const struct field *const *steps, size_t n_steps)
{
    assert(N_KEYS < MAX_KEYS);
    struct key *key = &KEYS[N_KEYS++];
    size_t used = 0;

    for (size_t i = 0; i < n_steps; i++) {
        key->steps[i] = steps[i];
        if (steps[i]->table == &TABLE_DEFAULTS)
            continue;
        used += (size_t)snprintf(key->name + used, sizeof key->name - used, "%s%s", used ? "." : "",
                                 steps[i]->name);
    }
    assert(used < sizeof key->name);
    key->n_steps = n_steps;
    name_key(key);
    const struct field *field = steps[n_steps - 1];
    list_choices(key, field);
}

static void add_keys_of(const struct table *table, const struct field **steps, size_t n_steps)
{
    /* The tables are part of the program: one that is nested deeper is noticed by any run. */
    if (n_steps >= KEY_MAX_STEPS)
        abort();
    for (size_t i = 0; i < table->n_fields; i++) {
        const struct field *field = &table->fields[i];
        steps[n_steps] = field;
        if (field->kind->form == FORM_SCALAR)
            add_key(steps, n_steps + 1);
        else if (field->kind->form == FORM_NESTED)
            add_keys_of(field->table, steps, n_steps + 1);
    }
}

static void make_list(void)
{
    const struct field *steps[KEY_MAX_STEPS];
    add_keys_of(&TABLE_ROOT, steps, 0);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

const struct key *key_at(size_t index)
{
    pthread_once(&ONCE, make_list);
    return index < N_KEYS ? &KEYS[index] : NULL;
}

/* The key with this text in a member of it. */
static const struct key *find_by(size_t member, struct str text)
{
    const struct key *key;
    for (size_t i = 0; (key = key_at(i)); i++)
        if (str_is(text, (const char *)key + member))
            return key;
    return NULL;
}

const struct key *key_find(struct str name)
{
    return find_by(offsetof(struct key, name), name);
}

const struct key *key_find_variable(struct str variable)
{
    return find_by(offsetof(struct key, variable), variable);
}

const struct key *key_find_flag(struct str flag)
{
    return find_by(offsetof(struct key, flag), flag);
}

const struct field *key_field(const struct key *key)
{
    return key->steps[key->n_steps - 1];
}

/* The table that has its field. */
static const struct table *key_table(const struct key *key)
{
    return key->n_steps > 1 ? key->steps[key->n_steps - 2]->table : &TABLE_ROOT;
}

const char *key_suggest_variable(struct str given)
{
    const char *names[MAX_KEYS];
    const struct key *key;
    size_t n = 0;
    for (; (key = key_at(n)); n++)
        names[n] = key->variable;
    return suggest(given, names, n);
}

const char *key_suggest_flag(struct str given)
{
    const char *names[MAX_KEYS];
    const struct key *key;
    size_t n = 0;
    for (; (key = key_at(n)); n++)
        names[n] = key->flag;
    return suggest(given, names, n);
}

/* ---- For the command line -------------------------------------------------------------------- */

bool config_flag_known(struct str name)
{
    return key_find_flag(name) != NULL;
}

bool config_flag_enumerate(size_t index, struct config_flag *ret)
{
    const struct key *key = key_at(index);
    if (!key)
        return false;
    *ret = (struct config_flag){
        .name = key->flag,
        .key = key->name,
        .variable = key->variable,
        .help = key_field(key)->help,
        .default_text = key_field(key)->default_text,
        .choices = key->choices[0] ? key->choices : NULL,
    };
    return true;
}

/* ---- Short forms ----------------------------------------------------------------------------- */

/* The map under a key of `parent`, made if there is none; NULL if something else is there. */
static struct node *map_at(struct layers *layers, struct node *parent, struct str key)
{
    struct node *node = node_find(parent, key);
    if (node && node_is_null(node)) {
        node->type = NODE_MAP;
    } else if (!node) {
        node = node_new(layers->arena, NODE_MAP, parent);
        if (!node) {
            layers->binder->arena->failed = true;
            return NULL;
        }
        node_append(parent, node, key);
    }
    return node->type == NODE_MAP ? node : NULL;
}

/* ---- Settings -------------------------------------------------------------------------------- */

static bool says_the_same(const struct field *a, const struct field *b)
{
    return a == b || (a->instead_of && strcmp(a->instead_of, b->name) == 0) ||
           (b->instead_of && strcmp(b->instead_of, a->name) == 0);
}

static bool replaces(const struct field *strong, const struct field *weak)
{
    for (const char *const *name = strong->replaces; name && *name; name++)
        if (strcmp(*name, weak->name) == 0)
            return true;
    return false;
}

/* The map that holds the key, or NULL where the file has something else: binding will say so. */
static struct node *map_of(struct layers *layers, const struct key *key)
{
    struct node *map = layers->root->type == NODE_MAP ? layers->root : NULL;
    for (size_t i = 0; map && i + 1 < key->n_steps; i++)
        map = map_at(layers, map, str_of(key->steps[i]->name));
    return map;
}

static void add_setting(struct layers *layers, struct node *map, const struct key *key,
                        struct str value, const struct node *where)
{
    struct node *node = node_new(layers->arena, NODE_SCALAR, where);
    char *text = arena_dup(layers->arena, value);
    if (!node || !text) {
        layers->binder->arena->failed = true;
        return;
    }
    node->style = NODE_SETTING;
    node->layer = where->layer;
    node->is_borrowed = where->is_borrowed;
    node->text = (struct str){text, value.len};
    node_append(map, node, str_of(key_field(key)->name));
}

void layer_set(struct layers *layers, const struct key *key, enum layer layer, struct str value,
               const char *source)
{
    const struct node where = {.style = NODE_SETTING, .source = source, .layer = (uint8_t)layer};
    const struct field *field = key_field(key);

    if (!utf8_valid(value) || memchr(value.ptr, 0, value.len)) {
        bind_error(layers->binder, &where, "the value is not UTF-8 text");
        return;
    }
    struct node *map = map_of(layers, key);
    if (!map)
        return;
    for (struct node *child = map->first, *next; child; child = next) {
        const struct field *other = table_find(key_table(key), child->key);
        next = child->next;
        bool overridden = child->layer < where.layer;
        if (other && (other == field ||
                      (overridden && (says_the_same(field, other) || replaces(field, other)))))
            node_remove(map, child->key);
    }
    add_setting(layers, map, key, value, &where);
}

bool layer_fill(struct layers *layers, const struct key *key, const char *value, const char *source,
                bool is_borrowed)
{
    const struct node where = {.style = NODE_SETTING, .source = source, .is_borrowed = is_borrowed};
    const struct field *field = key_field(key);
    struct node *map = map_of(layers, key);
    if (!map)
        return false;
    NODE_FOREACH (map, child) {
        const struct field *other = table_find(key_table(key), child->key);
        if (other && (says_the_same(field, other) || replaces(other, field)))
            return false;
    }
    add_setting(layers, map, key, str_of(value), &where);
    return true;
}

const struct node *layer_find(const struct layers *layers, const struct key *key)
{
    const struct node *node = layers->root;
    for (size_t i = 0; node && i < key->n_steps; i++)
        node = node_find(node, str_of(key->steps[i]->name));
    return node;
}
