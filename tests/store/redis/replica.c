#include "replica.h"

#include <string.h>

#include "check.h"
#include "handles.h"

const char *const PRIMARY[] = {"--repl-diskless-sync-delay", "0", NULL};

void wait_for_replica(const struct server *replica, const struct server *primary)
{
    for (int i = 0;; i++) {
        assert_true(i < 1000);
        const long offset = server_number(primary, "replication", "master_repl_offset:");
        if (strstr(server_call(replica, "INFO replication"), "master_link_status:up") &&
            server_number(replica, "replication", "slave_repl_offset:") >= offset)
            return;
        nap(10);
    }
}

void fail_over(const struct server *from, const struct server *to)
{
    wait_for_replica(to, from);
    /* A replica that has just come is not online before it has said so. */
    for (int i = 0; strcmp(server_call(from, "FAILOVER TO 127.0.0.1 %d", to->port), "OK") != 0;
         i++) {
        assert_true(i < 1000);
        nap(10);
    }
    for (int i = 0; !strstr(server_call(to, "INFO replication"), "role:master"); i++) {
        assert_true(i < 1000);
        nap(10);
    }
    wait_for_replica(from, to);
}
