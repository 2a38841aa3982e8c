/* api.h - the operations that people and programs ask for, each said once.
 *
 * An operation is a row and a function. The server carries it over HTTP, and the command line calls
 * it in its own process or over HTTP: the answer is the same JSON, byte for byte, for the same
 * store, tenant and time.
 *
 * A read is done with a store handle of the caller, on the thread of the caller, and may wait for
 * the store. It writes its answer only when nothing can fail any more.
 */
#ifndef API_API_H
#define API_API_H

#include <stdint.h>

#include "base/json/writer.h"
#include "config/config.h"
#include "redrive.h"
#include "store/store.h"

/* Who asks whom, and when. */
struct api_context {
    struct store *store;
    const struct config *config;
    struct str tenant; /* whose things; absent: everybody's */
    int64_t now_ms;
};

struct operation {
    const char *path;        /* of HTTP, without /v1 */
    enum config_scope scope; /* what a client has to be allowed to do */
    int (*read)(const struct api_context *c, struct json_writer *w, struct redrive_err *err);
};

/* {"items":[…],"next":null}, all of them. */
extern const struct operation
    API_QUEUES; /* how many jobs in each state, and whether it is paused */
extern const struct operation API_BREAKERS; /* with those that tasks declare, met by a job or not */
extern const struct operation API_LIMITS;   /* those that a job has met */

/* Around the items of a list; `next` is where the next page begins, NULL: there is none. */
void api_begin_items(struct json_writer *w);
void api_end_items(struct json_writer *w, const char *next);

#endif
