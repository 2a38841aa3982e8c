/* archive_line.h - how a line of an export carries its hash. */
#ifndef ENGINE_COPY_ARCHIVE_LINE_H
#define ENGINE_COPY_ARCHIVE_LINE_H

#include <stdio.h>
#include <string.h>

#include "engine/copy/archive.h"

/* Between the last member of a record and its end. */
#define ARCHIVE_HASH_BEFORE ",\"hash\":\""
#define ARCHIVE_HASH_DIGITS 16
#define ARCHIVE_HASH_AFTER  "\"}"
#define ARCHIVE_HASH_BYTES \
    (sizeof ARCHIVE_HASH_BEFORE - 1 + ARCHIVE_HASH_DIGITS + sizeof ARCHIVE_HASH_AFTER - 1)

#define ARCHIVE_HASH_MAX (ARCHIVE_HASH_DIGITS + 1)

/* Moves the hash over all lines on by one line, and gives it as text. */
static inline void archive_chain(uint8_t chain[SHA256_BYTES], const uint8_t hash[SHA256_BYTES],
                                 char ret[ARCHIVE_HASH_MAX])
{
    uint8_t both[2 * SHA256_BYTES];
    memcpy(both, chain, SHA256_BYTES);
    memcpy(both + SHA256_BYTES, hash, SHA256_BYTES);
    sha256(both, sizeof both, chain);
    for (int i = 0; i < ARCHIVE_HASH_DIGITS / 2; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", chain[i]);
}

#endif
