/* store.c - which store a URL means, checks of counts, durability in words. */
#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text/str.h"

static const struct store_ops *const STORES[] = {
    &STORE_MEMORY, &STORE_REDIS, &STORE_REDIS_TLS, &STORE_SQLITE, &STORE_POSTGRES, &STORE_SHARDS,
};
#define N_STORES (sizeof STORES / sizeof STORES[0])

static int unknown_scheme(struct str scheme, struct redrive_err *err)
{
    const char *names[N_STORES];
    char list[128] = "";
    size_t len = 0;
    for (size_t i = 0; i < N_STORES; i++) {
        names[i] = STORES[i]->scheme;
        int added = snprintf(list + len, sizeof list - len, "%s%s:", len ? ", " : "", names[i]);
        if (added > 0 && (size_t)added < sizeof list - len)
            len += (size_t)added;
    }
    err_set(err, REDRIVE_E_UNKNOWN, "there is no store '%.*s'", (int)scheme.len, scheme.ptr);
    err_detail(err, "stores are %s", list);
    const char *nearest = suggest(scheme, names, N_STORES);
    if (nearest)
        err_hint(err, "did you mean '%s:'?", nearest);
    return REDRIVE_E_UNKNOWN;
}

void store_own_process(void)
{
    for (size_t i = 0; i < N_STORES; i++)
        if (STORES[i]->own_process)
            STORES[i]->own_process();
}

int store_find(const char *url, const struct store_ops **ret, struct str *ret_place,
               struct redrive_err *err)
{
    const char *colon = url ? strchr(url, ':') : NULL;
    if (!colon) {
        err_set(err, REDRIVE_E_INVALID, "'%s' does not name a store", url ? url : "");
        err_detail(err, "a store is written KIND:PLACE");
        err_hint(err, "for a file write sqlite:%s", url && *url ? url : "redrive.db");
        return REDRIVE_E_INVALID;
    }
    struct str scheme = {url, (size_t)(colon - url)};
    if (str_is(scheme, "postgresql")) /* libpq has both */
        scheme = str_of(STORE_POSTGRES.scheme);
    for (size_t i = 0; i < N_STORES; i++) {
        if (str_is(scheme, STORES[i]->scheme)) {
            *ret = STORES[i];
            *ret_place = str_of(colon + 1);
            return 0;
        }
    }
    return unknown_scheme(scheme, err);
}

int store_open(const char *url, const struct store_options *options, struct store **ret,
               struct redrive_err *err)
{
    static const struct store_options DEFAULTS = {0};
    const struct store_ops *ops;
    struct str place;
    int rc = store_find(url, &ops, &place, err);
    return rc < 0 ? rc : ops->open(place, options ? options : &DEFAULTS, ret, err);
}

const char *store_common_url(const char *url)
{
    return url && strcmp(url, "memory:") == 0 ? "memory:common" : url;
}

void store_close(struct store *store)
{
    if (store)
        store_ops(store)->close(store);
}

int store_check_count(size_t n, struct redrive_err *err)
{
    if (n <= STORE_PAGE_MAX)
        return 0;
    return err_set(err, REDRIVE_E_RANGE, "a call is about up to %d jobs, not %zu", STORE_PAGE_MAX,
                   n);
}

int store_check_limit(size_t limit, const char *what, struct redrive_err *err)
{
    if (limit >= 1 && limit <= STORE_PAGE_MAX)
        return 0;
    return err_set(err, REDRIVE_E_RANGE, "a page has 1 to %d %s, not %zu", STORE_PAGE_MAX, what,
                   limit);
}

const char *store_durability_text(enum store_durability durability)
{
    switch (durability) {
    case STORE_FORGETS: return "gone with the process";
    case STORE_SURVIVES_PROCESS: return "survives kill -9, not power loss";
    case STORE_SURVIVES_POWER: return "survives kill -9 and power loss";
    default: return "unknown";
    }
}

const char *store_loss_text(enum store_durability durability)
{
    switch (durability) {
    case STORE_FORGETS: return "everything, when the process ends";
    case STORE_SURVIVES_PROCESS: return "what was answered shortly before power is lost";
    case STORE_SURVIVES_POWER: return "nothing that was answered";
    default: return "unknown";
    }
}
