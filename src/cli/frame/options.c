/* options.c - parses the command line, and makes values of the texts of options. */
#include "cli/frame/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/time/duration.h"

/* ---- Values ---------------------------------------------------------------------------------- */

/* Space for a list of choices in an error. */
#define LIST_MAX 200

int option_error(const char *label, int code, const struct redrive_err *why,
                 struct redrive_err *err)
{
    err_set(err, code, "%s: %s", label, why->message);
    err_detail(err, "%s", why->detail);
    err_hint(err, "%s", why->hint);
    return code;
}

/* How a bound is written: a plain number, or a duration. */
static void add_bound(struct buf *out, const struct option *o, int64_t value)
{
    char text[DURATION_TEXT_MAX];
    if (o->type == OPTION_DURATION)
        buf_puts(out, duration_format(value, text));
    else
        buf_printf(out, "%" PRId64, value);
}

static int out_of_range(const struct option *o, const char *label, const char *text,
                        struct redrive_err *err)
{
    RELEASED_BY(buf_release) struct buf range = BUF_MAX(256);
    if (o->type == OPTION_DOUBLE) {
        buf_printf(&range, "from %g to %g", o->min_double, o->max_double);
    } else if (o->max == INT64_MAX) {
        buf_puts(&range, "at least ");
        add_bound(&range, o, o->min);
    } else {
        buf_puts(&range, "from ");
        add_bound(&range, o, o->min);
        buf_puts(&range, " to ");
        add_bound(&range, o, o->max);
    }
    err_set(err, REDRIVE_E_USAGE, "%s: %s is out of range", label, text);
    err_detail(err, "it must be %s", buf_cstr(&range));
    return REDRIVE_E_USAGE;
}

static bool is_bounded(const struct option *o)
{
    return o->min != 0 || o->max != 0;
}

static int store_int(const struct option *o, int64_t *ret, const char *label, const char *text,
                     struct redrive_err *err)
{
    /* strtoll would skip space and take a plus; a script that passes those has a mistake. */
    size_t digits = strspn(text + (text[0] == '-'), "0123456789");
    if (digits == 0 || text[(text[0] == '-') + digits] != '\0')
        return err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not a whole number", label, text);
    errno = 0;
    long long value = strtoll(text, NULL, 10);
    if (errno == ERANGE && !is_bounded(o))
        return err_set(err, REDRIVE_E_USAGE, "%s: %s is too large a number", label, text);
    if (errno == ERANGE || (is_bounded(o) && (value < o->min || value > o->max)))
        return out_of_range(o, label, text, err);
    *ret = value;
    return 0;
}

static int store_double(const struct option *o, double *ret, const char *label, const char *text,
                        struct redrive_err *err)
{
    char *end = NULL;
    bool plain = text[0] != '\0' && text[strspn(text, "0123456789+-.eE")] == '\0';
    double value = plain ? strtod(text, &end) : 0;
    if (!plain || end == text || *end != '\0' || text[0] == '+')
        return err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not a number", label, text);
    bool bounded = o->min_double != 0 || o->max_double != 0;
    if (bounded && (value < o->min_double || value > o->max_double))
        return out_of_range(o, label, text, err);
    if (!isfinite(value))
        return err_set(err, REDRIVE_E_USAGE, "%s: %s is too large a number", label, text);
    *ret = value;
    return 0;
}

static int store_duration(const struct option *o, int64_t *ret, const char *label, const char *text,
                          struct redrive_err *err)
{
    struct redrive_err why = {0};
    int64_t ms = 0;
    if (duration_parse(str_of(text), &ms, &why) < 0)
        return option_error(label, REDRIVE_E_USAGE, &why, err);
    if (is_bounded(o) && (ms < o->min || ms > o->max))
        return out_of_range(o, label, text, err);
    *ret = ms;
    return 0;
}

static int store_choice(const struct option *o, int *ret, const char *label, const char *text,
                        struct redrive_err *err)
{
    struct words words = WORDS_INIT;

    for (int i = 0; o->choices[i]; i++) {
        if (strcmp(o->choices[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    RELEASED_BY(buf_release) struct buf list = BUF_MAX(LIST_MAX);
    for (int i = 0; o->choices[i]; i++) {
        words_add(&words, "", str_of(o->choices[i]));
        buf_printf(&list, "%s%s", i ? ", " : "", o->choices[i]);
    }
    err_set(err, REDRIVE_E_USAGE, "%s: '%s' is not one of its values", label, text);
    err_detail(err, "it takes %s", buf_cstr(&list));
    const char *meant = words_nearest(&words, str_of(text));
    if (meant)
        err_hint(err, "did you mean %s?", meant);
    words_release(&words);
    return REDRIVE_E_USAGE;
}

/* With a variable that is not set, `--tenant "$TENANT"` must not mean every tenant. */
static int store_string(const char **into, const char *label, const char *text,
                        struct redrive_err *err)
{
    *into = text;
    if (*text)
        return 0;
    err_set(err, REDRIVE_E_USAGE, "%s: the value is empty", label);
    err_hint(err, "leave the option away, or look at the variable it came from");
    return REDRIVE_E_USAGE;
}

static int store_another(struct option_strings *list, const char *text, struct redrive_err *err)
{
    const char **items = realloc(list->items, (list->n + 1) * sizeof *items);
    if (!items)
        return err_nomem(err);
    list->items = items;
    list->items[list->n++] = text;
    return 0;
}

int option_store(const struct option *o, void *values, const char *label, const char *text,
                 struct redrive_err *err)
{
    void *into = (char *)values + o->offset;
    switch (o->type) {
    case OPTION_FLAG: *(bool *)into = true; return 0;
    case OPTION_STRING: return store_string(into, label, text, err);
    case OPTION_INT: return store_int(o, into, label, text, err);
    case OPTION_DOUBLE: return store_double(o, into, label, text, err);
    case OPTION_DURATION: return store_duration(o, into, label, text, err);
    case OPTION_CHOICE: return store_choice(o, into, label, text, err);
    case OPTION_STRINGS: return store_another(into, text, err);
    }
    return err_set(err, REDRIVE_E_INTERNAL, "%s: unknown type of option", label);
}

/* Sets a zeroed struct to the defaults of a table. A default that does not parse is a bug. */
static void store_defaults(const struct option *table, void *values)
{
    for (const struct option *o = table; o && o->name; o++) {
        if (o->type == OPTION_CHOICE)
            *(int *)((char *)values + o->offset) = -1;
        if (!o->default_text)
            continue;
        assert(o->type != OPTION_FLAG && o->type != OPTION_STRINGS);
        int rc = option_store(o, values, o->name, o->default_text, NULL);
        assert(rc == 0);
        (void)rc;
    }
}

/* Frees what storing has allocated. */
static void release_values(const struct option *table, void *values)
{
    for (const struct option *o = table; values && o && o->name; o++)
        if (o->type == OPTION_STRINGS)
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
    const struct option *option;
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
        const struct option *table = inv->path.at[level]->options;
        const struct option *o = option_find(table, name);
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
        const struct option *o = option_find_letter(inv->path.at[level]->options, letter);
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

/* An option that is in no table: one of the source, or an unknown one. */
static int read_foreign(struct reader *r, struct str name, const char *value,
                        struct redrive_err *err)
{
    const struct option_source *source = r->inv->source;
    struct redrive_err why = {0};
    struct option o;
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
    if (t.option->type == OPTION_FLAG) {
        if (value)
            return err_set(err, REDRIVE_E_USAGE, "%s takes no value", label);
        *(bool *)((char *)r->inv->values[t.level] + t.option->offset) = !negated;
        note_given(r->inv, t);
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
        bool takes_value = t.option->type != OPTION_FLAG;
        if (takes_value && !value)
            rc = next_value(r, label, t.option->placeholder, &value, err);
        if (rc == 0)
            rc = store(r->inv, t, label, value, err);
        if (rc < 0 || takes_value)
            return rc;
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
static int find_level(const struct invocation *inv, const char *name, const struct option **ret)
{
    int level = (int)inv->path.depth - 1;
    while (level >= 0 && !(*ret = option_find(inv->path.at[level]->options, str_of(name))))
        level--;
    return level;
}

static bool is_given(const struct invocation *inv, int level, const struct option *option)
{
    return inv->given[level] >> (option - inv->path.at[level]->options) & 1;
}

bool invocation_given(const struct invocation *inv, const char *name)
{
    const struct option *option;
    const int level = find_level(inv, name, &option);
    assert(level >= 0);
    return is_given(inv, level, option);
}

const char *invocation_text(const struct invocation *inv, const char *name)
{
    const struct option *option;
    const int level = find_level(inv, name, &option);
    if (level < 0 || option->type != OPTION_STRING || !is_given(inv, level, option))
        return NULL;
    return *(const char *const *)(const void *)((const char *)inv->values[level] + option->offset);
}
