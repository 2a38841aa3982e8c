/* sha256.c - SHA-256, HMAC, and a comparison in constant time. */
#include "base/sha256.h"

#include <string.h>

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return (x >> n) | (x << (32 - n));
}

static uint32_t read_word(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_word(uint8_t *p, uint32_t x)
{
    p[0] = (uint8_t)(x >> 24);
    p[1] = (uint8_t)(x >> 16);
    p[2] = (uint8_t)(x >> 8);
    p[3] = (uint8_t)x;
}

static void mix(uint32_t state[8], const uint8_t block[SHA256_BLOCK_BYTES])
{
    uint32_t w[64];
    uint32_t v[8];
    for (int i = 0; i < 16; i++)
        w[i] = read_word(block + (size_t)i * 4);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ (w[i - 15] >> 3);
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ (w[i - 2] >> 10);
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + K[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
    *s = (struct sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                   0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void sha256_add(struct sha256 *s, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    const size_t held = s->len % SHA256_BLOCK_BYTES;
    s->len += len;
    if (held > 0) {
        const size_t room = SHA256_BLOCK_BYTES - held;
        const size_t n = len < room ? len : room;
        if (n > 0)
            memcpy(s->block + held, p, n);
        if (n < room)
            return;
        mix(s->state, s->block);
        p += n;
        len -= n;
    }
    for (; len >= SHA256_BLOCK_BYTES; len -= SHA256_BLOCK_BYTES, p += SHA256_BLOCK_BYTES)
        mix(s->state, p);
    if (len > 0)
        memcpy(s->block, p, len);
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
    static const uint8_t PADDING[SHA256_BLOCK_BYTES] = {0x80};
    const uint64_t bits = s->len << 3;
    const size_t held = s->len % SHA256_BLOCK_BYTES;
    uint8_t length[8];
    write_word(length, (uint32_t)(bits >> 32));
    write_word(length + 4, (uint32_t)bits);
    sha256_add(s, PADDING, (held < 56 ? 56 : 120) - held);
    sha256_add(s, length, sizeof length);
    for (size_t i = 0; i < 8; i++)
        write_word(out + i * 4, s->state[i]);
}

void sha256(const void *bytes, size_t len, uint8_t out[SHA256_BYTES])
{
    struct sha256 s;
    sha256_init(&s);
    sha256_add(&s, bytes, len);
    sha256_end(&s, out);
}

void hmac_sha256(struct str key, const struct str *parts, size_t n_parts, uint8_t out[SHA256_BYTES])
{
    uint8_t block[SHA256_BLOCK_BYTES] = {0};
    struct sha256 s;
    if (key.len > sizeof block)
        sha256(key.ptr, key.len, block);
    else if (key.len > 0)
        memcpy(block, key.ptr, key.len);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36;
    sha256_init(&s);
    sha256_add(&s, block, sizeof block);
    for (size_t i = 0; i < n_parts; i++)
        sha256_add(&s, parts[i].ptr, parts[i].len);
    sha256_end(&s, out);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36 ^ 0x5c;
    sha256_init(&s);
    sha256_add(&s, block, sizeof block);
    sha256_add(&s, out, SHA256_BYTES);
    sha256_end(&s, out);
}

bool mem_equal_ct(const void *a, const void *b, size_t len)
{
    const volatile uint8_t *x = a;
    const volatile uint8_t *y = b;
    /* Volatile, so that no compiler leaves the loop early. */
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < len; i++)
        difference |= (uint8_t)(x[i] ^ y[i]);
    return difference == 0;
}
