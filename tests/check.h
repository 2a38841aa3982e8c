/* check.h - what every unit test includes: cmocka and the headers that it needs. */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/str.h"

/* Registers a test under the name of its function, which reads as a fact. */
#define T(function) cmocka_unit_test(function)

#define check_str(s, literal)                                       \
    do {                                                            \
        struct str s_ = (s);                                        \
        assert_int_equal(s_.len, strlen(literal));                  \
        assert_memory_equal(s_.len ? s_.ptr : "", literal, s_.len); \
    } while (0)

#endif
