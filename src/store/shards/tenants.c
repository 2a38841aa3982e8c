/* tenants.c - rows of tenants that have been moved, and where a reader finds such a tenant. */
#include "store/shards/tenants.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/time/clock.h"
#include "store/shards/record.h"

/* How long a reader goes by what it has read. */
#define READ_AGAIN_MS 1000

static const char *const PHASES[TENANT_PHASE_COUNT] = {
    [TENANT_HERE] = "here", [TENANT_ARRIVING] = "arriving",   [TENANT_LEAVING] = "leaving",
    [TENANT_LEFT] = "left", [TENANT_RETURNING] = "returning",
};

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool read_phase(struct json_string text, enum tenant_phase *ret)
{
    for (int i = 0; i < TENANT_PHASE_COUNT; i++) {
        if (!json_string_is(text, PHASES[i]))
            continue;
        *ret = (enum tenant_phase)i;
        return true;
    }
    return false;
}

bool tenant_place_read(const struct shared_row *row, struct tenant_place *ret)
{
    struct json_reader j;
    struct json_string key, text;
    int64_t shard = 0;
    bool is_known = false;
    ret->by = 0;
    if (row->kind != SHARED_TENANT || !str_eq(row->key, TENANT_PLACE))
        return false;
    json_reader_init(&j, row->value, NULL);
    (void)json_enter_object(&j);
    while (json_next_key(&j, &key) > 0) {
        if (json_string_is(key, "phase") && json_read_string(&j, &text) == 0)
            is_known = read_phase(text, &ret->phase);
        else if (json_string_is(key, "shard"))
            (void)json_read_int(&j, &shard);
        else if (json_string_is(key, "by"))
            (void)json_read_int(&j, &ret->by);
        else
            (void)json_skip(&j, NULL);
    }
    is_known &= json_end(&j) == 0 && shard >= 1 && shard <= SHARDS_MAX;
    json_reader_release(&j);
    ret->shard = is_known ? (size_t)shard - 1 : 0;
    return is_known;
}

void tenant_place_write(const struct tenant_place *place, char ret[TENANT_PLACE_MAX])
{
    (void)snprintf(ret, TENANT_PLACE_MAX, "{\"phase\":\"%s\",\"shard\":%zu,\"by\":%" PRId64 "}",
                   PHASES[place->phase], place->shard % SHARDS_MAX + 1, place->by);
}

int64_t tenant_place_number(const struct tenant_place *place)
{
    return 1 + (int64_t)place->phase + (int64_t)place->shard * TENANT_PHASE_COUNT;
}

bool tenant_place_numbered(int64_t number, struct tenant_place *ret)
{
    if (number <= 0)
        return false;
    *ret = (struct tenant_place){.phase = (enum tenant_phase)((number - 1) % TENANT_PHASE_COUNT),
                                 .shard = (size_t)((number - 1) / TENANT_PHASE_COUNT)};
    return true;
}

/* ---- Finding --------------------------------------------------------------------------------- */

size_t tenant_follow(struct str tenant, size_t n_hashed, size_t n,
                     size_t (*next)(void *ctx, size_t shard, struct str tenant), void *ctx)
{
    size_t at = shard_of_tenant(tenant, n_hashed);
    for (size_t hops = 0; hops < n; hops++) {
        const size_t to = next(ctx, at, tenant);
        if (to == 0 || to > n)
            return at;
        at = to - 1;
    }
    return at;
}

void moved_tenants_release(struct moved_tenants *moved)
{
    for (size_t i = 0; i < SHARDS_MAX; i++)
        map_release(&moved->shards[i]);
}

/* A shard that does not answer leaves what is known of it. */
static void read_rows(struct sharded *s, size_t shard)
{
    struct store *store = s->stores[shard];
    struct shared_page page = {0};
    struct map places;
    if (store_ops(store)->shared_list(store, SHARED_TENANT, (struct str){0}, &page, NULL) < 0)
        return;
    map_init(&places, shard + 1);
    for (size_t i = 0; i < page.n; i++) {
        struct tenant_place place;
        if (tenant_place_read(&page.rows[i], &place))
            (void)map_put_number(&places, page.rows[i].tenant, tenant_place_number(&place));
    }
    map_release(&s->moved->shards[shard]);
    s->moved->shards[shard] = places;
    shared_page_release(&page);
}

static bool find_place(struct sharded *s, size_t shard, struct str tenant, struct tenant_place *ret)
{
    int64_t *read_ms = &s->moved->read_ms[shard];
    if (*read_ms == 0 || clock_monotonic_ms() - *read_ms >= READ_AGAIN_MS) {
        read_rows(s, shard);
        *read_ms = clock_monotonic_ms();
    }
    return tenant_place_numbered(
        map_get_number(&s->moved->shards[shard], tenant.len > 0 ? tenant : STR("default")), ret);
}

static size_t next_shard(void *ctx, size_t shard, struct str tenant)
{
    struct tenant_place place;
    return find_place(ctx, shard, tenant, &place) && place.phase == TENANT_LEFT ? place.shard + 1
                                                                                : 0;
}

size_t shards_at(struct sharded *s, struct str tenant)
{
    return tenant_follow(tenant, s->n_hashed, s->urls.n, next_shard, s);
}

int shards_reach(struct sharded *s, struct str tenant, size_t *ret, struct redrive_err *err)
{
    struct tenant_place place;
    *ret = shards_at(s, tenant);
    if (!find_place(s, *ret, tenant, &place) || place.phase == TENANT_HERE)
        return 0;
    if (place.phase == TENANT_LEFT && place.shard >= s->urls.n) {
        struct buf list;
        shard_record_list(s->stores[*ret], &list);
        shard_record_unknown(buf_str(&list), tenant.len > 0 ? tenant : STR("default"), place.shard,
                             s->urls.n, err);
        buf_release(&list);
        return REDRIVE_E_IO;
    }
    err_set(err, REDRIVE_E_IO, "the tenant is being moved to another shard");
    err_hint(err, "try again in a moment");
    return REDRIVE_E_IO;
}

bool shards_was_moved(struct sharded *s, struct str tenant)
{
    struct tenant_place place;
    return find_place(s, shard_of_tenant(tenant, s->n_hashed), tenant, &place);
}
