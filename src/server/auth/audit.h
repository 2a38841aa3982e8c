/* audit.h - log lines about what administrators did and which clients were refused.
 *
 *     INFO  admin_action interface=http token=ops tenant=default client=10.0.0.7
 *           action="POST /queues/{queue}/pause" target=mail result=done
 *     WARN  access_refused interface=http token="" client=10.0.0.9 action="GET /jobs"
 *           error="the token is not known" more=0
 *
 * Actions are those that need the scope admin; each has a line. Any client can cause refusals, so
 * they are written at most once a second, with the number of those in between.
 */
#ifndef SERVER_AUTH_AUDIT_H
#define SERVER_AUTH_AUDIT_H

#include "base/os/log.h"
#include "base/os/log_pace.h"
#include "base/text/str.h"

struct audit {
    const char *interface; /* "http" or "faktory" */
    const char *token;     /* name of the token or password; "" or NULL: none */
    struct str tenant;     /* of actions */
    const char *client;    /* address as text (listen/address_counts.h) */
    const char *action;    /* method and route, or a verb */
    struct str target;     /* what it is about; may be empty */
};

/* `result`: "done" or "failed", or "asked" where the outcome comes later. */
void audit_action(const struct log *log, const struct audit *what, const char *result);
/* One thread at a time for each pace. */
void audit_refusal(const struct log *log, struct log_pace *pace, const struct audit *what,
                   const char *why);

#endif
