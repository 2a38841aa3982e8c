/* workload.h - what a queue goes through before its power is cut.
 *
 * A workload is one or more lives of an engine on the same store, one after the other, each of
 * which ends with a clean close. It does the same each time, on every store: time and randomness
 * are arguments.
 */
#ifndef TESTS_CRASH_WORKLOAD_H
#define TESTS_CRASH_WORKLOAD_H

#include "engine/engine_for_test.h"

struct life {
    const char *sql_before; /* run on the file before the store is opened; NULL: nothing */
    void (*live)(struct test_engine *te);
};

struct workload {
    const char *name;
    const char *yaml; /* the configuration */
    const struct life *lives;
    size_t n_lives;
    size_t first; /* the life from whose beginning on the power is cut */
};

/* Every verb of the engine, retention, periodic tasks; a store that is set up, and opened again. */
extern const struct workload WORKLOAD_BUSY;
/* The first of its lives: enough for bugs that are planted. */
extern const struct workload WORKLOAD_SHORT;
/* A store of an older schema, with jobs in it, is brought up to date. */
extern const struct workload WORKLOAD_MIGRATION;

#endif
