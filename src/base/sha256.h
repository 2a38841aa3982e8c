/* sha256.h - SHA-256 (FIPS 180-4) of bytes that are all there, for passwords and tokens. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_BYTES 32

void sha256(const void *bytes, size_t len, uint8_t out[SHA256_BYTES]);

#endif
