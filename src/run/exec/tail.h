/* tail.h - the last bytes of a stream, however long the stream is. */
#ifndef RUN_EXEC_TAIL_H
#define RUN_EXEC_TAIL_H

#include <stddef.h>
#include <stdint.h>

#define TAIL_MAX_BYTES (64u * 1024)

/* A ring that is allocated when the first byte comes. All zero: empty. */
struct tail {
    char *ring;
    uint64_t seen; /* bytes in all; seen % TAIL_MAX_BYTES is the place of the next */
};

void tail_release(struct tail *tail);

/* Without memory for the ring the bytes are only counted. */
void tail_add(struct tail *tail, const char *bytes, size_t len);

/* The last bytes as a terminated string in malloc'ed memory, NUL bytes made spaces; NULL when there
 * are none. A cut does not begin inside a line if a line end is near. */
char *tail_text(const struct tail *tail);

#endif
