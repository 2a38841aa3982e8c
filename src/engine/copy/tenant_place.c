/* tenant_place.c - the rows that say where a tenant is. */
#include "base/err.h"
#include "engine/copy/load.h"
#include "engine/copy/tenant_jobs.h"

int tenant_place_find(struct store *store, struct str tenant, struct place_row *ret,
                      struct redrive_err *err)
{
    struct shared_page page = {0};
    *ret = (struct place_row){0};
    int rc = store_ops(store)->shared_list(store, SHARED_TENANT, tenant, &page, err);
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        if (tenant_place_read(&page.rows[i], &ret->place)) {
            ret->is_there = true;
            ret->version = page.rows[i].version;
        }
    shared_page_release(&page);
    return rc;
}

int tenant_place_changed(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE,
            "another process moves the tenant, or has ended this move, or taken it back");
    err_hint(err, "`redrive move --tenant NAME --dry-run` says where the tenant is");
    return REDRIVE_E_STATE;
}

int tenant_place_expect(struct store *store, struct str tenant, const struct place_row *row,
                        struct redrive_err *err)
{
    struct place_row now;
    int rc = tenant_place_find(store, tenant, &now, err);
    if (rc < 0)
        return rc;
    const bool is_same_place = !row->is_there || (now.place.phase == row->place.phase &&
                                                  now.place.shard == row->place.shard);
    const bool is_same = now.is_there == row->is_there && is_same_place &&
                         (row->version == 0 || now.version == row->version);
    return is_same ? 0 : tenant_place_changed(err);
}

int tenant_row_put(struct store *store, enum shared_kind kind, struct str tenant, struct str key,
                   struct str value, struct redrive_err *err)
{
    struct shared_row row = {.kind = kind, .tenant = tenant, .key = key, .value = value};
    struct shared_page page = {0};
    struct move_result result = {0};
    int rc = store_ops(store)->shared_list(store, kind, tenant, &page, err);
    const struct shared_row *found = rc == 0 ? load_find_row(&page, &row, &(size_t){0}) : NULL;
    const bool is_so = found ? value.len > 0 && str_eq(found->value, value) : value.len == 0;
    if (rc == 0 && !is_so) {
        row.version = found ? found->version : 0;
        row.removed = value.len == 0;
        rc = store_ops(store)->shared_put(store, &row, 1, &result, err);
    }
    if (rc == 0 && result.code != 0)
        rc = err_set(err, REDRIVE_E_CANCELLED, "another process has put a row meanwhile");
    shared_page_release(&page);
    return rc;
}

struct closing {
    struct store *store;
    struct str tenant;
    size_t shard;
};

static int close_place(void *ctx, struct redrive_err *err)
{
    const struct closing *c = ctx;
    struct store *store = c->store;
    const struct tenant_place left = {TENANT_LEFT, c->shard};
    struct place_row row;
    struct move_result result = {0};
    char text[64];
    tenant_place_write(&left, text);
    int rc = tenant_place_find(store, c->tenant, &row, err);
    if (rc == 0 && row.is_there && row.place.phase == TENANT_HERE)
        return tenant_place_changed(err);
    const struct shared_row put = {.kind = SHARED_TENANT,
                                   .tenant = c->tenant,
                                   .key = TENANT_PLACE,
                                   .value = str_of(text),
                                   .version = row.version};
    if (rc == 0)
        rc = store_ops(store)->shared_put(store, &put, 1, &result, err);
    if (rc == 0 && result.code != 0)
        rc = err_set(err, REDRIVE_E_CANCELLED, "another process has put a row meanwhile");
    return rc;
}

int tenant_place_close(struct store *store, struct str tenant, size_t shard, int64_t now_ms,
                       struct redrive_err *err)
{
    struct closing closing = {store, tenant, shard};
    return load_transaction(store, now_ms, close_place, &closing, err);
}
