#include "stores_postgres.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "check.h"
#include "reused_databases.h"
#include "waiting.h"

static void ignore(void *ctx, const char *notice)
{
    (void)ctx;
    (void)notice;
}

static PGconn *connect_to(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    (void)PQsetNoticeProcessor(conn, ignore, NULL);
    if (PQstatus(conn) == CONNECTION_OK)
        return conn;
    fprintf(stderr, "%s: %s", url, PQerrorMessage(conn));
    exit(2);
}

/* REDRIVE_TEST_POSTGRES up to its last slash: where databases of tests are. */
static void server_url(char *ret, size_t size)
{
    const char *url = getenv("REDRIVE_TEST_POSTGRES");
    const char *slash = url ? strrchr(url, '/') : NULL;
    if (!slash) {
        fprintf(stderr, "REDRIVE_TEST_POSTGRES is not set: tools/with-servers postgres -- …\n");
        exit(2);
    }
    snprintf(ret, size, "%.*s", (int)(slash - url), url);
}

void stores_postgres_sql(const char *url, const char *sql, char *ret, size_t size)
{
    PGconn *conn = connect_to(url);
    PGresult *result = PQexec(conn, sql);
    ExecStatusType status = PQresultStatus(result);
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s: %s", sql, PQerrorMessage(conn));
        exit(2);
    }
    size_t len = 0;
    if (size > 0)
        ret[0] = '\0';
    for (int row = 0; row < PQntuples(result); row++)
        for (int column = 0; column < PQnfields(result) && len < size; column++) {
            const char *before = column ? "|" : row ? "\n" : "";
            const char *value =
                PQgetisnull(result, row, column) ? "-" : PQgetvalue(result, row, column);
            len += (size_t)snprintf(ret + len, size - len, "%s%s", before, value);
        }
    PQclear(result);
    PQfinish(conn);
}

void stores_postgres_new(char *ret, size_t size)
{
    static unsigned counter;
    char server[STORES_URL_MAX], admin[STORES_URL_MAX + 16], sql[128], name[64];
    server_url(server, sizeof server);
    snprintf(admin, sizeof admin, "%s/postgres", server);
    snprintf(name, sizeof name, "test_%ld_%u", (long)getpid(), counter++);
    snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE template0", name);
    stores_postgres_sql(admin, sql, NULL, 0);
    snprintf(ret, size, "%s/%s", server, name);
}

void stores_postgres_empty(char *ret, size_t size)
{
    char server[STORES_URL_MAX];
    server_url(server, sizeof server);
    reused_database_take(server, ret, size);
}

void stores_postgres_remove(const char *url)
{
    if (reused_database_give_back(url))
        return;
    char admin[STORES_URL_MAX + 16], sql[STORES_URL_MAX + 64];
    const char *slash = strrchr(url, '/');
    snprintf(admin, sizeof admin, "%.*s/postgres", (int)(slash - url), url);
    snprintf(sql, sizeof sql, "DROP DATABASE IF EXISTS %s WITH (FORCE)", slash + 1);
    stores_postgres_sql(admin, sql, NULL, 0);
}

/* A process has closed its connections when it is gone, not when the server's list has lost it. */
static void wait_until_gone(pid_t pid)
{
    WAIT_FOR(kill(pid, 0) != 0 && errno == ESRCH);
}

void stores_postgres_kill_all(const char *url)
{
    char pids[1024];
    stores_postgres_sql(
        url,
        "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = "
        "current_database() AND application_name = 'redrive'",
        pids, sizeof pids);
    char *rest = pids;
    for (char *pid = NULL; (pid = strsep(&rest, "\n"));)
        if (*pid)
            wait_until_gone((pid_t)strtol(pid, NULL, 10));
}

static void *hold(const char *url, const char *begin, const char *sql)
{
    PGconn *conn = connect_to(url);
    PQclear(PQexec(conn, begin));
    PGresult *result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s: %s", sql, PQerrorMessage(conn));
        exit(2);
    }
    PQclear(result);
    return conn;
}

void *stores_postgres_hold_snapshot(const char *url)
{
    return hold(url, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class");
}

void *stores_postgres_hold(const char *url, const char *sql)
{
    return hold(url, "BEGIN", sql);
}

void stores_postgres_let_go(void *session)
{
    PQfinish(session);
}
