/* reused_databases.h - PostgreSQL databases in which a store is set up, for one test after the
 * other.
 *
 * To make a database and to set a store up in it takes longer than most tests. So a database is
 * emptied when the next test asks for one. The databases redrive_test_0, redrive_test_1, … stay on
 * the server; a process that uses one has an advisory lock of that number. A database that is no
 * longer as a new one would be, apart from its rows, is made again.
 */
#ifndef TESTS_STORE_REUSED_DATABASES_H
#define TESTS_STORE_REUSED_DATABASES_H

#include <stdbool.h>
#include <stddef.h>

/* The URL of an empty store, on the server whose databases are at `server`/NAME. Ends the program
 * when there is none. */
void reused_database_take(const char *server, char *ret, size_t size);

/* Gives it back; false: it is not one of these. Connections to it may still be open. */
bool reused_database_give_back(const char *url);

#endif
