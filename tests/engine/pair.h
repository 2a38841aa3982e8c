/* pair.h - two stores, one of which is copied into the other: the kind under test. */
#ifndef TESTS_ENGINE_PAIR_H
#define TESTS_ENGINE_PAIR_H

#include "engine/copy/copy.h"
#include "store_for_test.h"

#define DUMP_MAX ((size_t)1 << 23)

struct pair {
    struct test_store from;
    struct test_store to;
    struct copy_options options;
    struct copy_report report;
    struct redrive_err err;
};

void pair_open(struct pair *p, const char *from);
void pair_close(struct pair *p);

#define PAIR_TEST(test, ...) TEST_OF(test, struct pair, p, pair_open(p, __VA_ARGS__), pair_close(p))

int pair_try(struct pair *p);
/* Runs, and finds both to be the same. */
void pair_run(struct pair *p);

/* How many records of a kind the source has. */
int64_t rows_of(const struct pair *p, int kind);

/* Everything is the same, but for versions of rows, workers and the mark. */
void check_same(struct store *expected, struct store *is);

/* Jobs in every state, rows, counters and keys, as random transactions leave them. */
void fill(struct test_store *ts, uint64_t transactions);

void put_many(struct test_store *ts, const char *prefix, int n);
void put_row(struct test_store *ts, enum shared_kind kind, const char *key, const char *value);
void change_row(struct test_store *ts, enum shared_kind kind, const char *value);
int64_t counter_of(struct test_store *ts, const char *name);

#endif
