/* library.h - the scripts of lua/, embedded when the program is built.
 *
 * Together they are one library of functions in the server, whose name follows from its text. Under
 * the same version of the schema processes of several releases work on the same store, each with
 * its own library: what a transaction is, and what stands in the keys, never changes under it.
 */
#ifndef STORE_REDIS_LIBRARY_H
#define STORE_REDIS_LIBRARY_H

extern const char *const REDIS_LIBRARY[];
extern const int REDIS_LIBRARY_COUNT;

#endif
