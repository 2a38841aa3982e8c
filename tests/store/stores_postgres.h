/* stores_postgres.h - databases for tests, on the server that REDRIVE_TEST_POSTGRES names. */
#ifndef TESTS_STORE_STORES_POSTGRES_H
#define TESTS_STORE_STORES_POSTGRES_H

#include "stores.h"

/* A database of its own without a store, or one of reused_databases.h with an empty store. */
void stores_postgres_new(char *ret, size_t size);
void stores_postgres_empty(char *ret, size_t size);
void stores_postgres_remove(const char *url);

/* Runs SQL there; rows by lines, columns by bars, NULL as a dash. Ends the program on an error. */
void stores_postgres_sql(const char *url, const char *sql, char *ret, size_t size);

/* Ends the connections of stores, and waits until the server's processes behind them are gone. */
void stores_postgres_kill_all(const char *url);

/* A session that sees the database as it is now, until it is let go: nothing is vacuumed. */
void *stores_postgres_hold_snapshot(const char *url);
/* A session with an open transaction in which the statement was run; rolled back when it is let go.
 */
void *stores_postgres_hold(const char *url, const char *sql);
void stores_postgres_let_go(void *session);

#endif
