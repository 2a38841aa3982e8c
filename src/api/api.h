/* api.h - the operations that people and programs ask for, each said once.
 *
 * An operation is a row and a function. The server carries it over HTTP, and the command line calls
 * it in its own process or over HTTP: the answer is the same JSON, byte for byte, for the same
 * store, tenant and time.
 *
 * A read is done with a store handle of the caller, on the thread of the caller, and may wait for
 * the store. It writes its answer only when nothing can fail any more.
 *
 * A change waits for nothing: `begin` makes an operation of the engine, which the caller has
 * committed, and `end` makes the answer of what it has become, or asks for another commit.
 */
#ifndef API_API_H
#define API_API_H

#include <stdint.h>

#include "base/json/writer.h"
#include "config/config.h"
#include "engine/verbs/control.h"
#include "redrive.h"
#include "store/store.h"

/* Who asks whom, and when. */
struct api_context {
    struct store *store; /* of a read */
    const struct config *config;
    struct str tenant; /* whose things; absent: everybody's */
    int64_t now_ms;
};

/* A change that is under way. It borrows what the context and the names point to. */
struct api_change {
    const struct operation *operation;
    union {
        struct op op; /* which all others begin with */
        struct pause_op pause;
        struct breaker_op breaker;
    };
};

struct operation {
    const char *path;        /* of HTTP, without /v1: "/queues/{queue}/pause" */
    enum config_scope scope; /* what a client has to be allowed to do */
    /* A read. */
    int (*read)(const struct api_context *c, struct json_writer *w, struct redrive_err *err);
    /* A change, by POST: of what the path names, or, where it has no placeholder, the parameter of
     * the query. */
    void (*begin)(const struct api_context *c, struct str name, struct api_change *change);
    /* After a commit, also one that failed. API_ANSWERED, API_GOES_ON: the operation is to be
     * committed once more; or a code, with the name of what is at fault, NULL: no name is. */
    int (*end)(struct api_change *change, struct json_writer *w, const char **ret_field,
               struct redrive_err *err);
    const char *parameter;
    int variant; /* of operations that share their functions */
};

enum {
    API_ANSWERED = 0,
    API_GOES_ON = 1,
};

void api_begin(const struct operation *operation, const struct api_context *c, struct str name,
               struct api_change *ret);

/* {"items":[…],"next":null}, all of them. */
extern const struct operation
    API_QUEUES; /* how many jobs in each state, and whether it is paused */
extern const struct operation API_BREAKERS; /* with those that tasks declare, met by a job or not */
extern const struct operation API_LIMITS;   /* those that a job has met */

/* {"queue":…,"paused":…}. A name that no queue can have is refused. */
extern const struct operation API_PAUSE;
extern const struct operation API_RESUME;

/* {"key":…,"state":…} and the counts of the breaker. Only one that is there or that a task declares
 * can be reset, or be told of a failure. */
extern const struct operation API_BREAKER_RESET;
extern const struct operation API_BREAKER_TRIP;
extern const struct operation API_BREAKER_DISABLE;
extern const struct operation API_BREAKER_FAILURE;

/* Around the items of a list; `next` is where the next page begins, NULL: there is none. */
void api_begin_items(struct json_writer *w);
void api_end_items(struct json_writer *w, const char *next);

#endif
