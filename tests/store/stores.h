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

/* Removes what is left behind at an URL, once nobody has it open. */
void stores_remove(const char *url);

#endif
