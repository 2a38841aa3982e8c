#include "reused_databases.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "base/rng.h"
#include "store/postgres/private.h"
#include "stores.h"

#define MOST 32 /* databases, of all processes */
#define NAME "redrive_test_"

/* Locks of this process, on a connection of its own. */
static PGconn *locks;
static pid_t locks_of;
static bool is_locked[MOST], is_taken[MOST];

/* What a database has besides rows of jobs: what a test may have changed and emptying does not
 * restore. */
#define SHAPE                                                                                  \
    "SELECT md5(string_agg(thing, ',' ORDER BY thing)) FROM ("                                 \
    "SELECT concat_ws(' ', oid, relname, relkind, relnatts, relhastriggers, relacl) AS thing " \
    "FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, "                    \
    "'pg_toast'::regnamespace, 'information_schema'::regnamespace) "                           \
    "UNION ALL SELECT concat_ws(' ', oid, xmin, proname, proacl) FROM pg_proc WHERE "          \
    "pronamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) "    \
    "UNION ALL SELECT concat_ws(' ', oid, nspname, nspacl) FROM pg_namespace "                 \
    "WHERE nspname NOT LIKE 'pg\\_%' "                                                         \
    "UNION ALL SELECT concat_ws(' ', tgrelid, tgname, tgenabled) FROM pg_trigger "             \
    "UNION ALL SELECT setconfig::text FROM pg_db_role_setting "                                \
    "UNION ALL SELECT version::text FROM redrive.meta) things"

/* The tables that are not emptied have the same rows in every store, or one. To delete a few rows
 * takes a tenth of the time of TRUNCATE, which makes new files. As a replica the session checks no
 * references and runs no triggers. */
#define MAKE_EMPTY                                                                           \
    "SET lock_timeout = '10s'; SET client_min_messages = error; "                            \
    "SET session_replication_role = replica; "                                               \
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "                                \
    "WHERE datname = current_database() AND pid <> pg_backend_pid(); "                       \
    "DO $$ BEGIN FOR i IN 1..2000 LOOP PERFORM pg_stat_clear_snapshot(); "                   \
    "EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() " \
    "AND pid <> pg_backend_pid() AND backend_type = 'client backend'); "                     \
    "PERFORM pg_sleep(0.002); END LOOP; END $$; "                                            \
    "DO $$ DECLARE name regclass; large text; BEGIN FOR name IN SELECT oid "                 \
    "FROM pg_class WHERE relnamespace = 'redrive'::regnamespace AND relkind = 'r' AND "      \
    "relname NOT IN ('meta', 'shared_version', 'states', 'classes', 'reasons') AND "         \
    "pg_relation_size(oid) > 0 LOOP "                                                        \
    "IF pg_relation_size(name) > 65536 THEN large := concat_ws(', ', large, name); "         \
    "ELSE EXECUTE 'DELETE FROM ' || name; END IF; END LOOP; "                                \
    "IF large IS NOT NULL THEN EXECUTE 'TRUNCATE ' || large || ' CASCADE'; END IF; END $$; " \
    "SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence; "                  \
    "UPDATE redrive.shared_version SET version = 1 WHERE version <> 1; " SHAPE

static void end(const char *what, PGconn *conn)
{
    fprintf(stderr, "%s: %s", what, PQerrorMessage(conn));
    exit(2);
}

static void ignore(void *ctx, const char *notice)
{
    (void)ctx;
    (void)notice;
}

/* The first value of the last statement; false: it has failed, or gives none. */
static bool ask(PGconn *conn, const char *sql, char *ret, size_t size)
{
    PGresult *result = PQexec(conn, sql);
    const bool has_one = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0;
    if (has_one)
        snprintf(ret, size, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return has_one;
}

static void run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        end(sql, conn);
    PQclear(result);
}

static PGconn *connect_to(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    if (PQstatus(conn) != CONNECTION_OK)
        end(url, conn);
    (void)PQsetNoticeProcessor(conn, ignore, NULL);
    return conn;
}

/* The locks of a parent are its own: its connection is not closed here, as that would end it. */
static void connect_locks(const char *server)
{
    char url[STORES_URL_MAX + 16];
    if (locks && locks_of == getpid())
        return;
    snprintf(url, sizeof url, "%s/postgres", server);
    locks = connect_to(url);
    locks_of = getpid();
    memset(is_locked, 0, sizeof is_locked);
    memset(is_taken, 0, sizeof is_taken);
}

static bool can_lock(int number)
{
    char sql[96], answer[8];
    snprintf(sql, sizeof sql, "SELECT pg_try_advisory_lock(hashtext('" NAME "'), %d)", number);
    is_locked[number] =
        is_locked[number] || (ask(locks, sql, answer, sizeof answer) && answer[0] == 't');
    return is_locked[number];
}

static int lock_one(void)
{
    for (int ours = 1; ours >= 0; ours--)
        for (int i = 0; i < MOST; i++)
            if (is_locked[i] == ours && !is_taken[i] && can_lock(i))
                return i;
    fprintf(stderr, "%d databases are in use\n", MOST);
    exit(2);
}

/* The scripts that this program sets a store up with. */
static uint64_t hash_of_scripts(void)
{
    uint64_t hash = 0;
    for (int i = 0; i < POSTGRES_SCRIPTS_COUNT; i++)
        hash = rng_hash(POSTGRES_SCRIPTS[i], strlen(POSTGRES_SCRIPTS[i]), hash);
    return hash;
}

static bool read_shape(const char *url, const char *sql, char *ret, size_t size)
{
    char shape[64];
    PGconn *conn = connect_to(url);
    const bool is_read = ask(conn, sql, shape, sizeof shape);
    PQfinish(conn);
    snprintf(ret, size, "%016llx %s", (unsigned long long)hash_of_scripts(), is_read ? shape : "");
    return is_read;
}

/* The comment of a database says how it was when it was new. */
static bool could_be_emptied(int number, const char *url)
{
    char sql[160], expected[96], shape[96];
    snprintf(sql, sizeof sql,
             "SELECT shobj_description(oid, 'pg_database') FROM pg_database "
             "WHERE datname = '" NAME "%d'",
             number);
    return ask(locks, sql, expected, sizeof expected) &&
           strtoull(expected, NULL, 16) == hash_of_scripts() &&
           read_shape(url, MAKE_EMPTY, shape, sizeof shape) && strcmp(shape, expected) == 0;
}

static void make(int number, const char *url)
{
    char sql[192], shape[96];
    struct redrive_err err = {0};
    struct store *store;
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS " NAME "%d WITH (FORCE)", number);
    run(locks, sql);
    snprintf(sql, sizeof sql, "CREATE DATABASE " NAME "%d TEMPLATE template0", number);
    run(locks, sql);
    if (store_open(url, &(struct store_options){.create = true}, &store, &err) < 0) {
        fprintf(stderr, "%s: %s; %s\n", url, err.message, err.detail);
        exit(2);
    }
    store_close(store);
    if (!read_shape(url, SHAPE, shape, sizeof shape)) {
        fprintf(stderr, "%s: its tables cannot be listed\n", url);
        exit(2);
    }
    snprintf(sql, sizeof sql, "COMMENT ON DATABASE " NAME "%d IS '%s'", number, shape);
    run(locks, sql);
}

void reused_database_take(const char *server, char *ret, size_t size)
{
    connect_locks(server);
    const int number = lock_one();
    is_taken[number] = true;
    snprintf(ret, size, "%s/" NAME "%d", server, number);
    if (!could_be_emptied(number, ret))
        make(number, ret);
}

bool reused_database_give_back(const char *url)
{
    const char *name = strrchr(url, '/');
    int number;
    if (!name || sscanf(name, "/" NAME "%d", &number) != 1 || number < 0 || number >= MOST)
        return false;
    is_taken[number] = false;
    return true;
}
