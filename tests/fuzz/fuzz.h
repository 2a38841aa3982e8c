/* fuzz.h - what every fuzz target includes.
 *
 * A target defines LLVMFuzzerTestOneInput, which must hold for any bytes: it aborts by FUZZ_CHECK
 * when a promise is broken, and is watched by the sanitizers meanwhile. libFuzzer calls it with
 * inputs of its own making; in an ordinary build replay_main.c calls it with files.
 */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

#endif
