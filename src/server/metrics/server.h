/* server.h - an HTTP server that has nothing but GET /metrics, for workers.
 *
 * It has the series of this process only: those of the store are a server's to export. Access is as
 * everywhere: without tokens programs of this machine may read, else a token with the scope `read`
 * is needed. The values are those of the token's tenant, or without tokens of all together.
 */
#ifndef SERVER_METRICS_SERVER_H
#define SERVER_METRICS_SERVER_H

#include <stdint.h>

#include "base/os/log.h"
#include "config/config.h"
#include "engine/store_status.h"
#include "server/metrics/run_times.h"

struct metrics_server;

/* All are borrowed until it has stopped. */
struct metrics_server_options {
    const struct config *config; /* listen.metrics must be set */
    struct run_times *times;
    struct store_status *store_status;
    const struct log *log;
};

/* Fails as tls_identity_load and http_server_start do. */
int metrics_server_start(const struct metrics_server_options *options, struct metrics_server **ret,
                         struct redrive_err *err);
uint16_t metrics_server_port(const struct metrics_server *server);
/* NULL does nothing. */
void metrics_server_stop(struct metrics_server *server);

#endif
