/* url.h - URLs with placeholders that a job fills in, and the addresses that they may lead to. */
#ifndef RUN_HTTP_URL_H
#define RUN_HTTP_URL_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/text/buf.h"
#include "run/runner.h"

/* Whether job data decides where it leads: there is a placeholder in its scheme, user, host or
 * port, not only in path or query. */
bool url_host_is_made_by_jobs(const char *url);

/* Appends the URL with {id}, {task}, {queue}, {tenant} and {payload.a.b} filled in. A member of the
 * payload must be a text, a number or a boolean, and not empty. Everything but letters, digits and
 * `-._~` is percent-encoded, so that a value can never end the part of the URL that it is in; the
 * values `.` and `..`, which lead to another part, are refused. INVALID names the placeholder that
 * is unknown, that the job has nothing for, or that it has such a value for. */
int url_expand(const char *url, const struct run_request *request, struct buf *out,
               struct redrive_err *err);

/* Whether a URL made from job data may lead there. False for whatever is not plainly a host of the
 * public internet: loopback, private, link-local (where cloud providers serve credentials),
 * unique-local, carrier-grade NAT, multicast, reserved and documentation networks, IPv6 forms that
 * carry an IPv4 address to a relay, and every family but IPv4 and IPv6. An IPv4 address inside IPv6
 * (::ffff:10.0.0.1) is judged as itself. */
bool address_is_public(const struct sockaddr *address);

#endif
