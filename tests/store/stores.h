/* stores.h - which stores there are to be tested, and where.
 *
 * REDRIVE_TEST_STORE names the one that a run is about; memory if it is not set.
 */
#ifndef TESTS_STORE_STORES_H
#define TESTS_STORE_STORES_H

#include <stddef.h>

#define STORES_URL_MAX 256

/* The name of the store under test. Ends the program when there is none of that name. */
const char *stores_name(void);

/* The URL of a place where nothing is yet. */
void stores_new_url(const char *name, char ret[STORES_URL_MAX]);

/* The URL of a store without jobs, or of a place where one can be set up. */
void stores_empty_url(const char *name, char ret[STORES_URL_MAX]);

/* Removes what is left behind at an URL, once no process has it open. */
void stores_remove(const char *url);

#endif
