#include "store/store.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text/suggest.h"
#include "store/transition.h"

static const struct store_ops *const STORES[] = {
    &STORE_MEMORY, &STORE_REDIS, &STORE_REDIS_TLS, &STORE_SQLITE, &STORE_POSTGRES,
};
#define N_STORES (sizeof STORES / sizeof STORES[0])

static int unknown_scheme(struct str scheme, struct redrive_err *err)
{
    const char *names[N_STORES];
    char list[128] = "";
    size_t len = 0, n = 0;
    for (size_t i = 0; i < N_STORES; i++) {
        if (!STORES[i]->close)
            continue; /* only says why there is none */
        names[n++] = STORES[i]->scheme;
        int added = snprintf(list + len, sizeof list - len, "%s%s:", len ? ", " : "", names[n - 1]);
        if (added > 0 && (size_t)added < sizeof list - len)
            len += (size_t)added;
    }
    err_set(err, REDRIVE_E_UNKNOWN, "there is no store '%.*s'", (int)scheme.len, scheme.ptr);
    err_detail(err, "stores are %s", list);
    const char *nearest = suggest(scheme, names, n);
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

size_t adopted_rows(const struct adopted_job *adopted)
{
    const bool tells = transition_attempt_in_row(&adopted->job->status, NULL);
    return adopted->n_attempts - (tells && adopted->n_attempts > 0);
}

void job_page_release(struct job_page *page)
{
    arena_release(&page->arena);
    *page = (struct job_page){0};
}

void job_page_add_limit(struct job_page *page, const struct limit_sums *limit)
{
    const struct limit_sums *last = page->n_limits > 0 ? &page->limits[page->n_limits - 1] : NULL;
    if (last && str_eq(last->key, limit->key) && str_eq(last->tenant, limit->tenant))
        return;
    const size_t n = page->n_limits;
    if (!page->limits || (n & (n - 1)) == 0) { /* it is full: 0, or a power of 2 */
        struct limit_sums *grown = arena_array(&page->arena, n ? 2 * n : 1, sizeof *grown);
        if (!grown)
            return;
        if (n > 0)
            memcpy(grown, page->limits, n * sizeof *grown);
        page->limits = grown;
    }
    page->limits[page->n_limits++] = *limit;
}

static int64_t at_least_0(int64_t sum)
{
    return sum > 0 ? sum : 0;
}

bool shared_put_fits(const struct shared_row *row, int64_t version, struct gate_sums *sums)
{
    const bool is_any = row->is_delta && row->version == 0;
    const bool needs_row = row->is_delta || row->removed;
    const int64_t used = sums->used + row->add.used;
    if ((!is_any && version != row->version) || (needs_row && version == 0))
        return false;
    if (row->removed ? used > 0 : row->add.used > 0 && row->max_used > 0 && used > row->max_used)
        return false;
    *sums = (struct gate_sums){at_least_0(used), at_least_0(sums->sent + row->add.sent)};
    return true;
}

void attempt_page_release(struct attempt_page *page)
{
    arena_release(&page->arena);
    *page = (struct attempt_page){0};
}

void attempt_pages_release(struct attempt_page *pages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        attempt_page_release(&pages[i]);
}

void count_page_release(struct count_page *page)
{
    arena_release(&page->arena);
    *page = (struct count_page){0};
}

int job_count_order(const void *left, const void *right)
{
    const struct job_count *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    if (order == 0)
        order = str_compare(a->queue, b->queue);
    if (order == 0)
        order = str_compare(a->task, b->task);
    return order != 0 ? order : str_compare(a->lane, b->lane);
}

void group_page_release(struct group_page *page)
{
    arena_release(&page->arena);
    *page = (struct group_page){0};
}

void shared_page_release(struct shared_page *page)
{
    arena_release(&page->arena);
    *page = (struct shared_page){0};
}

void counter_page_release(struct counter_page *page)
{
    arena_release(&page->arena);
    *page = (struct counter_page){0};
}

void held_key_page_release(struct held_key_page *page)
{
    arena_release(&page->arena);
    *page = (struct held_key_page){0};
}
