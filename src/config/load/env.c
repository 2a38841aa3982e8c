/* env.c - reads settings from the environment and from `.env`, and those of other systems. */
#include "config/load/layers.h"

#include <stdio.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "config/document/dotenv.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

#define PREFIX "REDRIVE_"

/* Names that begin like settings but are none: the file itself, the server that the command line
 * asks, and the facts that a handler gets about its job. */
static const char *const NOT_SETTINGS[] = {
    "CONFIG",       "SERVER",  "TOKEN_FILE", "CA_FILE", "JOB_ID",   "TASK", "ATTEMPT", "QUEUE",
    "MAX_ATTEMPTS", "PARENTS", "TENANT",     "EPOCH",   "PRIORITY", "USER", "PROJECT", "SERVICE",
};

/* Kubernetes tells every container of the services beside it: one called redrive gives
 * REDRIVE_SERVICE_HOST, REDRIVE_PORT_7070_TCP_ADDR and so on, one called redrive-jobs
 * REDRIVE_JOBS_SERVICE_HOST. No setting begins with SERVICE or PORT. */
static bool is_of_kubernetes(struct str rest)
{
    return str_starts_with(rest, STR("SERVICE_")) || str_starts_with(rest, STR("PORT")) ||
           str_contains(rest, STR("_SERVICE_HOST")) || str_contains(rest, STR("_SERVICE_PORT")) ||
           str_contains(rest, STR("_TCP")) || str_contains(rest, STR("_UDP"));
}

static bool is_not_a_setting(struct str name)
{
    struct str rest = {name.ptr + sizeof PREFIX - 1, name.len - (sizeof PREFIX - 1)};
    for (size_t i = 0; i < sizeof NOT_SETTINGS / sizeof NOT_SETTINGS[0]; i++)
        if (str_is(rest, NOT_SETTINGS[i]))
            return true;
    return is_of_kubernetes(rest);
}

/* ---- Variables of other retry systems -------------------------------------------------------- */

/* Fills keys from a variable; false when its value makes no sense. */
typedef bool env_compat_fn(struct layers *layers, const struct variable *variable);

static bool fill(struct layers *layers, const char *key, const char *value,
                 const struct variable *variable)
{
    return layer_fill(layers, key_find(str_of(key)), value, variable->source, true);
}

static bool parse_seconds(struct str text, int64_t *ret_ms)
{
    double seconds;
    if (!node_parse_number(text, &seconds) || !(seconds >= 0 && seconds <= 1e9))
        return false;
    *ret_ms = (int64_t)(seconds * 1000 + 0.5);
    return true;
}

static bool fill_delay(struct layers *layers, const char *key, int64_t ms,
                       const struct variable *variable)
{
    char text[DURATION_TEXT_MAX];
    return fill(layers, key, duration_format(ms, text), variable);
}

static bool fill_count(struct layers *layers, const char *key, double least, double most,
                       const struct variable *variable)
{
    double number;
    char text[32];
    if (!node_parse_number(variable->value, &number) || number != (double)(int64_t)number ||
        number < 0 || number > most)
        return false;
    snprintf(text, sizeof text, "%.0f", number < least ? least : number);
    fill(layers, key, text, variable);
    return true;
}

/* Programs disagree whether the first run counts; here the name means what it means in the file. */
static bool retries(struct layers *layers, const struct variable *variable)
{
    return fill_count(layers, "retry.max_retries", 0, REDRIVE_MAX_RETRIES, variable);
}

/* No attempts at all still leave the first run. */
static bool attempts(struct layers *layers, const struct variable *variable)
{
    return fill_count(layers, "retry.max_attempts", 1, REDRIVE_MAX_RETRIES + 1, variable);
}

/* These programs know no jitter, and no cap that a single delay of theirs could meet. */
static void fill_schedule(struct layers *layers, const char *strategy, int64_t ms,
                          const struct variable *variable)
{
    struct redrive_policy standard;
    policy_init_queue(&standard);
    if (!fill_delay(layers, "retry.initial_delay", ms, variable))
        return;
    fill(layers, "retry.strategy", strategy, variable);
    fill(layers, "retry.jitter", "none", variable);
    if (ms > standard.backoff.max_delay_ms)
        fill_delay(layers, "retry.max_delay", ms, variable);
}

static bool base_delay(struct layers *layers, const struct variable *variable)
{
    int64_t ms;
    if (!parse_seconds(variable->value, &ms))
        return false;
    fill_schedule(layers, "exponential", ms, variable);
    fill(layers, "retry.multiplier", "2", variable);
    return true;
}

static bool fixed_delay(struct layers *layers, const struct variable *variable)
{
    int64_t ms;
    if (!parse_seconds(variable->value, &ms))
        return false;
    fill_schedule(layers, "fixed", ms, variable);
    return true;
}

static bool max_delay(struct layers *layers, const struct variable *variable)
{
    int64_t ms;
    if (!parse_seconds(variable->value, &ms))
        return false;
    fill_delay(layers, "retry.max_delay", ms, variable);
    return true;
}

/* `postgresql+asyncpg://` names a driver of another language after the plus. */
static bool store_url(struct layers *layers, const struct variable *variable)
{
    struct str url = variable->value;
    const char *plus = memchr(url.ptr, '+', url.len);
    const char *rest = strstr(url.ptr, "://");
    char *text = NULL;

    if (plus && rest && plus < rest)
        text = arena_printf(layers->arena, "%.*s%s", (int)(plus - url.ptr), url.ptr, rest);
    const char *store = text ? text : url.ptr;
    if (!type_store_valid(str_of(store), NULL))
        return false;
    fill(layers, "store", store, variable);
    return true;
}

/* In the order in which they are asked: the first that fills a key has it. */
static const struct {
    const char *name;
    env_compat_fn *apply;
} FOREIGN[] = {
    {"MAX_RETRIES", retries},
    {"MAX_RETRY_ATTEMPTS", attempts},
    {"RETRY_MAX_DELAY", max_delay},
    {"RETRY_BASE_DELAY", base_delay},
    {"RETRY_DELAY_SECONDS", fixed_delay},
    {"DATABASE_URL", store_url},
    {"REDIS_URL", store_url},
};
#define N_FOREIGN (sizeof FOREIGN / sizeof FOREIGN[0])

static bool is_foreign(struct str name)
{
    for (size_t i = 0; i < N_FOREIGN; i++)
        if (str_is(name, FOREIGN[i].name))
            return true;
    return false;
}

/* ---- Gathering ------------------------------------------------------------------------------- */

static void warn_unknown(struct layers *layers, const struct variable *variable)
{
    const struct node where = {.style = NODE_SETTING, .source = variable->source};
    struct redrive_err *warning = bind_warning(layers->binder, &where, "is not a setting");
    err_suggest(warning, key_suggest_variable(variable->name));
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
    if (!key_find_variable(given->name) && !is_foreign(given->name)) {
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
    return value.len > 0 && (str_starts_with(name, STR(PREFIX)) || is_foreign(name));
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
    struct dotenv_entry entry;
    struct redrive_err why;
    char shown[NODE_SHOW_MAX];
    int rc;

    RELEASED_BY(dotenv_release) struct dotenv reader;
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

/* The variable of that name from the last source that has one, or NULL. */
static const struct variable *env_find(const struct variables *variables, const char *name)
{
    const struct variable *best = NULL;
    for (const struct variable *v = variables->first; v; v = v->next)
        if (str_is(v->name, name) && (!best || v->layer > best->layer))
            best = v;
    return best;
}

/* Files of record pipelines name the directory where what is to be retried is kept. */
static void fill_store_by_path(struct layers *layers)
{
    const struct node *paths = layers->root ? node_find(layers->root, STR("paths")) : NULL;
    const struct node *node = paths ? node_find(paths, STR("retry_queue")) : NULL;
    if (!node || node->type != NODE_SCALAR || node->text.len == 0 || node_is_null(node))
        return;
    char where[NODE_WHERE_MAX];
    const char *url =
        arena_printf(layers->arena, "sqlite:%.*s/redrive.db", (int)node->text.len, node->text.ptr);
    const char *source = node->style == NODE_SETTING
                             ? node->source
                             : arena_printf(layers->arena, "%spaths.retry_queue",
                                            node_where(node, node->line, where));
    if (url && source)
        layer_fill(layers, key_find(STR("store")), url, source, false);
}

void env_compat_apply(struct layers *layers, const struct variables *variables)
{
    fill_store_by_path(layers);
    for (size_t i = 0; i < N_FOREIGN; i++) {
        const struct variable *variable = env_find(variables, FOREIGN[i].name);
        if (!variable || FOREIGN[i].apply(layers, variable))
            continue;
        const struct node where = {.style = NODE_SETTING, .source = variable->source};
        bind_warning(layers->binder, &where, "is ignored: it makes no sense as a %s",
                     FOREIGN[i].apply == store_url  ? "store"
                     : FOREIGN[i].apply == retries  ? "number of retries"
                     : FOREIGN[i].apply == attempts ? "number of attempts"
                                                    : "number of seconds");
    }
}
