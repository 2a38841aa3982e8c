#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/text/utf8.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* How long to wait before the next try to connect: doubled each time, up to the second. */
#define BACKOFF_FIRST_MS 10
#define BACKOFF_LAST_MS  500

/* A client that was stopped in the middle of a transaction does not keep others from its jobs for
 * ever. */
#define IDLE_IN_TRANSACTION_MS 30000
#define STATEMENT_MS           60000

bool pg_is_connected(const struct store *store)
{
    return store->conn && PQstatus(store->conn) == CONNECTION_OK;
}

void pg_disconnect(struct store *store)
{
    PQfinish(store->conn);
    store->conn = NULL;
    store->n_sent = store->n_open = store->n_unheard = 0;
    store->is_listening = false;
    pg_ahead_forget(store);
    memset(store->prepared, 0, sizeof store->prepared);
}

/* What people may want otherwise comes before the URL, which then has the last word. */
PGconn *pg_dial(const struct store *store, bool for_a_glance)
{
    char seconds[16];
    const int64_t wait_s = for_a_glance || store->is_away ? 0 : store->busy_wait_ms / 1000;
    (void)snprintf(seconds, sizeof seconds, "%d", wait_s < 2 ? 2 : wait_s < 60 ? (int)wait_s : 60);
    const char *const names[] = {"connect_timeout",           "keepalives_idle",
                                 "keepalives_interval",       "keepalives_count",
                                 "tcp_user_timeout",          "target_session_attrs",
                                 "fallback_application_name", "dbname",
                                 "client_encoding",           NULL};
    const char *const values[] = {
        seconds,   "20",       "5",    "3", "30000", for_a_glance ? "any" : "read-write",
        "redrive", store->url, "UTF8", NULL};
    return PQconnectdbParams(names, values, 1);
}

/* Why a connection could not be made. PostgreSQL gives codes to what a server says about a
 * connection, but the library does not hand them out, so that the words must do. */
static int refused(struct store *store, PGconn *conn, struct redrive_err *err)
{
    static const struct {
        const char *words;
        int code;
        const char *message;
        const char *hint;
    } CASES[] = {
        {"password authentication failed", REDRIVE_E_DENIED, "the server refused the password",
         "look at the password in the URL, in PGPASSWORD or in ~/.pgpass"},
        {"no password supplied", REDRIVE_E_DENIED, "the server asks for a password",
         "put it into ~/.pgpass, into PGPASSWORD, or into the URL"},
        {"no pg_hba.conf entry", REDRIVE_E_DENIED, "the server lets nobody in from here",
         "add a line for this host, user and database to its pg_hba.conf"},
        {"role \"", REDRIVE_E_DENIED, "the server does not know this user",
         "make one with createuser, and grant it what docs/postgres.md lists"},
        {"permission denied for database", REDRIVE_E_DENIED,
         "this user may not connect to the database", "GRANT CONNECT ON DATABASE … TO …"},
        {"database \"", REDRIVE_E_STATE, "there is no such database on the server",
         "make one with createdb; the store then sets itself up in it"},
        {"too many", REDRIVE_E_IO, "the server has too many connections",
         "raise max_connections, or start fewer processes"},
        {"read-only", REDRIVE_E_IO, "the server only reads: it is a standby",
         "name all servers in the URL, postgres://HOST1,HOST2/NAME: the one that writes is used"},
    };
    char text[512];
    (void)str_copy(text, sizeof text, str_trim(str_of(PQerrorMessage(conn))));
    utf8_make_printable(text);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        if (!strstr(text, CASES[i].words))
            continue;
        err_set(err, CASES[i].code, "%s", CASES[i].message);
        err_detail(err, "%s: %s", store->shown, text);
        err_hint(err, "%s", CASES[i].hint);
        return CASES[i].code;
    }
    err_set(err, REDRIVE_E_IO, "the server cannot be reached");
    err_detail(err, "%s: %s", store->shown, text);
    err_hint(err, "is it running, and are host and port right?");
    return REDRIVE_E_IO;
}

/* Everything that statements and plans rely on, whatever the defaults of role and database are.
 * Plans are for tables of any size: a table that was empty when a statement was first planned may
 * have a million rows a minute later, before anybody has counted them. */
static int set_session(struct store *store, PGconn *conn, struct redrive_err *err)
{
    char sql[1024];
    (void)snprintf(
        sql, sizeof sql,
        "SET search_path = pg_catalog; SET standard_conforming_strings = on; SET DateStyle = ISO; "
        "SET bytea_output = hex; SET row_security = on; SET jit = off; "
        "SET max_parallel_workers_per_gather = 0; SET plan_cache_mode = force_generic_plan; "
        "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; "
        "SET enable_hashjoin = off; SET enable_mergejoin = off; SET client_min_messages = error; "
        "SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 5; "
        "SET tcp_keepalives_count = 3; SET lock_timeout = %lld; SET statement_timeout = %d; "
        "SET idle_in_transaction_session_timeout = %d",
        (long long)store->busy_wait_ms, STATEMENT_MS, IDLE_IN_TRANSACTION_MS);
    PGresult *result = PQexec(conn, sql);
    int rc = PQresultStatus(result) == PGRES_COMMAND_OK ? 0 : pg_error(store, result, err);
    PQclear(result);
    return rc;
}

static int check_server(struct store *store, PGconn *conn, struct redrive_err *err)
{
    const int version = PQserverVersion(conn);
    const char *encoding = PQparameterStatus(conn, "server_encoding");
    (void)snprintf(store->server, sizeof store->server, "PostgreSQL %.40s",
                   PQparameterStatus(conn, "server_version"));
    if (version < SERVER_OLDEST) {
        err_set(err, REDRIVE_E_STATE, "the server is too old");
        err_detail(err, "%s: %s", store->shown, store->server);
        err_hint(err, "PostgreSQL %d or newer is needed", SERVER_OLDEST / 10000);
        return REDRIVE_E_STATE;
    }
    if (!encoding || strcmp(encoding, "UTF8") != 0) {
        err_set(err, REDRIVE_E_STATE, "the database does not keep text as UTF-8");
        err_detail(err, "%s: its encoding is %s", store->shown, encoding ? encoding : "unknown");
        err_hint(err, "make one with createdb -E UTF8 -T template0");
        return REDRIVE_E_STATE;
    }
    return 0;
}

/* What matters comes back as an error. */
static void ignore_notice(void *ctx, const PGresult *notice)
{
    (void)ctx;
    (void)notice;
}

static int connect_once(struct store *store, bool is_first, struct redrive_err *err)
{
    PGconn *conn = pg_dial(store, false);
    if (!conn)
        return err_nomem(err);
    (void)PQsetNoticeReceiver(conn, ignore_notice, NULL);
    int rc = PQstatus(conn) == CONNECTION_OK ? check_server(store, conn, err)
                                             : refused(store, conn, err);
    if (rc == 0)
        rc = pg_session_learn(store, conn, is_first || store->is_swapped, err);
    if (rc == 0)
        rc = set_session(store, conn, err);
    if (rc != 0) {
        PQfinish(conn);
        return rc;
    }
    store->conn = conn;
    store->is_swapped = false;
    return 0;
}

static void nap(int64_t ms)
{
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}

int pg_connect(struct store *store, bool patiently, struct redrive_err *err)
{
    /* A restart is waited for, but not by everybody in turn: once a server has been away for that
     * long, each call makes one try, until it is back. */
    const int64_t until_ms = clock_monotonic_ms() + (store->is_away ? 0 : store->busy_wait_ms);
    int64_t pause_ms = BACKOFF_FIRST_MS;
    int64_t version;
    pg_disconnect(store);
    for (;;) {
        int rc = connect_once(store, !patiently, err);
        if (rc == 0)
            break;
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        if (rc != REDRIVE_E_IO || !patiently || left_ms <= 0) {
            store->is_away = rc == REDRIVE_E_IO && patiently;
            return rc;
        }
        nap(pause_ms < left_ms ? pause_ms : left_ms);
        pause_ms = pause_ms * 2 < BACKOFF_LAST_MS ? pause_ms * 2 : BACKOFF_LAST_MS;
    }
    store->is_away = false;
    /* A newer program may have been at it in the meantime; at the first time open looks itself. */
    int rc = patiently ? pg_schema_read(store, &version, err) : 0;
    if (rc == 0 && patiently)
        rc = pg_schema_too_new(store, version, err);
    if (rc == 0 && patiently)
        rc = pg_schema_types(store, err);
    if (rc == 0 && patiently && !PQenterPipelineMode(store->conn))
        rc = pg_connection_error(store, err);
    if (rc != 0) {
        pg_disconnect(store);
        return rc;
    }
    /* A standby that took over, or a dump that was restored, may have given the numbers of
     * partitions to others. No transaction is open here, so that nothing points to the partitions.
     */
    partitions_release(&store->partitions);
    partitions_init(&store->partitions);
    row_cache_forget(&store->kept);
    pg_gates_forget(store);
    store->answer = (struct answer){0};
    store->head = (struct head){0};
    store->is_renewed = patiently;
    return 0;
}
