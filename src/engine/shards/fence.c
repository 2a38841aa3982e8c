/* fence.c - which tenants are not on this shard, and the operations that are refused for it. */
#include "engine/shards/fence.h"

#include "base/err.h"
#include "engine/state.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"
#include "store/shards/record.h"
#include "store/shards/tenants.h"

void fence_init(struct fence *fence, uint64_t seed)
{
    map_init(&fence->places, seed);
    buf_init(&fence->shards, 0);
}

void fence_release(struct fence *fence)
{
    map_release(&fence->places);
    buf_release(&fence->shards);
}

static bool is_unknown(const struct engine *e, const struct tenant_place *place)
{
    return place->phase == TENANT_LEFT && place->shard >= e->options.n_shards;
}

int fence_load(struct engine *e, struct redrive_err *err)
{
    struct shared_page page = {0};
    struct map places;
    bool has_unknown = false;
    if (e->options.n_shards == 0)
        return 0;
    int rc = e->ops->shared_list(e->store, SHARED_TENANT, (struct str){0}, &page, err);
    map_init(&places, e->fence.places.seed);
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        struct tenant_place place;
        if (!tenant_place_read(&page.rows[i], &place))
            continue;
        has_unknown |= is_unknown(e, &place);
        if (map_put_number(&places, page.rows[i].tenant, tenant_place_number(&place)) != 0)
            rc = err_nomem(err);
    }
    shared_page_release(&page);
    map_release(rc == 0 ? &e->fence.places : &places);
    if (rc == 0)
        e->fence.places = places;
    if (rc == 0 && has_unknown) {
        buf_release(&e->fence.shards);
        shard_record_list(e->store, &e->fence.shards);
    }
    return rc;
}

/* False: there is no row. */
static bool find_place(const struct engine *e, struct str tenant, struct tenant_place *ret)
{
    const struct str name = tenant.len > 0 ? tenant : str_of(ENGINE_TENANT_DEFAULT);
    return tenant_place_numbered(map_get_number(&e->fence.places, name), ret);
}

bool fence_has(const struct engine *e, struct str tenant)
{
    struct tenant_place place;
    if (find_place(e, tenant, &place))
        return place.phase == TENANT_HERE;
    return shard_of_tenant(tenant, e->options.n_hashed) == e->options.shard;
}

/* ---- Operations ------------------------------------------------------------------------------ */

static bool refuse_tenant(const struct engine *e, struct op *op, struct str tenant)
{
    struct tenant_place place;
    if (!find_place(e, tenant, &place) || place.phase == TENANT_HERE)
        return false;
    if ((place.phase == TENANT_LEAVING || place.phase == TENANT_RETURNING) && op->route->settles)
        return false;
    const struct str name = tenant.len > 0 ? tenant : str_of(ENGINE_TENANT_DEFAULT);
    const bool is_gone = place.phase == TENANT_LEFT;
    op->code = REDRIVE_E_IO;
    op->moved = tenant;
    op->moved_to = is_gone ? (uint32_t)place.shard + 1 : 0;
    if (is_unknown(e, &place)) {
        shard_record_unknown(buf_str(&e->fence.shards), name, place.shard, e->options.n_shards,
                             &op->err);
        return true;
    }
    err_set(&op->err, REDRIVE_E_IO,
            is_gone ? "the tenant is on another shard"
                    : "the tenant is being moved to another shard");
    err_detail(&op->err, "tenant %.*s, shard %zu", (int)(name.len < 64 ? name.len : 64), name.ptr,
               place.shard + 1);
    err_hint(&op->err, "try again in a moment");
    return true;
}

static bool has_left(const struct engine *e, struct str tenant)
{
    struct tenant_place place;
    return find_place(e, tenant, &place) && place.phase == TENANT_LEFT;
}

/* A number names a job of this shard alone: when its tenant has left, the job is not found. */
static bool refuses_items(const struct engine *e, struct op *op)
{
    const struct op_route *route = op->route;
    const char *items = *(char *const *)((const char *)op + route->items_at);
    const size_t n = *(const size_t *)((const char *)op + route->n_at);
    for (size_t i = 0; i < n; i++) {
        const char *item = items + i * route->item_size;
        const struct str *tenant = (const struct str *)(item + route->item_tenant_at);
        const bool is_by_seq =
            route->item_seq_at != NO_PLACE && *(const int64_t *)(item + route->item_seq_at) > 0;
        if (is_by_seq && (route->settles || tenant->len == 0 || has_left(e, *tenant)))
            continue;
        if (refuse_tenant(e, op, *tenant))
            return true;
    }
    return false;
}

static bool refuses_submit(const struct engine *e, struct op *op)
{
    const struct submit_op *submit = (const struct submit_op *)op;
    for (size_t i = 0; i < submit->n; i++)
        if (refuse_tenant(e, op, submit->specs[i].tenant))
            return true;
    return false;
}

bool fence_refuses(const struct engine *e, struct op *op)
{
    op->moved_to = 0;
    if (e->fence.places.count == 0 || !op->route)
        return false;
    switch (op->route->to) {
    case ROUTE_TENANT:
        return op->route->tenant_at > 0 &&
               refuse_tenant(e, op, *(const struct str *)((const char *)op + op->route->tenant_at));
    case ROUTE_ITEMS: return refuses_items(e, op);
    case ROUTE_SUBMIT: return refuses_submit(e, op);
    case ROUTE_BULK: {
        const struct str tenant = ((const struct bulk_op *)op)->filter.tenant;
        return tenant.len > 0 && refuse_tenant(e, op, tenant);
    }
    case ROUTE_CLAIM: {
        const struct str tenant = ((const struct claim_op *)op)->filter.tenant;
        return tenant.len > 0 && refuse_tenant(e, op, tenant);
    }
    default: return false;
    }
}
