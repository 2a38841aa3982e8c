/* memory.c - allocations that fail. In a library that is preloaded they are those of the whole
 * process. A program with a sanitizer has an allocator of its own, which no library can replace:
 * it is linked with --wrap and FAULTS_WRAPPED, and then the allocations of its own code fail. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "control.h"

#ifdef FAULTS_WRAPPED
#define NAMED(name) __wrap_##name
#define REAL(name)  __real_##name
#else
#define NAMED(name) name
#define REAL(name)  __libc_##name
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t n, size_t size);
void *REAL(realloc)(void *old, size_t size);
void *NAMED(malloc)(size_t size);
void *NAMED(calloc)(size_t n, size_t size);
void *NAMED(realloc)(void *old, size_t size);
char *NAMED(strdup)(const char *text);
char *NAMED(strndup)(const char *text, size_t max);

static bool fails(const void *caller)
{
    if (!allocation_fails(caller))
        return false;
    errno = ENOMEM;
    return true;
}

void *NAMED(malloc)(size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(size);
}

void *NAMED(calloc)(size_t n, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : REAL(calloc)(n, size);
}

void *NAMED(realloc)(void *old, size_t size)
{
    return fails(__builtin_return_address(0)) ? NULL : REAL(realloc)(old, size);
}

/* Those of the C library would allocate in its name. */
char *NAMED(strndup)(const char *text, size_t max)
{
    const size_t len = strnlen(text, max);
    char *copy = fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(len + 1);
    if (copy) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

char *NAMED(strdup)(const char *text)
{
    const size_t len = strlen(text);
    char *copy = fails(__builtin_return_address(0)) ? NULL : REAL(malloc)(len + 1);
    if (copy)
        memcpy(copy, text, len + 1);
    return copy;
}
