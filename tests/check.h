/* check.h - what every unit test includes: cmocka, the headers that it needs, and tests that
 * register themselves.
 *
 *     TEST(huge_numbers_saturate)
 *     {
 *         ...
 *     }
 *
 * The test files of a module are linked into one program (check_main.c): `core_tests backoff` runs
 * the tests of test_backoff.c in the order in which they stand there.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/str.h"

struct check_test {
    struct CMUnitTest test;
    const char *file;
    int line;
    struct check_test *next;
};

void check_add(struct check_test *test);

/* `run` is a test by the name `shown`; the C name `symbol` is its own. */
#define CHECK_ADD(symbol, shown, run, setup, teardown, state)                                  \
    __attribute__((constructor)) static void check_add_##symbol(void)                          \
    {                                                                                          \
        static struct check_test this_test = {                                                 \
            .test = {shown, run, setup, teardown, state}, .file = __FILE__, .line = __LINE__}; \
        check_add(&this_test);                                                                 \
    }

/* A test. Its name reads as a fact. */
#define TEST(test) TEST_AROUND(test, NULL, NULL)

/* A test with a setup and a teardown of cmocka around it. */
#define TEST_AROUND(test, setup, teardown)                          \
    static void test(void);                                         \
    static void check_run_##test(void **state)                      \
    {                                                               \
        (void)state;                                                \
        test();                                                     \
    }                                                               \
    CHECK_ADD(test, #test, check_run_##test, setup, teardown, NULL) \
    static void test(void)

/* A test that is also given what its setup has made. A kind of tests has a macro of its own:
 *
 *     #define STORE_TEST(test) TEST_WITH(test, ts_setup, ts_teardown, struct test_store *ts)
 */
#define TEST_WITH(test, setup, teardown, parameter)                 \
    CHECK_WITH(test, parameter)                                     \
    CHECK_ADD(test, #test, check_run_##test, setup, teardown, NULL) \
    static void test(parameter __attribute__((unused)))

#define CHECK_WITH(test, parameter)            \
    static void test(parameter);               \
    static void check_run_##test(void **state) \
    {                                          \
        test(*state);                          \
    }

/* A test that is given a thing of its own, which `begin` makes and `end` takes back:
 *
 *     #define ENGINE_TEST(test) \
 *         TEST_OF(test, struct test_engine, te, te_init(te), te_release(te))
 */
#define TEST_OF(test, type, thing, begin, end)                 \
    static void test(type *thing);                             \
    static void check_run_##test(void **state)                 \
    {                                                          \
        type own;                                              \
        type *thing = &own;                                    \
        (void)state;                                           \
        begin;                                                 \
        test(thing);                                           \
        end;                                                   \
    }                                                          \
    CHECK_ADD(test, #test, check_run_##test, NULL, NULL, NULL) \
    static void test(type *thing __attribute__((unused)))

/* For a file that is given words, or has something to do before or after its tests: it calls
 * check_run, and returns the exit code. */
#define TEST_MAIN(argc, argv)                                                               \
    static int check_main_of_file(int argc, char **argv);                                   \
    __attribute__((constructor)) static void check_add_main_of_file(void)                   \
    {                                                                                       \
        static struct check_main this_main = {.file = __FILE__, .run = check_main_of_file}; \
        check_add_main(&this_main);                                                         \
    }                                                                                       \
    static int check_main_of_file(int argc __attribute__((unused)),                         \
                                  char **argv __attribute__((unused)))

/* The words are those after the name of the file; the first is the program's own. */
struct check_main {
    const char *file;
    int (*run)(int argc, char **argv);
    struct check_main *next;
};

void check_add_main(struct check_main *main_of_file);

/* Runs the tests of this file, with a setup and a teardown of cmocka around all of them. */
#define check_run(setup, teardown) check_run_file(__FILE__, setup, teardown)
int check_run_file(const char *file, CMFixtureFunction setup, CMFixtureFunction teardown);

#define check_str(s, literal)                                       \
    do {                                                            \
        struct str s_ = (s);                                        \
        assert_int_equal(s_.len, strlen(literal));                  \
        assert_memory_equal(s_.len ? s_.ptr : "", literal, s_.len); \
    } while (0)

#endif
