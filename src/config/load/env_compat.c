/* env_compat.c - the variables of other retry systems, one function for each. */
#include "config/load/env_compat.h"

#include <stdio.h>

#include "base/err.h"
#include "base/time/duration.h"
#include "config/load/env.h"
#include "config/schema/types.h"
#include "core/retry/policy.h"

/* Fills keys from a variable; false when its value makes no sense. */
typedef bool env_compat_fn(struct layers *layers, const struct variable *variable);

static bool fill(struct layers *layers, const char *key, const char *value,
                 const struct variable *variable)
{
    return layer_fill(layers, key_find(str_of(key)), value, variable->source);
}

static bool parse_seconds(struct str text, int64_t *ret_ms)
{
    double seconds;
    if (!type_parse_number(text, &seconds) || !(seconds >= 0 && seconds <= 1e9))
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

static bool attempts(struct layers *layers, const struct variable *variable)
{
    double number;
    char text[32];
    if (!type_parse_number(variable->value, &number) || number != (double)(int64_t)number ||
        number < 0 || number > REDRIVE_MAX_RETRIES + 1)
        return false;
    /* No retries at all still leaves the first run. */
    snprintf(text, sizeof text, "%.0f", number < 1 ? 1 : number);
    fill(layers, "retry.max_attempts", text, variable);
    return true;
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
    {"MAX_RETRIES", attempts},
    {"MAX_RETRY_ATTEMPTS", attempts},
    {"RETRY_MAX_DELAY", max_delay},
    {"RETRY_BASE_DELAY", base_delay},
    {"RETRY_DELAY_SECONDS", fixed_delay},
    {"DATABASE_URL", store_url},
    {"REDIS_URL", store_url},
};
#define N_FOREIGN (sizeof FOREIGN / sizeof FOREIGN[0])

bool env_compat_known(struct str name)
{
    for (size_t i = 0; i < N_FOREIGN; i++)
        if (str_is(name, FOREIGN[i].name))
            return true;
    return false;
}

/* Files of record pipelines name the directory where what is to be retried is kept. */
static void fill_store_by_path(struct layers *layers)
{
    const struct node *paths = layers->root ? node_find(layers->root, STR("paths")) : NULL;
    const struct node *node = paths ? node_find(paths, STR("retry_queue")) : NULL;
    if (!node || node->type != NODE_SCALAR || node->text.len == 0 || node_is_null(node))
        return;
    const char *url =
        arena_printf(layers->arena, "sqlite:%.*s/redrive.db", (int)node->text.len, node->text.ptr);
    if (url)
        layer_fill(layers, key_find(STR("store")), url, node->source);
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
                     : FOREIGN[i].apply == attempts ? "number of attempts"
                                                    : "number of seconds");
    }
}
