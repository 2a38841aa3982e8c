/* address_counts.c - a map from address to number of connections. */
#include "server/listen/address_counts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

#define KEY_MAX 8

void address_counts_init(struct address_counts *counts, unsigned max_per_address)
{
    map_init(&counts->counts, rng_system_seed());
    counts->max = max_per_address;
}

void address_counts_release(struct address_counts *counts)
{
    MAP_FOREACH (&counts->counts, slot)
        free(slot->value);
    map_release(&counts->counts);
}

unsigned address_counts_default(unsigned max_connections)
{
    return max_connections - max_connections / 4;
}

/* Of 4 bytes or 8; none: it is not counted. */
static struct str key_of(const struct sockaddr *address, char out[KEY_MAX])
{
    if (address && address->sa_family == AF_INET) {
        memcpy(out, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4);
        return (struct str){out, 4};
    }
    if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *in6 =
            &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
        const bool is_v4 = IN6_IS_ADDR_V4MAPPED(in6);
        memcpy(out, in6->s6_addr + (is_v4 ? 12 : 0), is_v4 ? 4 : 8);
        return (struct str){out, is_v4 ? 4 : 8};
    }
    return (struct str){NULL, 0};
}

bool address_same(const struct sockaddr *a, const struct sockaddr *b)
{
    char left[KEY_MAX], right[KEY_MAX];
    const struct str key = key_of(a, left);
    return key.ptr && str_eq(key, key_of(b, right));
}

/* NULL: the address has no connection, or is not counted. */
static size_t *count_of(const struct address_counts *counts, struct str key)
{
    return key.ptr ? map_get(&counts->counts, key) : NULL;
}

bool address_counts_full(const struct address_counts *counts, const struct sockaddr *address)
{
    char bytes[KEY_MAX];
    const size_t *count = count_of(counts, key_of(address, bytes));
    return counts->max > 0 && count && *count >= counts->max;
}

void address_counts_enter(struct address_counts *counts, const struct sockaddr *address)
{
    char bytes[KEY_MAX];
    const struct str key = key_of(address, bytes);
    size_t *count = count_of(counts, key);
    if (count) {
        ++*count;
    } else if (key.ptr && (count = malloc(sizeof *count))) {
        *count = 1;
        if (map_put(&counts->counts, key, count) != 0)
            free(count);
    }
}

void address_counts_leave(struct address_counts *counts, const struct sockaddr *address)
{
    char bytes[KEY_MAX];
    const struct str key = key_of(address, bytes);
    size_t *count = count_of(counts, key);
    if (count && --*count == 0)
        free(map_remove(&counts->counts, key));
}

const char *address_text(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX])
{
    const void *bytes = NULL;
    if (address && address->sa_family == AF_INET)
        bytes = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    else if (address && address->sa_family == AF_INET6)
        bytes = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    if (!bytes || !inet_ntop(address->sa_family, bytes, out, ADDRESS_TEXT_MAX))
        (void)snprintf(out, ADDRESS_TEXT_MAX, "unix");
    return out;
}
