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

/* A request about one thing: the path is `before`, the name, which is encoded, and `after` (which
 * may be NULL). */
struct remote_request {
    const char *method;
    const char *before;
    struct str name;
    const char *after;
    struct str body; /* absent: none */
};
/* Sends it, and reads the object that is answered, unless the status is 204, by the table (NULL: it
 * does not matter). The status of the answer, or a negative code. */
int remote_ask(struct remote *remote, const struct remote_request *request,
               const struct unpack *table, struct arena *arena, void *to, struct redrive_err *err);

/* GET of a path without names. */
int remote_get(struct remote *remote, const char *path, struct http_answer *ret,
               struct redrive_err *err);
/* The same of a list, read by a table. */
int remote_get_list(struct remote *remote, const char *path, const struct unpack *table,
                    size_t size, const void *blank, struct arena *arena, struct unpack_list *list,
                    struct redrive_err *err);

/* ---- Jobs (remote/jobs.c) -------------------------------------------------------------------- */

/* Sends a request about one job, `before` ID `after`, and gives the state that the job is in
 * then, if the answer says so. */
int remote_job_change(struct remote *remote, const char *method, const char *before, struct str id,
                      const char *after, struct str body, enum redrive_state *ret_state,
                      struct redrive_err *err);

/* The tasks that a server knows: those of its configuration, and those that have had jobs. */
struct remote_task {
    struct str name;
    bool is_declared;
    uint64_t started; /* attempts, of the tenant */
};
int remote_tasks(struct remote *remote, struct arena *arena, struct remote_task **ret,
                 size_t *ret_n, struct redrive_err *err);

#endif
