/* keys.c - makes the list of keys from the tables, and searches it. */
#include "config/load/keys.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/suggest.h"
#include "config/config.h"
#include "config/schema/schema.h"
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
    if (field->type == &TYPE_VOCABULARY) {
        const char *const *words = vocabulary_words(field->vocabulary, &n);
        assert(n <= KEY_MAX_CHOICES);
        memcpy(key->choices, words, n * sizeof words[0]);
    } else if (field->type == &TYPE_WORD) {
        for (; field->words[n]; n++) {
            assert(n < KEY_MAX_CHOICES);
            key->choices[n] = field->words[n];
        }
    } else if (field->type == &TYPE_BOOL) {
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
    const char *expects = field_expects(field, key->expects);
    if (expects != key->expects)
        str_copy(key->expects, sizeof key->expects, str_of(expects));
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
        if (field->type->form == FIELD_SCALAR)
            add_key(steps, n_steps + 1);
        else if (field->type->form == FIELD_NESTED && field->type != &TYPE_SHORT_FORM)
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

const struct key *key_find(struct str name)
{
    const struct key *key;
    for (size_t i = 0; (key = key_at(i)); i++)
        if (str_is(name, key->name))
            return key;
    return NULL;
}

const struct key *key_find_variable(struct str variable)
{
    const struct key *key;
    for (size_t i = 0; (key = key_at(i)); i++)
        if (str_is(variable, key->variable))
            return key;
    return NULL;
}

const struct key *key_find_flag(struct str flag)
{
    const struct key *key;
    for (size_t i = 0; (key = key_at(i)); i++)
        if (str_is(flag, key->flag))
            return key;
    return NULL;
}

const struct field *key_field(const struct key *key)
{
    return key->steps[key->n_steps - 1];
}

const struct table *key_table(const struct key *key)
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
        .expects = key->expects,
        .help = key_field(key)->help,
        .default_text = key_field(key)->default_text,
        .choices = key->choices[0] ? key->choices : NULL,
    };
    return true;
}
