/* record.c - reads, writes and compares the rows that shards keep of each other. */
#include "store/shards/record.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/rng.h"
#include "base/text/buf.h"
#include "base/text/url_mask.h"
#include "base/time/clock.h"

#define KEY            STR("shards")
#define LIST_MAX_BYTES (16u * 1024)
#define SHOWN_MAX      180 /* of a list in an error */

struct record {
    bool is_there;
    char set[SHARD_SET_MAX]; /* the name of the whole store */
    int64_t shard;           /* from 0 */
    int64_t of;
    int64_t hashed;  /* by how many of them names are hashed: as many as there were at first */
    int64_t version; /* of the row */
    struct buf list; /* the addresses of all, without passwords */
};

static void record_init(struct record *r)
{
    *r = (struct record){0};
    buf_init(&r->list, LIST_MAX_BYTES);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void read_member(struct json_reader *j, struct json_string key, struct record *r)
{
    struct json_string text;
    if (json_string_is(key, "set") && json_read_string(j, &text) == 0)
        (void)str_copy(r->set, sizeof r->set, text.raw);
    else if (json_string_is(key, "shards") && json_read_string(j, &text) == 0)
        (void)json_unescape(text, &r->list);
    else if (json_string_is(key, "shard"))
        (void)json_read_int(j, &r->shard);
    else if (json_string_is(key, "of"))
        (void)json_read_int(j, &r->of);
    else if (json_string_is(key, "hashed"))
        (void)json_read_int(j, &r->hashed);
    else
        (void)json_skip(j, NULL);
}

static int read_record(struct store *store, struct record *ret, struct redrive_err *err)
{
    struct shared_page page = {0};
    struct json_reader j;
    struct json_string key;
    int rc = store_ops(store)->shared_list(store, SHARED_SHARDS, (struct str){0}, &page, err);
    if (rc == 0 && page.n > 0) {
        json_reader_init(&j, page.rows[0].value, NULL);
        (void)json_enter_object(&j);
        while (json_next_key(&j, &key) > 0)
            read_member(&j, key, ret);
        ret->is_there = json_end(&j) == 0;
        ret->version = page.rows[0].version;
        if (ret->hashed < 1 || ret->hashed > ret->of)
            ret->hashed = ret->of;
        json_reader_release(&j);
        if (!ret->is_there)
            rc =
                err_set(err, REDRIVE_E_CORRUPT, "the row that says which shard this is is damaged");
    }
    shared_page_release(&page);
    return rc;
}

static void write_value(const struct record *first, size_t shard, size_t n, struct str list,
                        struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "set", first->set);
    json_field_int(&w, "shard", (int64_t)shard);
    json_field_int(&w, "of", (int64_t)n);
    json_field_int(&w, "hashed", first->hashed);
    json_field_string(&w, "shards", list);
    json_end_object(&w);
}

/* In a transaction of its own. 1: another process has put the row meanwhile, and it stays. */
static int put_value(struct store *store, struct str value, int64_t known, struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(store);
    const struct shared_row row = {
        .kind = SHARED_SHARDS, .key = KEY, .value = value, .version = known};
    struct move_result result = {0};
    int64_t now_ms, version;
    int rc = ops->begin(store, clock_wall_ms(), &now_ms, &version, err);
    if (rc == 0)
        rc = ops->shared_put(store, &row, 1, &result, err);
    if (rc == 0 && result.code == 0)
        rc = ops->commit(store, err);
    ops->rollback(store);
    return rc == REDRIVE_E_CANCELLED || (rc == 0 && result.code != 0) ? 1 : rc;
}

/* The row of one shard, as of a store that the first one names; `known` is its version. 1: as
 * put_value. */
static int put_record(struct store *store, const struct record *first, size_t shard, size_t n,
                      struct str list, int64_t known, struct redrive_err *err)
{
    struct buf value;
    buf_init(&value, 2 * LIST_MAX_BYTES);
    write_value(first, shard, n, list, &value);
    int rc = buf_failed(&value) ? err_nomem(err) : put_value(store, buf_str(&value), known, err);
    buf_release(&value);
    return rc;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static void list_urls(const struct shard_urls *urls, struct buf *out)
{
    for (size_t i = 0; i < urls->n; i++) {
        if (i > 0)
            buf_putc(out, ' ');
        url_mask(out, str_of(urls->urls[i]));
    }
}

/* As many addresses of a list as fit, at least the beginning of the first, and how many more there
 * are. */
static void show_list(struct str list, char ret[SHOWN_MAX + 32])
{
    size_t shown = 0, left = list.len > 0 ? 1 : 0;
    for (size_t i = 0; i < list.len; i++)
        left += list.ptr[i] == ' ';
    for (size_t i = 0; i <= list.len && i <= SHOWN_MAX; i++) {
        if (i > 0 && (i == list.len || list.ptr[i] == ' ')) {
            shown = i;
            left--;
        }
    }
    if (shown == 0) {
        shown = list.len < SHOWN_MAX ? list.len : SHOWN_MAX;
        left -= left > 0;
        (void)snprintf(ret, SHOWN_MAX + 32, "%.*s...", (int)shown, list.ptr ? list.ptr : "");
    } else {
        (void)snprintf(ret, SHOWN_MAX + 32, "%.*s", (int)shown, list.ptr);
    }
    const size_t len = strlen(ret);
    if (left > 0)
        (void)snprintf(ret + len, SHOWN_MAX + 32 - len, " and %zu more", left);
}

/* A list of addresses, each with a blank behind it; '\0' from the end on. */
static int char_at(struct str list, size_t i)
{
    return i < list.len ? list.ptr[i] : i == list.len ? ' ' : '\0';
}

/* The number of the first address in which two lists differ. */
static size_t first_difference(struct str a, struct str b)
{
    size_t number = 1;
    for (size_t i = 0; char_at(a, i) == char_at(b, i) && char_at(a, i) != '\0'; i++)
        number += char_at(a, i) == ' ';
    return number;
}

static int refuse_shards(const struct record *record, struct str given, struct redrive_err *err)
{
    char named[SHOWN_MAX + 32], own[SHOWN_MAX + 32];
    show_list(given, named);
    show_list(buf_str(&record->list), own);
    err_set(err, REDRIVE_E_STATE,
            "these are not the shards that the store was made of: they differ from shard %zu on",
            first_difference(given, buf_str(&record->list)));
    err_detail(err, "given: %s; the store's own list: %s", named, own);
    err_hint(err,
             "name the same shards in the same order; new ones go to the end, and are added by "
             "`redrive migrate --add-shards`");
    return REDRIVE_E_STATE;
}

/* Whether a shard that has no row may get one: it has no jobs, whose tenants may belong elsewhere.
 */
static int check_empty(struct store *store, size_t shard, const char *url, struct redrive_err *err)
{
    struct count_page page = {0};
    int rc = store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &page, err);
    if (rc == 0 && page.n > 0) {
        rc = err_set(err, REDRIVE_E_STATE, "a store that has jobs cannot become a shard");
        err_hint(err, "use an empty one, and move the jobs to the shards of their tenants");
        shard_err(err, shard, url);
    }
    count_page_release(&page);
    return rc;
}

/* The `i`th address of a list; absent: it has fewer. */
static struct str listed_at(struct str rest, size_t i)
{
    for (;; i--) {
        const char *space = rest.len > 0 ? memchr(rest.ptr, ' ', rest.len) : NULL;
        const size_t len = space ? (size_t)(space - rest.ptr) : rest.len;
        if (i == 0)
            return (struct str){rest.ptr, len};
        if (!space)
            return (struct str){0};
        rest = (struct str){space + 1, rest.len - len - 1};
    }
}

static bool is_listed_at(const struct record *record, size_t i, const char *url)
{
    struct buf shown;
    buf_init(&shown, LIST_MAX_BYTES);
    url_mask(&shown, str_of(url));
    const bool is_same = str_eq(buf_str(&shown), listed_at(buf_str(&record->list), i));
    buf_release(&shown);
    return is_same;
}

/* The first shard names the store: of processes that set it up at the same time one wins there. */
static int set_up_first(struct store *store, const struct shard_urls *urls, struct str list,
                        struct record *ret, struct redrive_err *err)
{
    struct record made = {.hashed = (int64_t)urls->n};
    (void)snprintf(made.set, sizeof made.set, "%016" PRIx64, rng_system_seed());
    int rc = check_empty(store, 0, urls->urls[0], err);
    if (rc == 0)
        rc = put_record(store, &made, 0, urls->n, list, 0, err);
    return rc < 0 ? rc : read_record(store, ret, err);
}

/* Recorded lists are compared with each other: they tell which shards were added, and not where
 * these are now. */
static bool is_place(const struct record *record, const struct record *first, struct str list,
                     size_t i, size_t n)
{
    return record->is_there && strcmp(record->set, first->set) == 0 &&
           record->shard == (int64_t)i && record->of == (int64_t)n &&
           record->hashed == first->hashed && str_eq(buf_str(&record->list), list);
}

/* One after the first. A row that is missing where the list of the first names this shard is one
 * that the process which set the store up could not write any more. */
static int check_next(struct store *store, const struct shard_urls *urls, size_t i, bool create,
                      const struct record *first, struct str list, struct redrive_err *err)
{
    const struct str recorded = buf_str(&first->list);
    struct record own;
    record_init(&own);
    int rc = read_record(store, &own, err);
    if (rc == 0 && !own.is_there && create && is_listed_at(first, i, urls->urls[i])) {
        rc = check_empty(store, i, urls->urls[i], err);
        if (rc == 0)
            rc = put_record(store, first, i, urls->n, recorded, 0, err);
        if (rc >= 0)
            rc = read_record(store, &own, err);
    }
    if (rc == 0 && !is_place(&own, first, recorded, i, urls->n))
        rc = refuse_shards(own.is_there ? &own : first, list, err);
    buf_release(&own.list);
    return rc;
}

static int check_with(struct store *const *stores, const struct shard_urls *urls, bool create,
                      struct record *first, struct str list, struct redrive_err *err)
{
    size_t at = 0;
    while (at + 1 < urls->n && !stores[at])
        at++;
    bool are_all = true;
    for (size_t i = 0; i < urls->n; i++)
        are_all &= stores[i] != NULL;
    int rc = read_record(stores[at], first, err);
    if (rc == 0 && !first->is_there && create && are_all)
        rc = set_up_first(stores[at], urls, list, first, err);
    if (rc == 0 && !first->is_there) {
        rc = err_set(err, REDRIVE_E_NOT_FOUND, "these stores are not set up as shards");
        err_hint(err, STORE_SET_UP_HINT);
    }
    if (rc == 0 && !is_place(first, first, buf_str(&first->list), at, urls->n))
        rc = refuse_shards(first, list, err);
    for (size_t i = at + 1; i < urls->n && rc == 0; i++)
        if (stores[i])
            rc = check_next(stores[i], urls, i, create, first, list, err);
    return rc;
}

void shard_set_init(struct shard_set *set)
{
    *set = (struct shard_set){0};
    buf_init(&set->list, LIST_MAX_BYTES);
}

void shard_set_release(struct shard_set *set)
{
    buf_release(&set->list);
}

static void keep_set(struct shard_set *set, const struct record *first)
{
    buf_reset(&set->list);
    (void)str_copy(set->name, sizeof set->name, str_of(first->set));
    set->hashed = (size_t)first->hashed;
    buf_add(&set->list, buf_cstr(&first->list), buf_str(&first->list).len);
}

int shard_record_check(struct store *const *stores, const struct shard_urls *urls, bool create,
                       struct shard_set *ret, struct redrive_err *err)
{
    struct record first;
    struct buf list;
    record_init(&first);
    buf_init(&list, LIST_MAX_BYTES);
    list_urls(urls, &list);
    int rc = buf_failed(&list) ? err_nomem(err)
                               : check_with(stores, urls, create, &first, buf_str(&list), err);
    if (rc == 0 && ret) {
        keep_set(ret, &first);
        rc = buf_failed(&ret->list) ? err_nomem(err) : 0;
    }
    buf_release(&list);
    buf_release(&first.list);
    return rc;
}

int shard_record_check_one(struct store *store, const struct shard_urls *urls, size_t shard,
                           bool create, const struct shard_set *set, struct redrive_err *err)
{
    struct record first = {.is_there = true, .hashed = (int64_t)set->hashed, .list = set->list};
    struct buf list;
    (void)str_copy(first.set, sizeof first.set, str_of(set->name));
    buf_init(&list, LIST_MAX_BYTES);
    list_urls(urls, &list);
    int rc = buf_failed(&list)
                 ? err_nomem(err)
                 : check_next(store, urls, shard, create, &first, buf_str(&list), err);
    buf_release(&list);
    return rc;
}

/* ---- More shards ----------------------------------------------------------------------------- */

/* A shard of the store as it was, or of the larger one: an earlier call with the same list was
 * interrupted. A new one has no row yet, and no jobs. */
static int check_to_add(struct store *store, const struct shard_urls *urls, size_t i,
                        const struct record *first, struct str list, struct record *ret,
                        struct redrive_err *err)
{
    int rc = read_record(store, ret, err);
    if (rc == 0 && !ret->is_there && (int64_t)i >= first->of)
        return check_empty(store, i, urls->urls[i], err);
    if (rc == 0 && !is_place(ret, first, buf_str(&first->list), i, (size_t)first->of) &&
        !is_place(ret, first, list, i, urls->n))
        rc = refuse_shards(ret->is_there ? ret : first, list, err);
    return rc;
}

static int refuse_another(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "another process is adding shards at the same time");
    err_hint(err, "only one of them can succeed: look at the list that it had");
    return REDRIVE_E_STATE;
}

/* From the last to the first, which says until the end that it is not done. The last of the old
 * shards decides between two processes that add different ones: only one of them gets past it. */
static int add_with(struct store *const *stores, const struct shard_urls *urls,
                    struct record *records, struct str list, size_t *ret_before,
                    struct redrive_err *err)
{
    const struct record *first = &records[0];
    int rc = read_record(stores[0], &records[0], err);
    if (rc == 0 && !first->is_there) {
        rc = err_set(err, REDRIVE_E_NOT_FOUND, "these stores are not set up as shards");
        err_hint(err, STORE_SET_UP_HINT);
    }
    if (rc == 0 && (first->shard != 0 || first->of > (int64_t)urls->n))
        rc = refuse_shards(first, list, err);
    *ret_before = (size_t)first->of;
    for (size_t i = 1; i < urls->n && rc == 0; i++)
        rc = check_to_add(stores[i], urls, i, first, list, &records[i], err);
    for (size_t i = urls->n; i-- > 0 && rc == 0;)
        if (!is_place(&records[i], first, list, i, urls->n))
            rc = put_record(stores[i], first, i, urls->n, list, records[i].version, err);
    return rc > 0 ? refuse_another(err) : rc;
}

int shard_record_add(struct store *const *stores, const struct shard_urls *urls, size_t *ret_before,
                     struct redrive_err *err)
{
    struct record records[SHARDS_MAX];
    struct buf list;
    buf_init(&list, LIST_MAX_BYTES);
    list_urls(urls, &list);
    for (size_t i = 0; i < urls->n; i++)
        record_init(&records[i]);
    int rc = buf_failed(&list) ? err_nomem(err)
                               : add_with(stores, urls, records, buf_str(&list), ret_before, err);
    for (size_t i = 0; i < urls->n; i++)
        buf_release(&records[i].list);
    buf_release(&list);
    return rc < 0 ? rc : shard_record_check(stores, urls, false, NULL, err);
}

int shard_record_hashed(struct store *store, size_t *ret, struct redrive_err *err)
{
    struct record own;
    record_init(&own);
    int rc = read_record(store, &own, err);
    *ret = rc == 0 && own.is_there ? (size_t)own.hashed : 0;
    buf_release(&own.list);
    return rc;
}

void shard_record_list(struct store *store, struct buf *ret)
{
    struct record own;
    record_init(&own);
    if (read_record(store, &own, NULL) != 0 || !own.is_there) {
        buf_release(&own.list);
        record_init(&own);
    }
    *ret = own.list;
}

void shard_record_unknown(struct str list, struct str tenant, size_t shard, size_t n,
                          struct redrive_err *err)
{
    const struct str url = listed_at(list, shard);
    const int len = (int)(url.len < SHOWN_MAX ? url.len : SHOWN_MAX);
    err_set(err, REDRIVE_E_IO, "the tenant is on a shard that this process does not know");
    err_detail(err, "tenant %.*s is on shard %zu%s%.*s%s, and this process was started with %zu",
               (int)(tenant.len < 64 ? tenant.len : 64), tenant.ptr, shard + 1, len > 0 ? " (" : "",
               len, len > 0 ? url.ptr : "", len > 0 ? ")" : "", n);
    err_hint(err, "restart it with the longer list of shards");
}

int shard_record_refuse(struct store *store, struct redrive_err *err)
{
    struct record own;
    record_init(&own);
    int rc = read_record(store, &own, err);
    if (rc == 0 && own.is_there) {
        rc = err_set(err, REDRIVE_E_STATE,
                     "this is shard %" PRId64 " of %" PRId64 ", not a store by itself",
                     own.shard + 1, own.of);
        char shown[SHOWN_MAX + 32];
        show_list(buf_str(&own.list), shown);
        err_detail(err, "the shards are %s", shown);
        err_hint(err, "name all of them: store: {shards: [URL, URL, ...]}");
    }
    buf_release(&own.list);
    return rc;
}
