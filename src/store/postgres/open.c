/* open.c - opening a store: its schema, facts and checks, and the table of slots. */
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/text/url_mask.h"
#include "base/text/encode.h"
#include "store/postgres/private.h"

#define BUSY_DEFAULT_MS     5000
#define LIST_PARTITIONS_MAX 65536
#define URL_MAX             65536

/* ---- The schema ------------------------------------------------------------------------------ */

/* The advisory lock of a process that sets a store up or migrates it: "redrive", in ASCII, as a
 * number. */
#define SET_UP_LOCK "32199660853556837"

/* Runs simple statements, outside of a pipeline; *ret may be NULL. */
static int run_script(struct store *store, const char *sql, PGresult **ret, struct redrive_err *err)
{
    PGresult *result = PQexec(store->conn, sql);
    const ExecStatusType status = PQresultStatus(result);
    int rc =
        status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK ? 0 : pg_error(store, result, err);
    if (rc == 0 && ret)
        *ret = result;
    else
        PQclear(result);
    return rc;
}

static int read_number(struct store *store, const char *sql, int64_t *ret, struct redrive_err *err)
{
    PGresult *result;
    int rc = run_script(store, sql, &result, err);
    if (rc != 0)
        return rc;
    long long number = 0;
    if (PQntuples(result) > 0)
        (void)sscanf(PQgetvalue(result, 0, 0), "%lld", &number);
    *ret = number;
    PQclear(result);
    return 0;
}

static int belongs_to_another(struct store *store, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "the schema redrive belongs to something else");
    err_detail(err, "%s: it has tables, and redrive.meta is not among them", store->shown);
    err_hint(err, "give the store a database of its own");
    return REDRIVE_E_STATE;
}

/* The tables are counted first: another process may set the store up between the two statements,
 * and its tables must not be taken for those of another program. */
int pg_schema_read(struct store *store, int64_t *ret_version, struct redrive_err *err)
{
    int64_t has_meta = 0, tables = 0;
    *ret_version = 0;
    int rc = read_number(store,
                         "SELECT count(*)::text FROM pg_class c JOIN pg_namespace n "
                         "ON n.oid = c.relnamespace WHERE n.nspname = 'redrive'",
                         &tables, err);
    if (rc == 0)
        rc = read_number(store, "SELECT (to_regclass('redrive.meta') IS NOT NULL)::int::text",
                         &has_meta, err);
    if (rc == 0 && has_meta)
        return read_number(store, "SELECT version::text FROM redrive.meta", ret_version, err);
    return rc == 0 && tables > 0 ? belongs_to_another(store, err) : rc;
}

int pg_schema_too_new(struct store *store, int64_t version, struct redrive_err *err)
{
    if (version <= POSTGRES_SCRIPTS_COUNT)
        return 0;
    err_set(err, REDRIVE_E_STATE,
            "the store has schema version %lld, this program knows version %d", (long long)version,
            POSTGRES_SCRIPTS_COUNT);
    err_detail(err, "%s", store->shown);
    err_hint(err, "a newer redrive has set it up: use that one, or another database");
    return REDRIVE_E_STATE;
}

int pg_schema_types(struct store *store, struct redrive_err *err)
{
    const struct {
        const char *sql;
        uint32_t *ret;
    } types[] = {
        {"SELECT 'redrive.job_states'::regtype::oid::text", &store->types.jobs},
        {"SELECT 'redrive.specs'::regtype::oid::text", &store->types.specs},
        {"SELECT 'redrive.history'::regtype::oid::text", &store->types.history},
        {"SELECT 'redrive.count_deltas'::regtype::oid::text", &store->types.count_deltas},
        {"SELECT 'redrive.counters'::regtype::oid::text", &store->types.counters},
        {"SELECT 'redrive.edges'::regtype::oid::text", &store->types.edges},
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof types / sizeof types[0]; i++) {
        int64_t number = 0;
        rc = read_number(store, types[i].sql, &number, err);
        *types[i].ret = (uint32_t)number;
    }
    return rc;
}

/* Several processes may get here at once: the first one migrates, the others find it done. */
static int migrate(struct store *store, struct redrive_err *err)
{
    int64_t version = 0;
    char sql[128];
    int rc = run_script(store,
                        "BEGIN; SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0; "
                        "SELECT pg_advisory_xact_lock(" SET_UP_LOCK ")",
                        NULL, err);
    if (rc == 0)
        rc = pg_schema_read(store, &version, err);
    if (rc == 0)
        rc = pg_schema_too_new(store, version, err);
    if (rc == 0 && version == 0)
        rc = run_script(store, "CREATE SCHEMA IF NOT EXISTS redrive", NULL, err);
    for (int64_t i = version; rc == 0 && i < POSTGRES_SCRIPTS_COUNT; i++)
        rc = run_script(store, POSTGRES_SCRIPTS[i], NULL, err);
    (void)snprintf(sql, sizeof sql, "UPDATE redrive.meta SET version = %d", POSTGRES_SCRIPTS_COUNT);
    if (rc == 0)
        rc = run_script(store, sql, NULL, err);
    if (rc == 0)
        return run_script(store, "COMMIT", NULL, err);
    (void)run_script(store, "ROLLBACK", NULL, NULL);
    return rc;
}

static bool setting_is(struct store *store, const char *name, const char *value)
{
    char sql[96];
    PGresult *result = NULL;
    (void)snprintf(sql, sizeof sql, "SHOW %s", name);
    if (run_script(store, sql, &result, NULL) != 0)
        return false;
    const bool is = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), value) == 0;
    PQclear(result);
    return is;
}

/* Durability is set for the server or the role: it is read here, not set. */
static void read_durability(struct store *store)
{
    store->base.durability = STORE_SURVIVES_POWER;
    store->loss = NULL;
    if (setting_is(store, "synchronous_commit", "off")) {
        store->base.durability = STORE_SURVIVES_PROCESS;
        store->loss = "what was answered in the last three wal_writer_delay (0.6 s), when the "
                      "server crashes: its synchronous_commit is off";
    }
    if (setting_is(store, "fsync", "off")) {
        store->base.durability = STORE_SURVIVES_PROCESS;
        store->loss = "the whole database, when the server's machine crashes or loses power: its "
                      "fsync is off";
    }
}

static int set_up(struct store *store, const struct store_options *options, struct redrive_err *err)
{
    int64_t version = 0;
    int rc = pg_schema_read(store, &version, err);
    if (rc == 0 && !options->as_is)
        rc = pg_schema_too_new(store, version, err);
    if (rc != 0)
        return rc;
    store->version_found = version;
    if (version == 0 && !options->create) {
        err_set(err, REDRIVE_E_NOT_FOUND, "the store is empty");
        err_detail(err, "%s: the database has no schema redrive", store->shown);
        err_hint(err, "%s", STORE_SET_UP_HINT);
        return REDRIVE_E_NOT_FOUND;
    }
    if (version < POSTGRES_SCRIPTS_COUNT && !options->as_is)
        rc = migrate(store, err);
    if (rc == 0 && !options->as_is)
        rc = pg_schema_types(store, err);
    if (rc == 0)
        read_durability(store);
    return rc;
}

/* ---- Facts, and whether the tables are whole ------------------------------------------------- */

int postgres_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    const PGresult *result;
    int rc = pg_read(store, STATEMENT_BYTES, NULL, &result, err);
    if (rc != 0)
        return rc;
    *ret = (struct store_facts){
        .version_found = store->version_found,
        .version_newest = POSTGRES_SCRIPTS_COUNT,
        .bytes = pg_get_int(result, 0, 0),
        .server = store->server,
        .loss = store->loss,
    };
    return 0;
}

/* Queries for rows that contradict each other; each gives a seq. Damaged pages are not looked for:
 * PostgreSQL has data_checksums and pg_amcheck for that. */
static const struct {
    const char *sql;
    const char *finding;
    bool is_final; /* a repair has no answer to it */
} QUESTIONS[] = {
    {"SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.specs s ON s.seq = j.seq "
     "WHERE s.seq IS NULL LIMIT 1",
     "it has no payload"},
    {"SELECT s.seq FROM redrive.specs s LEFT JOIN redrive.job_states j ON j.seq = s.seq "
     "WHERE j.seq IS NULL LIMIT 1",
     "it has no state"},
    {"SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.partitions l ON l.partition_id = "
     "j.partition_id "
     "WHERE l.partition_id IS NULL LIMIT 1",
     "it is in no partition"},
    {"SELECT j.seq FROM redrive.job_states j LEFT JOIN redrive.history h ON h.seq = j.seq "
     "AND h.n = j.error_n WHERE j.error_n IS NOT NULL AND h.seq IS NULL LIMIT 1",
     "its latest error is gone"},
    {"SELECT coalesce(j.seq, p.seq) FROM (SELECT seq FROM redrive.job_states WHERE state = 4) j "
     "FULL JOIN redrive.parked p ON p.seq = j.seq WHERE j.seq IS NULL OR p.seq IS NULL LIMIT 1",
     "it is parked in one table, and not in the other", .is_final = true},
    {"SELECT coalesce(j.seq, k.seq) FROM (SELECT seq FROM redrive.job_states WHERE "
     "(state < 5 OR state = 9) AND has_key) j FULL JOIN redrive.live_keys k ON k.seq = j.seq "
     "WHERE j.seq IS NULL OR k.seq IS NULL LIMIT 1",
     "a unique key is held by no job, or not by its own"},
    {"SELECT seq FROM redrive.job_states WHERE state = 3 AND (lease_check_ms IS NULL "
     "OR lease_until_ms IS NULL OR lease_check_ms > lease_until_ms) LIMIT 1",
     "the end of its lease would not be found"},
    {"SELECT j.seq FROM redrive.job_states j WHERE j.state = 9 AND coalesce(j.open_parents, 0) <> "
     "(SELECT count(*) FROM redrive.edges e WHERE e.child = j.seq AND e.outcome = 0) LIMIT 1",
     "it does not wait for as many jobs as it counts", .is_final = true},
    {"SELECT e.child FROM redrive.edges e JOIN redrive.job_states c ON c.seq = e.child "
     "LEFT JOIN redrive.job_states p ON p.seq = e.parent "
     "WHERE e.outcome = 0 AND c.state = 9 AND p.seq IS NULL LIMIT 1",
     "it waits for a job that is not there"},
    {"SELECT coalesce(c.partition_id, y.partition_id)::bigint FROM (SELECT partition_id, count(*) "
     "AS n, "
     "count(*) FILTER (WHERE state = 2) AS queued FROM redrive.job_states GROUP BY partition_id) c "
     "FULL JOIN (SELECT partition_id, sum(scheduled + retrying + queued + running + parked + "
     "completed + failed + dead_letter + cancelled + waiting) AS n, sum(queued) AS queued "
     "FROM redrive.count_deltas GROUP BY partition_id) y ON y.partition_id = c.partition_id "
     "WHERE coalesce(c.n, 0) <> coalesce(y.n, 0) OR coalesce(c.queued, 0) <> "
     "coalesce(y.queued, 0) LIMIT 1",
     "the counts of this partition are not those of its jobs"},
};

/* One snapshot, without a time limit, with the plans of a large query. */
static const char *const PREPARE[] = {
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL enable_seqscan = on",
    "SET LOCAL enable_hashjoin = on",
    "SET LOCAL enable_sort = on",
};

int postgres_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                    struct redrive_err *err)
{
    int rc = pg_is_connected(store) ? 0 : pg_connect(store, true, err);
    for (size_t i = 0; rc == 0 && i < sizeof PREPARE / sizeof PREPARE[0]; i++)
        rc = pg_run_text(store, PREPARE[i], err);
    for (size_t i = 0; rc == 0 && i < sizeof QUESTIONS / sizeof QUESTIONS[0]; i++) {
        rc = pg_run_text(store, QUESTIONS[i].sql, err);
        if (rc == 0 && PQntuples(store->results[0]) > 0)
            rc = pg_damaged(store, pg_get_int(store->results[0], 0, 0), QUESTIONS[i].finding, err);
        if (rc == REDRIVE_E_CORRUPT && QUESTIONS[i].is_final)
            err_hint(err, "stop all processes and restore a backup");
        if (progress)
            progress(ctx);
    }
    if (pg_is_connected(store))
        (void)pg_run_text(store, "ROLLBACK", NULL);
    return rc;
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* The error text of libpq would have the whole URL with its password: it is not shown. */
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
    store->narrow = options->narrow > 0 ? options->narrow : LIST_NARROW;
    rng_seed(&store->rng, rng_system_seed());
    store->origin = options->origin ? options->origin : rng_system_seed();
    store->me = rng_next(&store->rng);
    store->to_compact = rng_below(&store->rng, COMPACT_EVERY);
    pg_args_init(&store->args);
    buf_init(&store->list_partitions, LIST_PARTITIONS_MAX);
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
        rc = set_up(store, options, err);
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
    pg_resign(store);
    pg_marker_remove(store);
    /* A server writes to its log when a connection is closed in the middle of an answer. */
    pg_drain(store);
    pg_forget_results(store);
    pg_disconnect(store);
    pg_rows_release(store);
    row_cache_release(&store->kept);
    map_release(&store->gates);
    partitions_release(&store->partitions);
    arena_release(&store->arena);
    pg_args_release(&store->args);
    buf_release(&store->list_partitions);
    pg_args_release(&store->next.args);
    pg_args_release(&store->next.filter);
    free(store->results);
    free(store->sent);
    free(store->url);
    free(store);
}

const struct store_ops STORE_POSTGRES = {
    STORE_SLOTS(postgres),

    .capabilities = STORE_SHARED | STORE_SQL | STORE_SERVER_TIME | STORE_NOTIFIES | STORE_TELLS |
                    STORE_ELECTS | STORE_INDEXED,
    .look_ahead = postgres_look_ahead,
    .scan_ahead = postgres_scan_ahead,
    .snapshot = postgres_snapshot,
    .repair = postgres_repair,
    .backup_hint = "use PostgreSQL's own: pg_dump --format=custom --schema=redrive --file=FILE "
                   "URL; it may run beside workers",
    .upkeep = postgres_upkeep,
    .elect = postgres_elect,
};
