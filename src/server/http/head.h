/* head.h - the headers of a request: are they headers, and where does its body end?
 *
 * What one reader takes for the end of a request and the next does not is how requests are smuggled
 * past a proxy. So nothing that could be read in two ways is read at all. Pure: knows no socket.
 */
#ifndef SERVER_HTTP_HEAD_H
#define SERVER_HTTP_HEAD_H

#include <stdint.h>

#include "base/mem/arena.h"

struct http_param {
    struct str name;
    struct str value;
};

struct http_head {
    struct http_param *headers; /* space for all of them */
    size_t n;
    unsigned n_lengths;
    unsigned n_encodings;
    struct str length;
    struct str encoding;
    const char *why; /* it is refused; NULL: it is not, so far */
};

/* Adds a copy of a header. False: there is no memory, which the arena remembers. */
bool http_head_add(struct http_head *head, struct arena *arena, struct str name, struct str value);

/* After the last: 0 and the length of the body that was named (0: none, or in chunks), at most
 * UINT32_MAX; or the status with which the request is to be refused, and why. */
int http_head_finish(const struct http_head *head, uint64_t *ret_length, const char **ret_why);

#endif
