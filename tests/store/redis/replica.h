/* replica.h - a server that follows another one, and may take over.
 *
 * What fails fails the test.
 */
#ifndef TESTS_STORE_REDIS_REPLICA_H
#define TESTS_STORE_REDIS_REPLICA_H

#include "server.h"

/* Settings of a server whose replicas need not wait for their first copy. */
extern const char *const PRIMARY[];

/* Until the replica has all that the primary has. */
void wait_for_replica(const struct server *replica, const struct server *primary);
/* The replica takes over, without loss, and is followed by the one that was the primary. */
void fail_over(const struct server *from, const struct server *to);

#endif
