/* command.c - looks up commands and options in the tables. */
#include "cli/frame/command.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/str.h"

/* ---- Words ----------------------------------------------------------------------------------- */

void words_release(struct words *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->items[i]);
    free(w->items);
    *w = (struct words)WORDS_INIT;
}

void words_add(struct words *w, const char *prefix, struct str word)
{
    if (w->n == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 32;
        char **items = realloc(w->items, capacity * sizeof *items);
        if (!items)
            return;
        w->items = items;
        w->capacity = capacity;
    }
    char *copy;
    if (asprintf(&copy, "%s%.*s", prefix, (int)word.len, word.ptr) >= 0)
        w->items[w->n++] = copy;
}

const char *words_nearest(const struct words *w, struct str given)
{
    return suggest(given, (const char *const *)w->items, w->n);
}

void words_hint(struct words *w, const char *given, const char *otherwise, struct redrive_err *err)
{
    const char *nearest = words_nearest(w, str_of(given));
    if (nearest)
        err_suggest(err, nearest);
    else
        err_hint(err, "%s", otherwise);
    words_release(w);
}

/* ---- Options --------------------------------------------------------------------------------- */

const struct field *option_find(const struct field *table, struct str name)
{
    for (const struct field *o = table; o && o->name; o++)
        if (str_is(name, o->name))
            return o;
    return NULL;
}

const struct field *option_find_letter(const struct field *table, char letter)
{
    for (const struct field *o = table; o && o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

const struct field *option_find_negated(const struct field *table, struct str name)
{
    const struct str no = STR("no-");
    if (!str_starts_with(name, no))
        return NULL;
    const struct field *o = option_find(table, (struct str){name.ptr + no.len, name.len - no.len});
    return o && o->negatable ? o : NULL;
}

void option_words(const struct field *table, struct words *out)
{
    for (const struct field *o = table; o && o->name; o++) {
        words_add(out, "", str_of(o->name));
        if (o->negatable)
            words_add(out, "no-", str_of(o->name));
    }
}

bool option_source_find(const struct option_source *source, struct str name, struct field *ret)
{
    if (!source || !source->known(source->ctx, name))
        return false;
    for (size_t i = 0;; i++) {
        *ret = (struct field){.kind = &OPTION_STRING};
        if (!source->enumerate(source->ctx, i, ret))
            return false;
        if (str_is(name, ret->name))
            return true;
    }
}

void option_source_words(const struct option_source *source, const struct command *command,
                         struct words *out)
{
    struct field o = {0};
    for (size_t i = 0; source && source->enumerate(source->ctx, i, &o); i++)
        if (!source->counts || command->commands ||
            source->counts(source->ctx, str_of(o.name), command))
            words_add(out, "", str_of(o.name));
}

/* ---- Commands -------------------------------------------------------------------------------- */

static const struct command *find_command(const struct command *parent, struct str name)
{
    for (const struct command *const *c = parent->commands; c && *c; c++)
        if (str_is(name, (*c)->name))
            return *c;
    return NULL;
}

void command_words(const struct command *parent, struct words *out)
{
    for (const struct command *const *c = parent->commands; c && *c; c++)
        if (!(*c)->hidden)
            words_add(out, "", str_of((*c)->name));
}

const struct command *command_path_last(const struct command_path *path)
{
    return path->at[path->depth - 1];
}

void command_path_push(struct command_path *path, const struct command *command)
{
    assert(path->depth < COMMAND_DEPTH_MAX);
    path->at[path->depth++] = command;
}

int command_path_descend(struct command_path *path, const char *word, struct redrive_err *err)
{
    const struct command *parent = command_path_last(path);
    const struct command *found = find_command(parent, str_of(word));
    char name[COMMAND_NAME_MAX];

    if (found) {
        command_path_push(path, found);
        return 0;
    }
    command_path_name(path, name);
    if (!parent->commands) {
        err_set(err, REDRIVE_E_USAGE, "'%s' has no commands below it", name);
        err_detail(err, "so there is no '%s %s'", name, word);
        return REDRIVE_E_USAGE;
    }
    struct words words = WORDS_INIT;
    command_words(parent, &words);
    const char *meant = words_nearest(&words, str_of(word));
    if (path->depth == 1)
        err_set(err, REDRIVE_E_USAGE, "unknown command '%s'", word);
    else
        err_set(err, REDRIVE_E_USAGE, "unknown command '%s' of '%s'", word, name);
    if (meant)
        err_hint(err, "did you mean '%s %s'?", name, meant);
    else
        err_hint(err, "run '%s --help' to see its commands", name);
    words_release(&words);
    return REDRIVE_E_USAGE;
}

const char *command_path_name(const struct command_path *path, char out[COMMAND_NAME_MAX])
{
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < path->depth && len < COMMAND_NAME_MAX; i++)
        len += (size_t)snprintf(out + len, COMMAND_NAME_MAX - len, "%s%s", i ? " " : "",
                                path->at[i]->name);
    return out;
}

const char *command_path_usage(const struct command_path *path, char out[COMMAND_USAGE_MAX])
{
    const struct command *command = command_path_last(path);
    const char *arguments = command->commands ? "COMMAND" : command->arguments;
    char name[COMMAND_NAME_MAX];

    /* "COMMAND" brings arguments of its own; saying so once, on the first level, is enough. */
    if (path->depth == 1 && command->commands)
        arguments = "COMMAND [ARGUMENTS]";
    snprintf(out, COMMAND_USAGE_MAX, "%s [OPTIONS]%s%s", command_path_name(path, name),
             arguments ? " " : "", arguments ? arguments : "");
    return out;
}

/* Reads one word of the text: `NAME`, `[NAME]`, `NAME...` or `[NAME...]`. */
static struct argument read_argument(struct str word)
{
    struct argument a = {.required = true};
    if (word.ptr[0] == '[') {
        a.required = false;
        word.ptr++;
        word.len -= word.ptr[word.len - 2] == ']' ? 2 : 1;
    }
    if (word.len > 3 && memcmp(word.ptr + word.len - 3, "...", 3) == 0) {
        a.repeated = true;
        word.len -= 3;
    }
    a.name = word;
    return a;
}

bool command_argument(const struct command *command, size_t index, struct argument *ret)
{
    const char *at = command->arguments ? command->arguments : "";
    for (size_t i = 0; *at; i++) {
        size_t len = strcspn(at, " ");
        struct argument a = read_argument((struct str){at, len});
        if (i == index || a.repeated) {
            *ret = a;
            ret->required = a.required && i == index;
            return true;
        }
        at += len;
        at += strspn(at, " ");
    }
    return false;
}
