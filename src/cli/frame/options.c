/* options.c - parses the command line, and makes values of the texts of options. */
#include "cli/frame/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "fields/query.h"

/* ---- Values ---------------------------------------------------------------------------------- */

static int string_read(struct field_reader *r, const struct field *f, void *to)
{
    (void)f;
    *(const char **)to = r->text.ptr;
    return 0;
}

static int strings_read(struct field_reader *r, const struct field *f, void *to)
{
    struct option_strings *list = to;
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    (void)f;
    if (!items)
        return err_nomem(r->err);
    list->items = items;
    list->items[list->n++] = r->text.ptr;
    return 0;
}

const struct field_kind OPTION_STRING = {.name = "string", .read = string_read};
const struct field_kind OPTION_STRINGS = {.name = "strings", .read = strings_read, .is_list = true};

/* With a variable that is not set, `--tenant "$TENANT"` must not mean every tenant. */
static int value_is_empty(struct field_reader *r, const struct field *f)
{
    int rc = field_wrong(r, f, REDRIVE_E_INVALID, "is empty");
    err_hint(r->err, FIELD_EMPTY_HINT);
    return rc;
}

int option_store(const struct field *option, void *values, const char *label, const char *text,
                 struct redrive_err *err)
{
    struct field named = *option;
    struct field_reader r;
    named.name = label;
    fields_query_open(&r, 0, NULL, 0, err);
    r.text = str_of(text);
    assert(!option->kind->is_json);
    int rc = 0;
    if (!*text && option->kind != &OPTION_STRINGS)
        rc = value_is_empty(&r, &named);
    else if (option->sets)
        rc = fields_check_text(option->sets, label, r.text, err);
    if (rc == 0)
        rc = option->kind->read(&r, &named, (char *)values + option->offset);
    if (rc == 0 || rc == REDRIVE_E_NOMEM)
        return rc;
    if (err)
        err->code = REDRIVE_E_USAGE;
    return REDRIVE_E_USAGE;
}

/* Sets a zeroed struct to the defaults of a table. A default that does not parse is a bug. */
static void store_defaults(const struct field *table, void *values)
{
    for (const struct field *o = table; o && o->name; o++) {
        if (o->kind == &FIELD_WORD)
            *(int *)((char *)values + o->offset) = -1;
        if (!o->default_text)
            continue;
        assert(o->kind != &FIELD_BOOL && o->kind != &OPTION_STRINGS);
        int rc = option_store(o, values, o->name, o->default_text, NULL);
        assert(rc == 0);
        (void)rc;
    }
}

/* Frees what storing has allocated. */
static void release_values(const struct field *table, void *values)
{
    for (const struct field *o = table; values && o && o->name; o++)
        if (o->kind == &OPTION_STRINGS)
            free(((struct option_strings *)((char *)values + o->offset))->items);
}

/* ---- The command line ------------------------------------------------------------------------ */

/* How the user wrote an option, for messages. */
#define LABEL_MAX 96

/* The command line while it is read. */
struct reader {
    struct invocation *inv;
    const char *const *words;
    size_t n_words;
    size_t next; /* the word to be read next */
    bool options_ended;
};

/* A row and the struct its value goes to. */
struct target {
    const struct field *option;
    size_t level;
};

static int enter_command(struct invocation *inv, struct redrive_err *err)
{
    size_t level = inv->path.depth - 1;
    const struct command *command = command_path_last(&inv->path);
    if (command->options_size == 0)
        return 0;
    inv->values[level] = calloc(1, command->options_size);
    if (!inv->values[level])
        return err_nomem(err);
    store_defaults(command->options, inv->values[level]);
    return 0;
}

/* Looks from the command up to the root, so that the nearest meaning counts. */
static bool find_long(const struct invocation *inv, struct str name, struct target *ret,
                      bool *ret_negated)
{
    for (size_t level = inv->path.depth; level-- > 0;) {
        const struct field *table = inv->path.at[level]->options;
        const struct field *o = option_find(table, name);
        *ret_negated = !o;
        if (!o)
            o = option_find_negated(table, name);
        *ret = (struct target){o, level};
        if (o)
            return true;
    }
    return false;
}

static bool find_letter(const struct invocation *inv, char letter, struct target *ret)
{
    for (size_t level = inv->path.depth; level-- > 0;) {
        const struct field *o = option_find_letter(inv->path.at[level]->options, letter);
        *ret = (struct target){o, level};
        if (o)
            return true;
    }
    return false;
}

/* ---- Unknown options ------------------------------------------------------------------------- */

/* The path to a command below `path` that has the option, if there is one. */
static bool find_below(struct command_path *path, struct str name)
{
    const struct command *here = command_path_last(path);
    for (const struct command *const *c = here->commands; c && *c; c++) {
        if ((*c)->hidden)
            continue;
        command_path_push(path, *c);
        if (option_find((*c)->options, name) || find_below(path, name))
            return true;
        path->depth--;
    }
    return false;
}

static int unknown_long(const struct invocation *inv, struct str name, struct redrive_err *err)
{
    struct command_path below = inv->path;
    char command_name[COMMAND_NAME_MAX], text[LABEL_MAX];

    snprintf(text, sizeof text, "--%.*s", (int)name.len, name.ptr);
    err_set(err, REDRIVE_E_USAGE, "unknown option %s", text);
    if (find_below(&below, name)) {
        err_hint(err, "%s belongs to '%s': write it after the command", text,
                 command_path_name(&below, command_name));
        return REDRIVE_E_USAGE;
    }
    struct words words = WORDS_INIT;
    for (size_t level = inv->path.depth; level-- > 0;)
        option_words(inv->path.at[level]->options, &words);
    option_source_words(inv->source, command_path_last(&inv->path), &words);
    const char *meant = words_nearest(&words, name);
    if (meant)
        err_hint(err, "did you mean --%s?", meant);
    else
        err_hint(err, "run '%s --help' to see the options",
                 command_path_name(&inv->path, command_name));
    words_release(&words);
    return REDRIVE_E_USAGE;
}

static int unknown_short(const struct invocation *inv, char letter, const char *word,
                         struct redrive_err *err)
{
    struct target t;
    bool negated;

    err_set(err, REDRIVE_E_USAGE, "unknown option -%c", letter);
    if (word[2] != '\0')
        err_detail(err, "in '%s'", word);
    if (find_long(inv, str_of(word + 1), &t, &negated))
        err_hint(err, "did you mean -%s?", word);
    else
        err_hint(err, "write '--' before '%s' if it is an argument", word);
    return REDRIVE_E_USAGE;
}

/* ---- Options --------------------------------------------------------------------------------- */

static void note_given(struct invocation *inv, struct target t)
{
    size_t row = (size_t)(t.option - inv->path.at[t.level]->options);
    assert(row < 64);
    inv->given[t.level] |= UINT64_C(1) << row;
}

static int store(struct invocation *inv, struct target t, const char *label, const char *value,
                 struct redrive_err *err)
{
    int rc = option_store(t.option, inv->values[t.level], label, value, err);
    if (rc == 0)
        note_given(inv, t);
    return rc;
}

static void store_flag(struct invocation *inv, struct target t, bool value)
{
    *(bool *)((char *)inv->values[t.level] + t.option->offset) = value;
    note_given(inv, t);
}

static int next_value(struct reader *r, const char *label, const char *placeholder,
                      const char **ret, struct redrive_err *err)
{
    if (r->next == r->n_words) {
        err_set(err, REDRIVE_E_USAGE, "%s needs a value", label);
        err_hint(err, "write %s %s", label, placeholder ? placeholder : "VALUE");
        return REDRIVE_E_USAGE;
    }
    *ret = r->words[r->next++];
    return 0;
}

/* What is wrong with the value of an option: `why`, with the option in front. */
static int option_error(const char *label, int code, const struct redrive_err *why,
                        struct redrive_err *err)
{
    err_set(err, code, "%s: %s", label, why->message);
    err_detail(err, "%s", why->detail);
    err_hint(err, "%s", why->hint);
    return code;
}

/* An option that is in no table: one of the source, or an unknown one. */
static int read_foreign(struct reader *r, struct str name, const char *value,
                        struct redrive_err *err)
{
    const struct option_source *source = r->inv->source;
    struct redrive_err why = {0};
    struct field o;
    char label[LABEL_MAX];

    if (!option_source_find(source, name, &o))
        return unknown_long(r->inv, name, err);
    snprintf(label, sizeof label, "--%.*s", (int)name.len, name.ptr);
    if (!value) {
        int rc = next_value(r, label, o.placeholder, &value, err);
        if (rc < 0)
            return rc;
    }
    r->inv->foreign[r->inv->n_foreign++] = name;
    int rc = source->set(source->ctx, name, value, &why);
    return rc < 0 ? option_error(label, rc, &why, err) : 0;
}

static int read_long(struct reader *r, const char *word, struct redrive_err *err)
{
    const char *equals = strchr(word, '=');
    const char *value = equals ? equals + 1 : NULL;
    struct str name = {word + 2, equals ? (size_t)(equals - word - 2) : strlen(word + 2)};
    struct target t;
    bool negated;
    char label[LABEL_MAX];

    if (!find_long(r->inv, name, &t, &negated))
        return read_foreign(r, name, value, err);
    snprintf(label, sizeof label, "--%.*s", (int)name.len, name.ptr);
    if (t.option->kind == &FIELD_BOOL) {
        if (value)
            return err_set(err, REDRIVE_E_USAGE, "%s takes no value", label);
        store_flag(r->inv, t, !negated);
        return 0;
    }
    if (!value) {
        int rc = next_value(r, label, t.option->placeholder, &value, err);
        if (rc < 0)
            return rc;
    }
    return store(r->inv, t, label, value, err);
}

/* A word of letters: flags, of which the last may take a value instead, from the rest of the word
 * or from the next one. */
static int read_short(struct reader *r, const char *word, struct redrive_err *err)
{
    for (const char *at = word + 1; *at; at++) {
        const char label[] = {'-', *at, '\0'};
        const char *value = at[1] ? at + 1 : NULL;
        struct target t;
        int rc = 0;

        if (!find_letter(r->inv, *at, &t))
            return unknown_short(r->inv, *at, word, err);
        if (t.option->kind == &FIELD_BOOL) {
            store_flag(r->inv, t, true);
            continue;
        }
        if (!value)
            rc = next_value(r, label, t.option->placeholder, &value, err);
        return rc < 0 ? rc : store(r->inv, t, label, value, err);
    }
    return 0;
}

/* ---- The line -------------------------------------------------------------------------------- */

static int read_word(struct reader *r, struct redrive_err *err)
{
    struct invocation *inv = r->inv;
    const char *word = r->words[r->next++];

    if (!r->options_ended && word[0] == '-' && word[1] != '\0') {
        if (word[1] != '-')
            return read_short(r, word, err);
        if (word[2] != '\0')
            return read_long(r, word, err);
        r->options_ended = true;
        return 0;
    }
    if (command_path_last(&inv->path)->commands) {
        int rc = command_path_descend(&inv->path, word, err);
        return rc < 0 ? rc : enter_command(inv, err);
    }
    inv->args[inv->n_args++] = word;
    return 0;
}

int invocation_parse(struct invocation *inv, const struct command *root,
                     const struct option_source *source, const char *const *words, size_t n_words,
                     struct redrive_err *err)
{
    struct reader r = {.inv = inv, .words = words, .n_words = n_words};

    *inv = (struct invocation){.source = source, .path = {.at = {root}, .depth = 1}};
    inv->args = calloc(n_words + 1, sizeof *inv->args);
    inv->foreign = calloc(n_words + 1, sizeof *inv->foreign);
    if (!inv->args || !inv->foreign)
        return err_nomem(err);
    int rc = enter_command(inv, err);
    while (rc == 0 && r.next < r.n_words)
        rc = read_word(&r, err);
    return rc;
}

void invocation_release(struct invocation *inv)
{
    for (size_t i = 0; i < inv->path.depth; i++) {
        release_values(inv->path.at[i]->options, inv->values[i]);
        free(inv->values[i]);
    }
    free(inv->args);
    free(inv->foreign);
    *inv = (struct invocation){0};
}

int invocation_check(const struct invocation *inv, struct redrive_err *err)
{
    const struct command *command = command_path_last(&inv->path);
    char text[COMMAND_USAGE_MAX];
    struct argument a;

    if (command->commands) {
        command_path_name(&inv->path, text);
        if (inv->path.depth == 1)
            err_set(err, REDRIVE_E_USAGE, "no command given");
        else
            err_set(err, REDRIVE_E_USAGE, "'%s' needs a command", text);
        err_hint(err, "run '%s --help' to see its commands", text);
        return REDRIVE_E_USAGE;
    }
    if (inv->n_args > 0 && !command_argument(command, inv->n_args - 1, &a)) {
        size_t extra = 0;
        while (command_argument(command, extra, &a))
            extra++;
        err_set(err, REDRIVE_E_USAGE, "unexpected argument '%s'", inv->args[extra]);
    } else if (command_argument(command, inv->n_args, &a) && a.required) {
        err_set(err, REDRIVE_E_USAGE, "missing argument %.*s", (int)a.name.len, a.name.ptr);
    } else {
        return 0;
    }
    err_detail(err, "usage: %s", command_path_usage(&inv->path, text));
    return REDRIVE_E_USAGE;
}

const void *invocation_options(const struct invocation *inv)
{
    return inv->values[inv->path.depth - 1];
}

/* Where the option is, the command's own first: its level, or -1; *ret is its row. */
static int find_level(const struct invocation *inv, const char *name, const struct field **ret)
{
    int level = (int)inv->path.depth - 1;
    while (level >= 0 && !(*ret = option_find(inv->path.at[level]->options, str_of(name))))
        level--;
    return level;
}

static bool is_given(const struct invocation *inv, int level, const struct field *option)
{
    return inv->given[level] >> (option - inv->path.at[level]->options) & 1;
}

bool invocation_given(const struct invocation *inv, const char *name)
{
    const struct field *option;
    const int level = find_level(inv, name, &option);
    assert(level >= 0);
    return is_given(inv, level, option);
}

const char *invocation_text(const struct invocation *inv, const char *name)
{
    const struct field *option;
    const int level = find_level(inv, name, &option);
    if (level < 0 || option->kind != &OPTION_STRING || !is_given(inv, level, option))
        return NULL;
    return *(const char *const *)(const void *)((const char *)inv->values[level] + option->offset);
}
