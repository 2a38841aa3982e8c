/* open.c - which shards there are, opening them, and slots that a store of shards has not. */
#include "store/shards/shards.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/text/url_mask.h"
#include "store/late.h"
#include "store/shards/record.h"
#include "store/shards/tenants.h"

#define SCHEME "shards:"

/* ---- URLs ------------------------------------------------------------------------------------ */

bool shards_is(const char *url)
{
    return url && strncmp(url, SCHEME, strlen(SCHEME)) == 0;
}

static int refuse_urls(struct redrive_err *err, const char *fact)
{
    err_set(err, REDRIVE_E_INVALID, "%s", fact);
    err_detail(err, "expected shards: and 2 to %d stores, with spaces between them", SHARDS_MAX);
    return REDRIVE_E_INVALID;
}

static int add_url(struct shard_urls *urls, const char *url, struct redrive_err *err)
{
    if (shards_is(url))
        return refuse_urls(err, "a shard cannot have shards itself");
    if (urls->n == SHARDS_MAX)
        return refuse_urls(err, "there are too many shards");
    for (size_t i = 0; i < urls->n; i++)
        if (strcmp(urls->urls[i], url) == 0)
            return refuse_urls(err, "the same shard is named twice");
    urls->urls[urls->n++] = url;
    return 0;
}

static int read_list(struct shard_urls *urls, const char *list, struct redrive_err *err)
{
    int rc = 0;
    char *state;
    *urls = (struct shard_urls){.text = strdup(list)};
    if (!urls->text)
        return err_nomem(err);
    for (char *at = strtok_r(urls->text, " ", &state); at && rc == 0;
         at = strtok_r(NULL, " ", &state))
        rc = add_url(urls, at, err);
    return rc == 0 && urls->n < 2 ? refuse_urls(err, "there are too few shards") : rc;
}

int shard_urls_init(struct shard_urls *urls, const char *url, struct redrive_err *err)
{
    if (shards_is(url))
        return read_list(urls, url + strlen(SCHEME), err);
    *urls = (struct shard_urls){.text = strdup(url)};
    if (!urls->text)
        return err_nomem(err);
    urls->urls[urls->n++] = urls->text;
    return 0;
}

void shard_urls_release(struct shard_urls *urls)
{
    free(urls->text);
    *urls = (struct shard_urls){0};
}

/* FNV-1a with a final mix, since its low bits alone are poor. */
static uint64_t hash_tenant(struct str tenant)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < tenant.len; i++)
        h = (h ^ (unsigned char)tenant.ptr[i]) * UINT64_C(0x100000001b3);
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 33;
}

size_t shard_of_tenant(struct str tenant, size_t n)
{
    return n < 2 ? 0 : (size_t)(hash_tenant(tenant.len > 0 ? tenant : STR("default")) % n);
}

int64_t shard_seq_from(int64_t seq, size_t shard)
{
    const int64_t above = seq - (int64_t)shard;
    return above <= 0 ? 0 : (above + SHARDS_MAX - 1) / SHARDS_MAX;
}

void shard_err(struct redrive_err *err, size_t shard, const char *url)
{
    struct buf text;
    if (!err)
        return;
    buf_init(&text, sizeof err->detail);
    buf_printf(&text, "shard %zu (", shard + 1);
    url_mask(&text, str_of(url));
    buf_puts(&text, ")");
    if (err->detail[0] != '\0')
        buf_printf(&text, ": %s", err->detail);
    if (!buf_failed(&text))
        err_detail(err, "%s", buf_cstr(&text));
    buf_release(&text);
}

/* ---- Handles --------------------------------------------------------------------------------- */

int shards_fail_at(const struct sharded *s, size_t shard, int rc, struct redrive_err *err)
{
    if (rc < 0)
        shard_err(err, shard, s->urls.urls[shard]);
    return rc;
}

static int check_late(struct store *store, void *ctx, struct redrive_err *err)
{
    const struct late_shard *shard = ctx;
    return shard_record_check_one(store, shard->urls, shard->index, shard->create, shard->set, err);
}

int shard_open_late(struct late_shard *shard, const struct store_options *options,
                    const struct redrive_err *why, struct store **ret, struct redrive_err *err)
{
    const struct late_options late = {
        .url = shard->urls->urls[shard->index],
        .store = *options,
        .check = check_late,
        .ctx = shard,
        .why = why,
    };
    return store_open_late(&late, ret, err);
}

/* Those that are away, and are to be opened later, stay NULL. The error is that of the first of
 * them. */
static int open_those_there(struct sharded *s, const struct store_options *options,
                            size_t *ret_there, struct redrive_err *err)
{
    *ret_there = 0;
    for (size_t i = 0; i < s->urls.n; i++) {
        struct redrive_err why = {0};
        if (options->late && options->away >> i & 1)
            continue;
        int rc = store_open(s->urls.urls[i], options, &s->stores[i], &why);
        if (rc < 0 && (err->code == 0 || rc != REDRIVE_E_IO)) {
            *err = why;
            (void)shards_fail_at(s, i, rc, err);
        }
        if (rc < 0 && (rc != REDRIVE_E_IO || !options->late))
            return rc;
        *ret_there += rc == 0;
    }
    return 0;
}

/* The record of those that are there is what the others are compared with. */
static int open_rest_late(struct sharded *s, const struct store_options *options,
                          struct redrive_err *err)
{
    s->set = malloc(sizeof *s->set);
    if (!s->set)
        return err_nomem(err);
    shard_set_init(s->set);
    int rc = shard_record_check(s->stores, &s->urls, options->create, s->set, err);
    for (size_t i = 0; i < s->urls.n && rc == 0; i++) {
        s->late[i] = (struct late_shard){&s->urls, i, options->create, s->set};
        if (!s->stores[i])
            rc = shard_open_late(&s->late[i], options, NULL, &s->stores[i], err);
    }
    return rc;
}

/* One that is opened as it is may be of an older schema, or empty. */
static int read_hashed(struct sharded *s, const struct store_options *options,
                       struct redrive_err *err)
{
    int rc = 0;
    if (s->set)
        s->n_hashed = s->set->hashed;
    else if (!options->as_is)
        rc = shard_record_hashed(s->stores[0], &s->n_hashed, err);
    if (s->n_hashed == 0)
        s->n_hashed = s->urls.n;
    return shards_fail_at(s, 0, rc, err);
}

/* As durable as the least of them. */
static int open_all(struct sharded *s, const struct store_options *options, struct redrive_err *err)
{
    struct redrive_err why = {0};
    size_t there;
    int rc = open_those_there(s, options, &there, &why);
    if (rc == 0 && there == 0)
        rc = why.code < 0 ? why.code : err_set(&why, REDRIVE_E_IO, "all shards are away");
    if (rc == 0 && there < s->urls.n)
        rc = open_rest_late(s, options, &why);
    if (rc < 0) {
        if (err)
            *err = why;
        return rc;
    }
    rc = read_hashed(s, options, err);
    if (rc < 0)
        return rc;
    s->base.durability = STORE_SURVIVES_POWER;
    for (size_t i = 0; i < s->urls.n; i++)
        if (store_base(s->stores[i])->durability < s->base.durability)
            s->base.durability = store_base(s->stores[i])->durability;
    return 0;
}

int shards_open(struct str place, const struct store_options *options, struct store **ret,
                struct redrive_err *err)
{
    *ret = NULL;
    struct sharded *s = calloc(1, sizeof *s);
    if (!s)
        return err_nomem(err);
    s->base.ops = &STORE_SHARDS;
    s->moved = calloc(1, sizeof *s->moved);
    if (!s->moved) {
        free(s);
        return err_nomem(err);
    }
    int rc = read_list(&s->urls, place.ptr, err);
    if (rc == 0)
        rc = open_all(s, options, err);
    if (rc < 0) {
        shards_close((struct store *)s);
        return rc;
    }
    *ret = (struct store *)s;
    return 0;
}

void shards_close(struct store *store)
{
    if (!store)
        return;
    struct sharded *s = sharded_of(store);
    for (size_t i = 0; i < s->urls.n; i++)
        store_close(s->stores[i]);
    moved_tenants_release(s->moved);
    free(s->moved);
    if (s->set)
        shard_set_release(s->set);
    free(s->set);
    shard_urls_release(&s->urls);
    free(s);
}

/* ---- Transactions: there are none ------------------------------------------------------------ */

static int refuse_transaction(struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_STATE, "a transaction is one shard's, not one of all shards");
}

int shards_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err)
{
    (void)store, (void)now_ms, (void)ret_now_ms, (void)ret_shared_version;
    return refuse_transaction(err);
}

int64_t shards_set_time(struct store *store, int64_t now_ms)
{
    (void)store;
    return now_ms;
}

int shards_commit(struct store *store, struct redrive_err *err)
{
    (void)store;
    return refuse_transaction(err);
}

void shards_rollback(struct store *store)
{
    (void)store;
}

int shards_submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    (void)store, (void)specs, (void)n, (void)ret, (void)arena;
    return refuse_transaction(err);
}

int shards_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    (void)store, (void)filter, (void)ret;
    return refuse_transaction(err);
}

int shards_scan(struct store *store, struct scan *scan, struct job_page *ret,
                struct redrive_err *err)
{
    (void)store, (void)scan, (void)ret;
    return refuse_transaction(err);
}

int shards_move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err)
{
    (void)store, (void)list, (void)ret;
    return refuse_transaction(err);
}

int shards_import(struct store *store, const struct imported_job *jobs, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    (void)store, (void)jobs, (void)n, (void)ret;
    return refuse_transaction(err);
}

int shards_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                       struct redrive_err *err)
{
    (void)store, (void)keys, (void)n;
    return refuse_transaction(err);
}

int shards_edges_put(struct store *store, const struct job_edge *edges, size_t n,
                     struct redrive_err *err)
{
    (void)store, (void)edges, (void)n;
    return refuse_transaction(err);
}

int shards_parents(struct store *store, const int64_t *seqs, size_t n, struct parent_page *ret,
                   struct redrive_err *err)
{
    (void)store, (void)seqs, (void)n, (void)ret;
    return refuse_transaction(err);
}

int shards_find(struct store *store, const int64_t *seqs, size_t n, struct job_page *ret,
                struct redrive_err *err)
{
    (void)store, (void)seqs, (void)n, (void)ret;
    return refuse_transaction(err);
}

int shards_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                      struct move_result *ret, struct redrive_err *err)
{
    (void)store, (void)rows, (void)n, (void)ret;
    return refuse_transaction(err);
}

int shards_counters_add(struct store *store, const struct counter *counters, size_t n,
                        struct redrive_err *err)
{
    (void)store, (void)counters, (void)n;
    return refuse_transaction(err);
}

const struct store_ops STORE_SHARDS = {
    STORE_SLOTS(shards),
    .capabilities = STORE_SHARED,
    .backup_hint = "not with shards yet: back each shard up by itself",
    .counts_around = shards_counts_around,
};
