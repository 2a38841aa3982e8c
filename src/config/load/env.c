/* env.c - reads settings from the environment and from `.env`. */
#include "config/load/env.h"

#include "base/err.h"
#include "config/document/dotenv.h"
#include "config/load/env_compat.h"

#define PREFIX "REDRIVE_"

/* Names that begin like settings but are none: the file itself, and the facts that a handler gets
 * about its job. */
static const char *const NOT_SETTINGS[] = {
    "CONFIG", "JOB_ID",   "TASK", "ATTEMPT", "MAX_ATTEMPTS", "QUEUE",
    "TENANT", "PRIORITY", "USER", "PROJECT", "SERVICE",      "EPOCH",
};

static bool is_not_a_setting(struct str name)
{
    struct str rest = {name.ptr + sizeof PREFIX - 1, name.len - (sizeof PREFIX - 1)};
    for (size_t i = 0; i < sizeof NOT_SETTINGS / sizeof NOT_SETTINGS[0]; i++)
        if (str_is(rest, NOT_SETTINGS[i]))
            return true;
    return false;
}

const struct variable *env_find(const struct variables *variables, const char *name)
{
    const struct variable *best = NULL;
    for (const struct variable *v = variables->first; v; v = v->next)
        if (str_is(v->name, name) && (!best || v->layer > best->layer))
            best = v;
    return best;
}

/* ---- Gathering ------------------------------------------------------------------------------- */

static void warn_unknown(struct layers *layers, const struct variable *variable)
{
    const struct node where = {.style = NODE_SETTING, .source = variable->source};
    struct redrive_err *warning = bind_warning(layers->binder, &where, "is not a setting");
    const char *nearest = key_suggest_variable(variable->name);
    if (nearest)
        err_hint(warning, "did you mean '%s'?", nearest);
}

static const struct variable *find_same(const struct variables *variables,
                                        const struct variable *given)
{
    for (const struct variable *v = variables->first; v; v = v->next)
        if (v->layer == given->layer && str_eq(v->name, given->name))
            return v;
    return NULL;
}

/* Keeps a variable that is a setting. At most one of a name and layer is kept, and there are only
 * so many names, so the list stays short whatever it is fed. */
static void gather(struct layers *layers, const struct variable *given, struct variables *variables)
{
    if (!key_find_variable(given->name) && !env_compat_known(given->name)) {
        if (!is_not_a_setting(given->name))
            warn_unknown(layers, given);
        return;
    }
    const struct variable *same = find_same(variables, given);
    if (same) {
        const struct node where = {.style = NODE_SETTING, .source = given->source};
        err_detail(bind_error(layers->binder, &where, "is given twice"), "first at %s",
                   same->source);
        return;
    }
    struct variable *variable = arena_alloc(layers->arena, sizeof *variable);
    if (!variable)
        return;
    *variable = *given;
    variable->name.ptr = arena_dup(layers->arena, given->name);
    variable->value.ptr = arena_dup(layers->arena, given->value);
    if (!variable->name.ptr || !variable->value.ptr)
        return;
    variable->next = variables->first;
    variables->first = variable;
}

static bool may_matter(struct str name, struct str value)
{
    return value.len > 0 && (str_starts_with(name, STR(PREFIX)) || env_compat_known(name));
}

/* For messages, and as short as they are. */
static const char *show_name(struct str name, char out[NODE_SHOW_MAX])
{
    node_show(name, out);
    out[strlen(out) - 1] = '\0';
    return out + 1;
}

void env_gather(struct layers *layers, char *const *environ, struct variables *variables)
{
    for (; environ && *environ; environ++) {
        const char *equals = strchr(*environ, '=');
        struct variable given = {.layer = LAYER_ENVIRONMENT};
        char shown[NODE_SHOW_MAX];
        if (!equals)
            continue;
        given.name = (struct str){*environ, (size_t)(equals - *environ)};
        given.value = str_of(equals + 1);
        if (!may_matter(given.name, given.value))
            continue;
        given.source = arena_dup(layers->arena, str_of(show_name(given.name, shown)));
        if (given.source)
            gather(layers, &given, variables);
    }
}

void env_gather_dotenv(struct layers *layers, struct str text, const char *name,
                       struct variables *variables)
{
    struct dotenv reader;
    struct dotenv_entry entry;
    struct redrive_err why;
    char shown[NODE_SHOW_MAX];
    int rc;

    dotenv_init(&reader, text);
    while ((rc = dotenv_next(&reader, &entry, &why)) != 0) {
        struct variable given = {.layer = LAYER_DOTENV};
        if (rc < 0) {
            given.source = arena_printf(layers->arena, "%s:%u", name, reader.line);
            const struct node where = {.style = NODE_SETTING, .source = given.source};
            if (given.source)
                bind_error_from(layers->binder, &where, &why);
        } else if (may_matter(entry.name, entry.value)) {
            given.name = entry.name;
            given.value = entry.value;
            given.source = arena_printf(layers->arena, "%s:%u: %s", name, entry.line,
                                        show_name(entry.name, shown));
            if (given.source)
                gather(layers, &given, variables);
        }
    }
    dotenv_release(&reader);
}

/* ---- Applying -------------------------------------------------------------------------------- */

void env_apply(struct layers *layers, const struct variables *variables)
{
    static const enum layer RISING[] = {LAYER_DOTENV, LAYER_ENVIRONMENT};
    for (size_t i = 0; i < sizeof RISING / sizeof RISING[0]; i++) {
        for (const struct variable *v = variables->first; v; v = v->next) {
            const struct key *key = key_find_variable(v->name);
            if (key && v->layer == RISING[i])
                layer_set(layers, key, v->layer, v->value, v->source);
        }
    }
}
