/* leases.c - the leases of jobs that were handed out here, so that an ACK need not look for
 * its job in the store.
 */
#include "server/faktory/private.h"

#include <stdlib.h>

/* When there are more, all are forgotten, and the store is asked instead. */
#define HELD_MAX 65536

struct held_job {
    int64_t seq;
    uint64_t token;
    size_t worker_len;
    char worker[];
};

void faktory_held_release(struct faktory_server *server)
{
    MAP_FOREACH (&server->held, slot)
        free(slot->value);
    const uint64_t seed = server->held.seed;
    map_release(&server->held);
    map_init(&server->held, seed);
}

void faktory_held_add(struct faktory_server *server, const struct job *job)
{
    const struct str worker = job->status.worker;
    struct held_job *held = malloc(sizeof *held + worker.len);
    if (!held)
        return;
    held->seq = job->status.seq;
    held->token = job->status.token;
    held->worker_len = worker.len;
    memcpy(held->worker, worker.ptr, worker.len);
    if (server->held.count >= HELD_MAX)
        faktory_held_release(server);
    const struct str key = faktory_key(server, job->spec.tenant, job->spec.id);
    free(map_get(&server->held, key));
    if (map_put(&server->held, key, held) < 0) {
        (void)map_remove(&server->held, key);
        free(held);
    }
}

bool faktory_held_take(struct faktory_server *server, struct str tenant, struct str jid,
                       struct str worker, int64_t *ret_seq, uint64_t *ret_token)
{
    const struct str key = faktory_key(server, tenant, jid);
    struct held_job *held = map_get(&server->held, key);
    if (!held || !str_eq((struct str){held->worker, held->worker_len}, worker))
        return false;
    *ret_seq = held->seq;
    *ret_token = held->token;
    (void)map_remove(&server->held, key);
    free(held);
    return true;
}
