/* sha256.h - SHA-256 (FIPS 180-4) for passwords and tokens, HMAC (RFC 2104) with it for signatures,
 * and a comparison of secrets in constant time. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/str.h"

#define SHA256_BYTES       32
#define SHA256_BLOCK_BYTES 64

void sha256(const void *bytes, size_t len, uint8_t out[SHA256_BYTES]);

/* The same, piece by piece. */
struct sha256 {
    uint32_t state[8];
    uint64_t len;
    uint8_t
        block[SHA256_BLOCK_BYTES]; /* its first len % SHA256_BLOCK_BYTES bytes are not mixed yet */
};
void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t len);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

/* HMAC-SHA-256 of the parts, one after the other. */
void hmac_sha256(struct str key, const struct str *parts, size_t n_parts,
                 uint8_t out[SHA256_BYTES]);

/* Whether the bytes are the same. Looks at all of them, wherever the first difference is. */
bool mem_equal_ct(const void *a, const void *b, size_t len);

#endif
