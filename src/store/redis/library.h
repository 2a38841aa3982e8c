/* library.h - the scripts of lua/, embedded when the program is built.
 *
 * Together they are one library of functions in the server. What is released never changes under
 * the same version of the schema, but for repairs that older processes may run as well.
 */
#ifndef STORE_REDIS_LIBRARY_H
#define STORE_REDIS_LIBRARY_H

extern const char *const REDIS_LIBRARY[];
extern const int REDIS_LIBRARY_COUNT;

#endif
