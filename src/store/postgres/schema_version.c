#include <stdio.h>

#include "base/err.h"
#include "store/postgres/private.h"
#include "store/postgres/schema.h"

/* Whoever sets a store up, or brings it up to date, holds this advisory lock: "redrive", in ASCII,
 * as a number. */
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

/* The tables are counted first: somebody may be setting the store up, and what was made between two
 * statements must not look like somebody else's. */
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
    };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof types / sizeof types[0]; i++) {
        int64_t number = 0;
        rc = read_number(store, types[i].sql, &number, err);
        *types[i].ret = (uint32_t)number;
    }
    return rc;
}

/* Several processes may get here at once: the first one does it, the others look again. */
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

/* Durability is the server's affair, and the role's: it is read, not set. */
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

int pg_schema_set_up(struct store *store, const struct store_options *options,
                     struct redrive_err *err)
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
