/* sha256.h - SHA-256 (FIPS 180-4) of bytes that are all there, for passwords and tokens, and a
 * comparison of secrets that tells nothing by the time it takes. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

void sha256(const void *bytes, size_t len, uint8_t out[SHA256_BYTES]);

/* Whether the bytes are the same. Looks at all of them, wherever the first difference is. */
bool mem_equal_ct(const void *a, const void *b, size_t len);

#endif
