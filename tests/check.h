/* check.h - what every unit test includes: cmocka and the headers that it needs. */
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
