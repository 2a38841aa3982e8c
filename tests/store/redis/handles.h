/* handles.h - handles on the store of a server, and short words for what tests do with them.
 *
 * Those that give nothing back fail the test if they cannot do what they say.
 */
#ifndef TESTS_STORE_REDIS_HANDLES_H
#define TESTS_STORE_REDIS_HANDLES_H

#include "server.h"
#include "store/store.h"
#include "waiting.h"

/* Settings of a server that loses nothing. */
extern const char *const DURABLE[];

struct store *open_at(const struct server *s);
int begin(struct store *store, struct redrive_err *err);
/* Submits a job, into the queue "main" unless another is named. */
int put_in(struct store *store, const char *queue, const char *id, struct redrive_err *err);
int put(struct store *store, const char *id, struct redrive_err *err);
void rollback(struct store *store);
/* A transaction with a job that nobody is to see, beside one that is there; `reserves`: that one.
 */
void begin_half(struct store *store, bool reserves);
/* Starts a job; settles it as completed; cancels it. */
int start(struct store *store, int64_t seq, uint64_t token);
int settle(struct store *store, int64_t seq, uint64_t token);
int cancel(struct store *store, int64_t seq);
/* The same in a transaction of its own, which is tried again when others were in its way. */
void put_committed(struct store *store, const char *id);
void put_in_committed(struct store *store, const char *queue, const char *id);
void start_committed(struct store *store, int64_t seq, uint64_t token);
int settle_committed(struct store *store, int64_t seq, uint64_t token);
/* How often functions of the server were called. */
long calls(const struct server *s);
/* How many there are: to be claimed, in a queue, at all. */
size_t count_ready(struct store *store);
size_t count_in(struct store *store, const char *queue);
size_t count_jobs(struct store *store);

#endif
