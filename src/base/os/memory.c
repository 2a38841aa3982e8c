/* memory.c - tells glibc which blocks to give back. */
#include "base/os/memory.h"

#include <stdlib.h> /* for __GLIBC__ */

#ifdef __GLIBC__
#include <malloc.h>
#endif

void memory_give_back_large(void)
{
#ifdef __GLIBC__
    /* This ends the learning of M_TRIM_THRESHOLD as well, which stays below: a free end of a heap
     * that were larger would serve large blocks before any are mapped. */
    (void)mallopt(M_MMAP_THRESHOLD, (int)MEMORY_LARGE_BYTES);
#endif
}
