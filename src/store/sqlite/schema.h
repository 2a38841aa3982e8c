/* schema.h - the scripts of schema/, embedded when the program is built.
 *
 * Script n brings a store from version n to version n + 1; a store's version is its user_version.
 * Scripts that have been released never change: what is to be different comes in a new one.
 */
#ifndef STORE_SQLITE_SCHEMA_H
#define STORE_SQLITE_SCHEMA_H

extern const char *const STORE_SCRIPTS[];
extern const int STORE_SCRIPTS_COUNT;

#endif
