#include "engine/copy/private.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"

/* Unlike any other, for as long as it is looked for. */
struct probe {
    struct store *store;
    char name[32];
    struct shared_row row;
};

static int put_probe(void *ctx, struct redrive_err *err)
{
    struct probe *probe = ctx;
    struct move_result result = {0};
    return store_ops(probe->store)->shared_put(probe->store, &probe->row, 1, &result, err);
}

static int look_for(struct store *store, struct str name, bool *ret, struct redrive_err *err)
{
    struct shared_page page = {0};
    int rc = store_ops(store)->shared_list(store, SHARED_WORKER, (struct str){0}, &page, err);
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        *ret |= str_eq(page.rows[i].key, name);
    shared_page_release(&page);
    return rc;
}

int copy_is_same_store(struct store *a, struct store *b, int64_t now_ms, bool *ret,
                       struct redrive_err *err)
{
    struct probe probe = {.store = b};
    *ret = false;
    if (strcmp(store_ops(a)->scheme, store_ops(b)->scheme) != 0)
        return 0;
    (void)snprintf(probe.name, sizeof probe.name, "move-%016" PRIx64, rng_system_seed());
    probe.row =
        (struct shared_row){.kind = SHARED_WORKER, .key = str_of(probe.name), .value = STR("{}")};
    int rc = copy_transaction(b, now_ms, put_probe, &probe, err);
    if (rc < 0)
        return rc;
    rc = look_for(a, probe.row.key, ret, err);
    probe.row.version = 1;
    probe.row.removed = true;
    int removed = copy_transaction(b, now_ms, put_probe, &probe, rc < 0 ? NULL : err);
    return rc < 0 ? rc : removed;
}
