/* address.h - which addresses a URL made from job data may lead to. */
#ifndef RUN_HTTP_ADDRESS_H
#define RUN_HTTP_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* False for whatever is not plainly a host of the public internet: loopback, private, link-local
 * (where cloud providers serve credentials), unique-local, carrier-grade NAT, multicast, reserved
 * and documentation networks, IPv6 forms that carry an IPv4 address to a relay, and every family
 * but the two. An IPv4 address inside IPv6 (::ffff:10.0.0.1) is judged as itself. */
bool address_is_public(const struct sockaddr *address);

#endif
