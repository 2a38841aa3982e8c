/* connect.c - connections and their sessions, and what errors of the server mean. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/text/encode.h"
#include "base/time/clock.h"
#include "store/postgres/private.h"

/* How long to wait before the next try to connect: doubled each time, up to BACKOFF_LAST_MS. */
#define BACKOFF_FIRST_MS 10
#define BACKOFF_LAST_MS  500

/* A process that was stopped in the middle of a transaction does not lock its jobs for ever. */
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

/* A new connection; `is_probe`: any server will do, and it is not tried for long. Settings before
 * `dbname` are defaults, which the URL overrides. */
static PGconn *dial(const struct store *store, bool is_probe)
{
    char seconds[16];
    const int64_t wait_s = is_probe || store->is_away ? 0 : store->busy_wait_ms / 1000;
    (void)snprintf(seconds, sizeof seconds, "%d", wait_s < 2 ? 2 : wait_s < 60 ? (int)wait_s : 60);
    const char *const names[] = {"connect_timeout",           "keepalives_idle",
                                 "keepalives_interval",       "keepalives_count",
                                 "tcp_user_timeout",          "target_session_attrs",
                                 "fallback_application_name", "dbname",
                                 "client_encoding",           NULL};
    const char *const values[] = {
        seconds,   "20",       "5",    "3", "30000", is_probe ? "any" : "read-write",
        "redrive", store->url, "UTF8", NULL};
    return PQconnectdbParams(names, values, 1);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

/* The second connection gets no session in this time: it waits for one of its own. */
#define TURN_MS 1000
/* The first connection has a session, or gets one: the pool decides how long that may take. */
#define PATIENT_MS INT32_MAX

/* The pid of the server process that answers; 0: none does in time. */
static int answering_pid(PGconn *conn, int64_t limit_ms)
{
    const int64_t until_ms = clock_monotonic_ms() + limit_ms;
    int pid = 0;
    if (!PQsendQuery(conn, "SELECT pg_catalog.pg_backend_pid()"))
        return 0;
    while (PQisBusy(conn)) {
        struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};
        const int64_t left_ms = until_ms - clock_monotonic_ms();
        const int n = left_ms > 0 ? poll(&fd, 1, (int)left_ms) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0 || !PQconsumeInput(conn))
            return 0;
    }
    for (PGresult *result = PQgetResult(conn); result; result = PQgetResult(conn)) {
        if (PQresultStatus(result) == PGRES_TUPLES_OK)
            pid = (int)strtol(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
    }
    return pid;
}

/* A pool that keeps sessions gives each connection a server process of its own, always the same. A
 * pool that does not gives each transaction a free process: mostly the last one used, or each in
 * turn. So the order of the questions is: this connection (before), other, other, this one. */
static bool keeps_sessions(struct store *store, PGconn *conn)
{
    PGconn *other = dial(store, true);
    bool is_kept = true;
    if (other && PQstatus(other) == CONNECTION_OK) {
        const int first = answering_pid(other, TURN_MS);
        const int second = first ? answering_pid(other, TURN_MS) : 0;
        const int again = answering_pid(conn, PATIENT_MS);
        /* If a connection has broken meanwhile, the next statement on it fails. */
        is_kept = first != store->session_pid && (!second || second == first) &&
                  (!again || again == store->session_pid);
    }
    PQfinish(other);
    return is_kept;
}

/* Learns the pid of the server process of a new connection. With `look` a pool that does not keep
 * sessions is refused, if that shows. */
static int learn_session(struct store *store, PGconn *conn, bool look, struct redrive_err *err)
{
    store->session_pid = answering_pid(conn, PATIENT_MS);
    if (store->session_pid == 0)
        return pg_connection_error(store, err);
    /* A pool gives its client a pid that is not that of the server process. */
    const bool is_pooled = store->session_pid != PQbackendPID(conn);
    if (!look || !is_pooled || keeps_sessions(store, conn))
        return 0;
    err_set(err, REDRIVE_E_STATE, POOL_MESSAGE);
    err_detail(err, "%s: two connections were given the same session, or one was given two",
               store->shown);
    err_hint(err, POOL_HINT);
    return REDRIVE_E_STATE;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* Why a connection could not be made. libpq does not return the SQLSTATE of a refused connection,
 * so that the text has to be matched. */
static int explain_refusal(struct store *store, PGconn *conn, struct redrive_err *err)
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
        {"no pg_hba.conf entry", REDRIVE_E_DENIED,
         "the server accepts no connections from this host",
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

/* The settings that statements and plans rely on, whatever the defaults of role and database are.
 * Plans must suit tables of any size: a table that was empty when a statement was first planned may
 * have a million rows a minute later, before the first ANALYZE. */
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
        (long long)pg_lock_wait_ms(store), STATEMENT_MS, IDLE_IN_TRANSACTION_MS);
    PGresult *result = PQexec(conn, sql);
    store->lock_wait_ms = pg_lock_wait_ms(store);
    int rc = PQresultStatus(result) == PGRES_COMMAND_OK ? 0 : pg_error(store, result, err);
    PQclear(result);
    return rc;
}

int64_t pg_lock_wait_ms(const struct store *store)
{
    const int64_t ms = store->base.lock_wait_ms;
    return ms > 0 && ms < store->busy_wait_ms ? ms : store->busy_wait_ms;
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

/* Notices are not needed: what matters comes as an error. */
static void ignore_notice(void *ctx, const PGresult *notice)
{
    (void)ctx;
    (void)notice;
}

static int connect_once(struct store *store, bool is_first, struct redrive_err *err)
{
    PGconn *conn = dial(store, false);
    if (!conn)
        return err_nomem(err);
    (void)PQsetNoticeReceiver(conn, ignore_notice, NULL);
    int rc = PQstatus(conn) == CONNECTION_OK ? check_server(store, conn, err)
                                             : explain_refusal(store, conn, err);
    if (rc == 0)
        rc = learn_session(store, conn, is_first || store->is_swapped, err);
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
    /* It waits for a server that restarts. Once one wait was in vain, each further call makes one
     * try only, until the server is back. */
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
    /* A newer program may have migrated the store meanwhile; after the first connect open checks.
     */
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
    /* A standby that took over, or a dump that was restored, may use the numbers for other
     * partitions. No transaction is open here, so that nothing points to the partitions. */
    partitions_release(&store->partitions);
    partitions_init(&store->partitions);
    row_cache_forget(&store->kept);
    pg_gates_forget(store);
    store->answer = (struct answer){0};
    store->head = (struct head){0};
    store->is_renewed = patiently;
    return 0;
}

/* ---- What errors mean ------------------------------------------------------------------------ */

/* What PostgreSQL's codes mean to the operator; the first prefix that fits. */
static const struct meaning {
    const char *prefix; /* of the code */
    int code;
    const char *message;
    const char *hint;
} MEANINGS[] = {
    {"RD002", REDRIVE_E_CANCELLED, "the marker of this handle's commits is not as it was left", ""},
    {"RD003", REDRIVE_E_CANCELLED, "another transaction was in the way", "it can be tried again"},
    {"RD004", REDRIVE_E_CANCELLED, "the server's clock was changed", ""},
    {"RD005", REDRIVE_E_CANCELLED, "a limit has no room left, or is not as it was", ""},
    {"40", REDRIVE_E_CANCELLED, "another transaction was in the way", "it can be tried again"},
    {"55P03", REDRIVE_E_CANCELLED, "another transaction was in the way for too long",
     "an application's transaction that is still open holds this id, unique key or job: let it "
     "commit; pg_stat_activity shows it as 'idle in transaction'"},
    {"28", REDRIVE_E_DENIED, "the server does not let this user in",
     "look at user and password in the store's URL, and at pg_hba.conf"},
    {"3D000", REDRIVE_E_STATE, "there is no such database on the server",
     "make one with createdb; the store then sets itself up in it"},
    {"42501", REDRIVE_E_DENIED, "this user may not do that",
     "docs/postgres.md lists the grants that a store needs"},
    {"42P05", REDRIVE_E_STATE, POOL_MESSAGE, POOL_HINT},
    {"26000", REDRIVE_E_STATE, POOL_MESSAGE, POOL_HINT},
    {"25006", REDRIVE_E_IO, "the server only reads: it is a standby", ""},
    {"25P03", REDRIVE_E_CANCELLED, "the transaction was open for too long", ""},
    {"53100", REDRIVE_E_IO, "the disk of the server is full", STORE_FULL_HINT},
    {"53200", REDRIVE_E_IO, "the server is out of memory", ""},
    {"53300", REDRIVE_E_IO, "the server has too many connections",
     "raise max_connections, or start fewer processes"},
    {"57014", REDRIVE_E_IO, "the server took too long", ""},
    {"57P", REDRIVE_E_IO, "the server is stopping or starting", ""},
    {"08", REDRIVE_E_IO, "the connection to the server is gone", ""},
    {"54", REDRIVE_E_TOO_BIG, "a value is too large for the store", ""},
    {"XX001", REDRIVE_E_CORRUPT, "the store is damaged",
     "stop all processes and restore a backup; see the log of the server"},
    {"XX002", REDRIVE_E_CORRUPT, "an index of the store is damaged",
     "REINDEX SCHEMA redrive; see the log of the server"},
    {"3F000", REDRIVE_E_NOT_FOUND, "the store is gone from the database",
     "the schema redrive was dropped: restore it, or start again with an empty one"},
    {"42P01", REDRIVE_E_NOT_FOUND, "a table of the store is gone",
     "the schema redrive was dropped or changed: restore it"},
};

static const struct meaning *meaning_of(const char *state)
{
    for (size_t i = 0; i < sizeof MEANINGS / sizeof MEANINGS[0]; i++)
        if (strncmp(state, MEANINGS[i].prefix, strlen(MEANINGS[i].prefix)) == 0)
            return &MEANINGS[i];
    return NULL;
}

/* A standby, or a server that stops: the next connection may find another server. */
static bool ends_connection(const char *state)
{
    return strcmp(state, "25006") == 0 || strncmp(state, "57P", 3) == 0 ||
           strncmp(state, "08", 2) == 0 || strcmp(state, "25P03") == 0;
}

/* A pool has given the connection another session, or has reset it. */
static bool is_of_another_session(const char *state)
{
    return strcmp(state, "26000") == 0 || strcmp(state, "42P05") == 0;
}

/* Nothing of a transaction whose session is lost was committed. */
static int code_of(const struct store *store, const struct meaning *meaning)
{
    if (!meaning)
        return REDRIVE_E_INTERNAL;
    return store->in_transaction && is_of_another_session(meaning->prefix) ? REDRIVE_E_CANCELLED
                                                                           : meaning->code;
}

int pg_error(struct store *store, const PGresult *result, struct redrive_err *err)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *primary = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const struct meaning *meaning = state ? meaning_of(state) : NULL;
    char text[256];
    if (!state)
        return pg_connection_error(store, err);
    (void)str_copy(text, sizeof text, str_of(primary ? primary : ""));
    utf8_make_printable(text);
    store->is_swapped |= is_of_another_session(state);
    if (strcmp(state, "RD002") == 0)
        store->marker.commits = 0; /* the next commit makes another one */
    store->is_stale |= strcmp(state, "RD003") == 0;
    store->base.is_blocked |= strcmp(state, "55P03") == 0;
    const int code = code_of(store, meaning);
    err_set(err, code, "%s", meaning ? meaning->message : "the store refused a statement");
    err_detail(err, "%s: %s (%s)", store->shown, text, state);
    err_hint(err, "%s", meaning ? meaning->hint : "");
    if (!ends_connection(state))
        return code;
    /* Nothing of the transaction was committed, unless this is the commit, which then asks for its
     * outcome. */
    return store->in_transaction && code == REDRIVE_E_IO
               ? err_set(err, REDRIVE_E_CANCELLED, "the connection to the server is gone")
               : code;
}

int pg_connection_error(struct store *store, struct redrive_err *err)
{
    char text[256];
    (void)str_copy(text, sizeof text,
                   str_trim(str_of(store->conn ? PQerrorMessage(store->conn) : "")));
    utf8_make_printable(text);
    const int code = store->in_transaction ? REDRIVE_E_CANCELLED : REDRIVE_E_IO;
    err_set(err, code, "the connection to the server is gone");
    err_detail(err, "%s%s%s", store->shown, *text ? ": " : "", text);
    err_hint(err, "it is made again as soon as the server answers");
    return code;
}

int pg_damaged(struct store *store, int64_t seq, const char *what, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CORRUPT, "the store is damaged");
    err_detail(err, "%s: job %lld: %s", store->shown, (long long)seq, what);
    err_hint(err, "%s", STORE_REPAIR_HINT);
    return REDRIVE_E_CORRUPT;
}
