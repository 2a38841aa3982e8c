/* remote.h - a server of Redrive that the command line asks over HTTP, in place of a store.
 *
 * Each function sends the requests of docs/http.md and gives the answer as what the store would
 * give, so that a command prints both with the same code. The server answers for the tenant of the
 * token, and for no other.
 *
 * Fails as the store would where the server says so. REDRIVE_E_IO: the server cannot be reached;
 * REDRIVE_E_DENIED: it does not know the token, the token may not do this, or its certificate is
 * not trusted; REDRIVE_E_PARSE: the answer is not one of a Redrive server.
 */
#ifndef CLI_REMOTE_REMOTE_H
#define CLI_REMOTE_REMOTE_H

#include "base/mem/arena.h"
#include "base/text/buf.h"
#include "cli/frame/cli.h"
#include "cli/remote/unpack.h"
#include "run/http/client.h"

struct remote;

/* Asks the server of the command line (cli_server) who is asking. */
int remote_open(struct cli *cli, struct remote **ret, struct redrive_err *err);
void remote_close(struct remote *remote);

/* As it was given, for titles. */
const char *remote_url(const struct remote *remote);
/* The time by the clock of the jobs. */
int64_t remote_now_ms(const struct remote *remote);
/* Whose jobs the server shows. */
struct str remote_tenant(const struct remote *remote);
/* REDRIVE_E_DENIED for a tenant that is not the token's; NULL is any. */
int remote_check_tenant(const struct remote *remote, const char *tenant, struct redrive_err *err);

/* ---- Requests -------------------------------------------------------------------------------- */

/* A path is made of texts that are sent as they are and names that are encoded:
 *
 *     remote_path(&path, "/jobs/", id, "/retry", NULL);
 */
#define REMOTE_PATH_MAX (32u * 1024)
void remote_path(struct buf *path, const char *before, struct str name, const char *after);
/* Adds ?name=value or &name=value; nothing for a value without a pointer. */
void remote_query(struct buf *path, const char *name, const char *value);

/* Sends a request and takes its answer, of which `ret` (which http_answer_init has seen) has the
 * body. An answer that is an error becomes one here. */
int remote_call(struct remote *remote, const char *method, const struct buf *path, struct str body,
                struct http_answer *ret, struct redrive_err *err);

/* A request that changes what the path names, `before` NAME `after`, and has no body; what is
 * answered does not matter. */
int remote_change(struct remote *remote, const char *method, const char *before, struct str name,
                  const char *after, struct redrive_err *err);

/* GET of a path without names. */
int remote_get(struct remote *remote, const char *path, struct http_answer *ret,
               struct redrive_err *err);
/* The same, read by a table. */
int remote_get_object(struct remote *remote, const char *path, const struct unpack *table,
                      struct arena *arena, void *to, struct redrive_err *err);
int remote_get_list(struct remote *remote, const char *path, const struct unpack *table,
                    size_t size, const void *blank, struct arena *arena, struct unpack_list *list,
                    struct redrive_err *err);

#endif
