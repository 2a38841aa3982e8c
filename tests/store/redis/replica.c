#include "replica.h"

#include <string.h>

#include "check.h"
#include "handles.h"

const char *const PRIMARY[] = {"--repl-diskless-sync-delay", "0", NULL};

static bool has_all_of(const struct server *replica, const struct server *primary)
{
    const long offset = server_number(primary, "replication", "master_repl_offset:");
    return strstr(server_call(replica, "INFO replication"), "master_link_status:up") &&
           server_number(replica, "replication", "slave_repl_offset:") >= offset;
}

void wait_for_replica(const struct server *replica, const struct server *primary)
{
    WAIT_FOR(has_all_of(replica, primary));
}

void fail_over(const struct server *from, const struct server *to)
{
    wait_for_replica(to, from);
    /* A replica that has just come is not online before it has said so. */
    WAIT_FOR(strcmp(server_call(from, "FAILOVER TO 127.0.0.1 %d", to->port), "OK") == 0);
    WAIT_FOR(strstr(server_call(to, "INFO replication"), "role:master"));
    wait_for_replica(from, to);
}
