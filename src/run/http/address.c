/* address.c - the networks that are not public. */
#include "run/http/address.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct network4 {
    uint8_t a, b, c, d;
    int bits;
};

/* IANA's special-purpose registry, and one that a cloud took from its public range. */
static const struct network4 NOT_PUBLIC_4[] = {
    {0, 0, 0, 0, 8},        /* this network */
    {10, 0, 0, 0, 8},       /* private */
    {100, 64, 0, 0, 10},    /* carrier-grade NAT */
    {127, 0, 0, 0, 8},      /* loopback */
    {168, 63, 129, 16, 32}, /* Azure's host services */
    {169, 254, 0, 0, 16},   /* link-local, metadata */
    {172, 16, 0, 0, 12},    /* private */
    {192, 0, 0, 0, 24},     /* protocol assignments */
    {192, 0, 2, 0, 24},     /* documentation */
    {192, 88, 99, 0, 24},   /* 6to4 relays */
    {192, 168, 0, 0, 16},   /* private */
    {198, 18, 0, 0, 15},    /* benchmarks */
    {198, 51, 100, 0, 24},  /* documentation */
    {203, 0, 113, 0, 24},   /* documentation */
    {224, 0, 0, 0, 4},      /* multicast */
    {240, 0, 0, 0, 4},      /* reserved, broadcast */
};

static bool is_public_4(uint32_t address)
{
    for (size_t i = 0; i < sizeof NOT_PUBLIC_4 / sizeof NOT_PUBLIC_4[0]; i++) {
        const struct network4 *n = &NOT_PUBLIC_4[i];
        uint32_t base = (uint32_t)n->a << 24 | (uint32_t)n->b << 16 | (uint32_t)n->c << 8 | n->d;
        if ((address ^ base) >> (32 - n->bits) == 0)
            return false;
    }
    return true;
}

static bool has_prefix(const uint8_t *address, const uint8_t *prefix, int bits)
{
    int bytes = bits / 8, rest = bits % 8;
    return memcmp(address, prefix, (size_t)bytes) == 0 &&
           (rest == 0 || (address[bytes] ^ prefix[bytes]) >> (8 - rest) == 0);
}

struct network6 {
    uint8_t prefix[12];
    int bits;
};

static bool is_public_6(const uint8_t *address)
{
    static const struct network6 mapped = {{[10] = 0xff, 0xff}, 96};
    static const struct network6 global = {{0x20}, 3};
    static const struct network6 not_public[] = {
        {{0x20, 0x01}, 23},             /* protocol assignments, Teredo */
        {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation */
        {{0x20, 0x02}, 16},             /* 6to4 */
        {{0x3f, 0xff}, 20},             /* documentation */
    };
    if (has_prefix(address, mapped.prefix, mapped.bits))
        return is_public_4((uint32_t)address[12] << 24 | (uint32_t)address[13] << 16 |
                           (uint32_t)address[14] << 8 | address[15]);
    if (!has_prefix(address, global.prefix, global.bits))
        return false;
    for (size_t i = 0; i < sizeof not_public / sizeof not_public[0]; i++)
        if (has_prefix(address, not_public[i].prefix, not_public[i].bits))
            return false;
    return true;
}

bool address_is_public(const struct sockaddr *address)
{
    switch (address->sa_family) {
    case AF_INET:
        return is_public_4(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    case AF_INET6:
        return is_public_6(((const struct sockaddr_in6 *)(const void *)address)->sin6_addr.s6_addr);
    default: return false;
    }
}
