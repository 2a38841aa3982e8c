/* schema.h - the scripts of schema/, embedded when the program is built.
 *
 * Script n brings a store from version n to version n + 1; a store's version is in redrive.meta.
 * Scripts that have been released never change: what is to be different comes in a new one.
 */
#ifndef STORE_POSTGRES_SCHEMA_H
#define STORE_POSTGRES_SCHEMA_H

extern const char *const POSTGRES_SCRIPTS[];
extern const int POSTGRES_SCRIPTS_COUNT;

#endif
