#include <stdlib.h>

#include "base/err.h"
#include "base/text/url_mask.h"
#include "base/text/utf8.h"
#include "store/postgres/private.h"

#define BUSY_DEFAULT_MS 5000
#define URL_MAX         65536

/* Rows of counts are put together after about so many, by whoever comes to it. */
#define FOLD_EVERY 512

/* The library shows the whole URL, password and all, when it cannot read one: so it is asked
 * before, and its words are not repeated. */
static int check_url(struct store *store, struct redrive_err *err)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(store->url, &why);
    const bool is_bad = !options;
    PQconninfoFree(options);
    PQfreemem(why);
    if (!is_bad && strncmp(strchr(store->url, ':'), "://", 3) == 0)
        return 0;
    err_set(err, REDRIVE_E_INVALID, "the store's URL cannot be read");
    err_detail(err, "it starts with %.40s", store->shown);
    err_hint(err, "write postgres://USER@HOST:PORT/DATABASE; other characters than letters and "
                  "digits in a password are written as %%XX");
    return REDRIVE_E_INVALID;
}

static struct store *store_new(struct str place, const struct store_options *options)
{
    struct store *store = calloc(1, sizeof *store);
    struct buf url;
    if (!store)
        return NULL;
    store->base = (struct store_base){.ops = &STORE_POSTGRES, .durability = STORE_SURVIVES_POWER};
    store->busy_wait_ms = options->busy_wait_ms > 0 ? options->busy_wait_ms : BUSY_DEFAULT_MS;
    if (store->busy_wait_ms > INT32_MAX)
        store->busy_wait_ms = INT32_MAX;
    store->caller_time = options->caller_time;
    rng_seed(&store->rng, rng_system_seed());
    store->origin = options->origin ? options->origin : rng_system_seed();
    store->me = rng_next(&store->rng);
    store->to_compact = rng_below(&store->rng, FOLD_EVERY);
    pg_args_init(&store->args);
    pg_args_init(&store->next.args);
    pg_args_init(&store->next.filter);
    arena_init(&store->arena);
    partitions_init(&store->partitions);
    map_init(&store->rows.by_seq, rng_system_seed());
    map_init(&store->gates, rng_system_seed());
    pg_kept_init(store);
    buf_init(&url, URL_MAX);
    (void)buf_puts(&url, "postgres:");
    (void)buf_add_str(&url, place);
    store->url = str_dup(buf_str(&url));
    buf_reset(&url);
    if (store->url)
        url_mask(&url, str_of(store->url));
    (void)str_copy(store->shown, sizeof store->shown, buf_str(&url));
    utf8_make_printable(store->shown);
    buf_release(&url);
    return store;
}

int postgres_open(struct str place, const struct store_options *options, struct store **ret,
                  struct redrive_err *err)
{
    struct store *store = store_new(place, options);
    if (!store || !store->url) {
        postgres_close(store);
        return err_nomem(err);
    }
    int rc = check_url(store, err);
    if (rc == 0)
        rc = pg_connect(store, false, err);
    if (rc == 0)
        rc = pg_schema_set_up(store, options, err);
    if (rc == 0 && !PQenterPipelineMode(store->conn))
        rc = pg_connection_error(store, err);
    if (rc != 0) {
        postgres_close(store);
        return rc;
    }
    *ret = store;
    return 0;
}

void postgres_close(struct store *store)
{
    if (!store)
        return;
    postgres_rollback(store);
    pg_ahead_drop(store);
    pg_give_time_back(store);
    pg_marker_remove(store);
    /* A server that is hung up on in the middle of an answer complains in its log. */
    pg_drain(store);
    pg_forget_results(store);
    pg_disconnect(store);
    pg_rows_release(store);
    row_cache_release(&store->kept);
    map_release(&store->gates);
    partitions_release(&store->partitions);
    arena_release(&store->arena);
    pg_args_release(&store->args);
    pg_args_release(&store->next.args);
    pg_args_release(&store->next.filter);
    free(store->results);
    free(store->sent);
    free(store->url);
    free(store);
}

const struct store_ops STORE_POSTGRES = {
    .scheme = "postgres",
    .capabilities = STORE_SHARED | STORE_SQL | STORE_SERVER_TIME | STORE_NOTIFIES | STORE_TELLS |
                    STORE_LOOKS_AROUND,
    .open = postgres_open,
    .close = postgres_close,
    .begin = postgres_begin,
    .commit = postgres_commit,
    .rollback = postgres_rollback,
    .submit = postgres_submit,
    .ready = postgres_ready,
    .look_ahead = postgres_look_ahead,
    .move = postgres_move,
    .scan = postgres_scan,
    .import = postgres_import,
    .import_keys = postgres_import_keys,
    .shared_put = postgres_shared_put,
    .counters_add = postgres_counters_add,
    .list = postgres_list,
    .lookup = postgres_lookup,
    .history = postgres_history,
    .counts = postgres_counts,
    .groups = postgres_groups,
    .causes = postgres_causes,
    .shared_list = postgres_shared_list,
    .remembered_keys = postgres_remembered_keys,
    .counters_list = postgres_counters_list,
    .facts = postgres_facts,
    .verify = postgres_verify,
    .backup_hint = "use PostgreSQL's own: pg_dump --format=custom --schema=redrive --file=FILE "
                   "URL; it may run beside workers",
    .upkeep = postgres_upkeep,
    .wait = postgres_wait,
    .elect = postgres_elect,
};
