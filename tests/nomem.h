/* nomem.h - malloc, calloc and realloc that fail when the test says so.
 *
 *     static bool may_allocate(void) { … }
 *     #include "nomem.h"
 *
 * The program is linked with --wrap of the three.
 */
#ifndef TESTS_NOMEM_H
#define TESTS_NOMEM_H

#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return may_allocate() ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return may_allocate() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
    return may_allocate() ? __real_realloc(old, size) : NULL;
}

#endif
