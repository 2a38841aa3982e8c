/* address_counts.h - how many connections each address has, so that one cannot have them all.
 *
 * An address is an IPv4 address, or the first half of an IPv6 address: a host can choose the rest.
 * Clients of a Unix socket have none and are not counted. One thread at a time; each server has
 * its own.
 */
#ifndef SERVER_LISTEN_ADDRESS_COUNTS_H
#define SERVER_LISTEN_ADDRESS_COUNTS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/mem/map.h"

struct address_counts {
    struct map counts; /* address to a size_t of its own */
    unsigned max;      /* 0: no limit */
};

void address_counts_init(struct address_counts *counts, unsigned max_per_address);
void address_counts_release(struct address_counts *counts);

/* Whether the address has as many as it may. */
bool address_counts_full(const struct address_counts *counts, const struct sockaddr *address);
/* One more, and one less, whatever the limit. When there is no memory it is not counted. */
void address_counts_enter(struct address_counts *counts, const struct sockaddr *address);
void address_counts_leave(struct address_counts *counts, const struct sockaddr *address);

/* Whether both count as one. False for those that are not counted. */
bool address_same(const struct sockaddr *a, const struct sockaddr *b);

/* The limit for one address where none was set: three quarters of all, so that others get in. */
unsigned address_counts_default(unsigned max_connections);

#define ADDRESS_TEXT_MAX 64
/* The address as text without its port, for logs; "unix" for a Unix socket. */
const char *address_text(const struct sockaddr *address, char out[ADDRESS_TEXT_MAX]);

#endif
