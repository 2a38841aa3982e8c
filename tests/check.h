/* check.h - what every unit test includes: cmocka and the headers that it needs.
 *
 * The test files of a module are linked into one program, whose main is in check_main.c. Each file
 * ends with
 *
 *     CHECK_FILE(backoff)
 *     {
 *         const struct CMUnitTest tests[] = {T(huge_numbers_saturate), ...};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 *
 * and is run by its name: `core_tests backoff`.
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

/* A test file of the program. `run` gets the program's name and the words after the file's name,
 * and returns the exit code. */
struct check_file {
    const char *name;
    int (*run)(int argc, char **argv);
    struct check_file *next;
};

void check_register(struct check_file *file);

#define CHECK_FILE(file)                                                                \
    static int check_file_##file(int argc, char **argv);                                \
    __attribute__((constructor)) static void check_register_##file(void)                \
    {                                                                                   \
        static struct check_file this_file = {.name = #file, .run = check_file_##file}; \
        check_register(&this_file);                                                     \
    }                                                                                   \
    static int check_file_##file(int argc __attribute__((unused)),                      \
                                 char **argv __attribute__((unused)))

/* Registers a test under the name of its function, which reads as a fact. */
#define T(function) cmocka_unit_test(function)

/* cmocka 1.1 writes "not ok 1 # SKIP name" of a test that calls skip(), which readers of TAP take
 * for a failure. Such lines lose their "not ". */
static inline ssize_t check_write_tap(void *original, const char *text, size_t len)
{
    for (const char *line = text, *end = text + len, *next; line < end; line = next) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        next = newline ? newline + 1 : end;
        if (next - line > 7 && memcmp(line, "not ok ", 7) == 0 &&
            memmem(line, (size_t)(next - line), " # SKIP", 7))
            line += strlen("not ");
        (void)fwrite(line, 1, (size_t)(next - line), original);
    }
    return fflush(original) == 0 ? (ssize_t)len : 0;
}

static inline void check_mend_tap(void)
{
    static const cookie_io_functions_t IO = {.write = check_write_tap};
    FILE *mended = fopencookie(stdout, "w", IO);
    if (!mended)
        return;
    (void)setvbuf(mended, NULL, _IOLBF, BUFSIZ);
    stdout = mended;
}

#undef cmocka_run_group_tests
#undef cmocka_run_group_tests_name
#define cmocka_run_group_tests(tests, setup, teardown) \
    cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    (check_mend_tap(),                                            \
     _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown))

#define check_str(s, literal)                                       \
    do {                                                            \
        struct str s_ = (s);                                        \
        assert_int_equal(s_.len, strlen(literal));                  \
        assert_memory_equal(s_.len ? s_.ptr : "", literal, s_.len); \
    } while (0)

#endif
