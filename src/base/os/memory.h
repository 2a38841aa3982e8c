/* memory.h - how a program gets memory from the system, and gives it back. */
#ifndef BASE_OS_MEMORY_H
#define BASE_OS_MEMORY_H

#include <stddef.h>

/* Blocks of this size and more go back to the system when they are freed. It is larger than the
 * buffers of a commit of small jobs, which are not to be mapped anew each time. */
#define MEMORY_LARGE_BYTES ((size_t)256 * 1024)

/* Once, at the start of a program; never in a library, because it concerns all of the process.
 * Without it glibc learns from the first large block that is freed: from then on it keeps blocks of
 * up to that size, at most 32 MiB, in its heaps. A server that has had large payloads for a moment
 * would keep their memory for good. Does nothing with another C library. */
void memory_give_back_large(void);

#endif
