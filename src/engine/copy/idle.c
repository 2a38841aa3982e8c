/* idle.c - whether a store may be copied: no worker uses it, and it is not the other one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "engine/copy/copy.h"
#include "engine/copy/load.h"
#include "engine/engine.h"
#include "engine/report/worker_row.h"
#include "engine/rows.h"

/* Workers that a refusal names, and the most that it says of them. */
#define WORKERS_NAMED 3
#define NAMES_MAX     4096

/* ---- Whether two URLs mean one store --------------------------------------------------------- */

/* A row with a name that no other row has. */
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

static int look_for_probe(struct store *store, struct str name, bool *ret, struct redrive_err *err)
{
    RELEASED_BY(shared_page_release) struct shared_page page = {0};
    int rc = store_ops(store)->shared_list(store, SHARED_WORKER, (struct str){0}, &page, err);
    *ret = rc == 0 && shared_row_find(&page, name);
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
    int rc = load_transaction(b, now_ms, put_probe, &probe, err);
    if (rc < 0)
        return rc;
    rc = look_for_probe(a, probe.row.key, ret, err);
    probe.row.version = 1;
    probe.row.removed = true;
    int removed = load_transaction(b, now_ms, put_probe, &probe, rc < 0 ? NULL : err);
    return rc < 0 ? rc : removed;
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void name_worker(struct buf *out, const struct worker_info *worker)
{
    buf_printf(out, "%s%.*s", out->len > 0 ? "; " : "", (int)worker->name.len, worker->name.ptr);
    if (worker->pid != 0)
        buf_printf(out, ", process %" PRId64 " on %.*s", worker->pid, (int)worker->host.len,
                   worker->host.ptr);
}

static int refuse_workers(const struct worker_page *workers, const char *side, const char *flag,
                          struct redrive_err *err)
{
    const size_t n = workers->n, named = n < WORKERS_NAMED ? n : WORKERS_NAMED;
    RELEASED_BY(buf_release) struct buf names = BUF_MAX(NAMES_MAX);
    for (size_t i = 0; i < named; i++)
        name_worker(&names, &workers->workers[i]);
    if (n > named)
        buf_printf(&names, "; and %zu more", n - named);
    err_set(err, REDRIVE_E_STATE, "%zu worker%s on the %s", n, n == 1 ? " is alive" : "s are alive",
            side);
    err_detail(err, "%s", buf_cstr(&names));
    err_hint(err, "stop %s; one that crashed is forgotten after %d s; or use %s",
             n == 1 ? "it" : "them", WORKER_GONE_MS / 1000, flag);
    return REDRIVE_E_STATE;
}

int copy_check_idle(struct store *store, const char *side, const char *flag, int64_t now_ms,
                    struct redrive_err *err)
{
    RELEASED_BY(worker_page_release) struct worker_page workers = {0};
    int rc = workers_read(store, (struct str){0}, store_time_ms(store, now_ms), &workers, err);
    if (rc == 0 && workers.n > 0)
        rc = refuse_workers(&workers, side, flag, err);
    return rc;
}
