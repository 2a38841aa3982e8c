/* place.c - the rows that say where a tenant is. */
#include "base/err.h"
#include "engine/copy/load.h"
#include "engine/copy/tenant/jobs.h"

/* ---- Rows ------------------------------------------------------------------------------------ */

static int put_row(struct store *store, const struct shared_row *row, struct redrive_err *err)
{
    struct move_result result = {0};
    int rc = store_ops(store)->shared_put(store, row, 1, &result, err);
    if (rc == 0 && result.code != 0)
        rc = err_set(err, REDRIVE_E_CANCELLED, "another process has put a row meanwhile");
    return rc;
}

int tenant_row_put(struct store *store, enum shared_kind kind, struct str tenant, struct str key,
                   struct str value, struct redrive_err *err)
{
    struct shared_row row = {.kind = kind, .tenant = tenant, .key = key, .value = value};
    struct shared_page page = {0};
    int rc = store_ops(store)->shared_list(store, kind, tenant, &page, err);
    const struct shared_row *found = rc == 0 ? load_find_row(&page, &row, &(size_t){0}) : NULL;
    const bool is_so = found ? value.len > 0 && str_eq(found->value, value) : value.len == 0;
    if (rc == 0 && !is_so) {
        row.version = found ? found->version : 0;
        row.removed = value.len == 0;
        rc = put_row(store, &row, err);
    }
    shared_page_release(&page);
    return rc;
}

/* ---- The row of a shard ---------------------------------------------------------------------- */

static int read_place(struct tenant_shard *shard, int64_t *ret_version, struct redrive_err *err)
{
    struct store *store = shard->store;
    struct shared_page page = {0};
    int rc = store_ops(store)->shared_list(store, SHARED_TENANT, shard->tenant, &page, err);
    shard->has_row = false;
    *ret_version = 0;
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        if (str_eq(page.rows[i].key, TENANT_PLACE)) {
            shard->has_row = tenant_place_read(&page.rows[i], &shard->place);
            *ret_version = page.rows[i].version;
        }
    shared_page_release(&page);
    return rc;
}

int tenant_shard_read(struct tenant_shard *shard, struct redrive_err *err)
{
    return read_place(shard, &(int64_t){0}, err);
}

static bool is_same_place(const struct tenant_place *a, const struct tenant_place *b)
{
    return a->phase == b->phase && a->shard == b->shard;
}

static int refuse_changed(struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE,
            "another process moves the tenant, or has ended this move, or taken it back");
    err_hint(err, "`redrive move --tenant NAME --dry-run` says where the tenant is");
    return REDRIVE_E_STATE;
}

struct place_moves {
    const struct tenant_shard *shard;
    struct tenant_place next;
    load_moves_fn moves;
    void *ctx;
};

/* What engines do with the tenant does not depend on which call has put the row. */
static int put_place(const struct place_moves *m, int64_t version, struct redrive_err *err)
{
    const struct tenant_shard *shard = m->shard;
    char text[TENANT_PLACE_MAX];
    tenant_place_write(&m->next, text);
    const struct shared_row row = {.kind = SHARED_TENANT,
                                   .tenant = shard->tenant,
                                   .key = TENANT_PLACE,
                                   .version = version,
                                   .value = str_of(text),
                                   .is_quiet =
                                       shard->has_row && is_same_place(&m->next, &shard->place)};
    return put_row(shard->store, &row, err);
}

static int make_place_moves(void *ctx, struct redrive_err *err)
{
    const struct place_moves *m = ctx;
    const struct tenant_shard *shard = m->shard;
    struct tenant_shard now = *shard;
    int64_t version;
    int rc = read_place(&now, &version, err);
    if (rc < 0)
        return rc;
    if (now.has_row != shard->has_row ||
        (now.has_row &&
         (!is_same_place(&now.place, &shard->place) || now.place.by != shard->place.by)))
        return refuse_changed(err);
    if (m->moves)
        rc = m->moves(m->ctx, err);
    return rc < 0 ? rc : put_place(m, version, err);
}

int tenant_shard_put(struct tenant_shard *shard, const struct tenant_place *next,
                     load_moves_fn moves, void *ctx, struct redrive_err *err)
{
    struct place_moves m = {shard, *next, moves, ctx};
    m.next.by = shard->by;
    int rc = load_transaction(shard->store, shard->now_ms, make_place_moves, &m, err);
    if (rc == 0) {
        shard->has_row = true;
        shard->place = m.next;
    }
    return rc;
}

int tenant_shard_move(struct tenant_shard *shard, load_moves_fn moves, void *ctx,
                      struct redrive_err *err)
{
    const struct tenant_place same = shard->place;
    return tenant_shard_put(shard, &same, moves, ctx, err);
}
