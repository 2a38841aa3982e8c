/* remote.h - a server of Redrive that the command line asks over HTTP, in place of a store.
 *
 * Operations are called by answer.h; this is the way to the server: address, token, certificates,
 * and errors as the store would give them. The server answers for the tenant of the token, and for
 * no other.
 *
 * REDRIVE_E_IO: the server cannot be reached; REDRIVE_E_DENIED: it does not know the token, the
 * token may not do this, or its certificate is not trusted; REDRIVE_E_PARSE: the answer is not one
 * of a Redrive server.
 */
#ifndef CLI_SHARED_REMOTE_H
#define CLI_SHARED_REMOTE_H

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "cli/frame/cli.h"
#include "run/http/client.h"

struct remote;

/* Asks the server of the command line (cli_server) who is asking. REDRIVE_E_DENIED also for a
 * --tenant that is not the token's. */
int remote_open(struct cli *cli, struct remote **ret, struct redrive_err *err);
void remote_close(struct remote *remote);

/* As it was given, for titles. */
const char *remote_url(const struct remote *remote);
/* The time by the clock of the jobs. */
int64_t remote_now_ms(const struct remote *remote);
/* Whose jobs the server shows. */
struct str remote_tenant(const struct remote *remote);

/* ---- Requests -------------------------------------------------------------------------------- */

#define REMOTE_PATH_MAX (32u * 1024)
/* Adds ?name=value or &name=value. */
void remote_query(struct buf *path, const char *name, struct str value);

/* Sends a request and takes its answer, of which `ret` (which http_answer_init has seen) has the
 * body. An answer that is an error becomes one here. */
int remote_call(struct remote *remote, const char *method, const struct buf *path, struct str body,
                struct http_answer *ret, struct redrive_err *err);

#endif
