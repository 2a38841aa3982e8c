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

struct api_context {
    struct store *store; /* NULL for a change */
    const struct config *config;
    struct str tenant; /* the operation is about this tenant; absent: about all tenants */
    int64_t now_ms;
};

/* A change that is under way. The change borrows the tenant and the name that it was begun with. */
struct api_change {
    const struct operation *operation;
    union {
        struct op op; /* the other members begin with one */
        struct pause_op pause;
        struct breaker_op breaker;
    };
};

struct operation {
    const char *path;        /* below /v1: "/queues/{queue}/pause" */
    enum config_scope scope; /* the scope that a client needs */
    /* A read, which is a GET. */
    int (*read)(const struct api_context *c, struct json_writer *w, struct redrive_err *err);
    /* A change, which is a POST. The name stands in the path in place of {queue}; a path without
     * such a place has the name in `parameter` of the query. */
    void (*begin)(const struct api_context *c, struct str name, struct api_change *change);
    const char *parameter;
    /* Looks at the change after a commit, also after one that failed. Returns API_ANSWERED,
     * API_GOES_ON, or the code of a refusal; then `ret_field` is the parameter at fault, or NULL.
     */
    int (*end)(struct api_change *change, struct json_writer *w, const char **ret_field,
               struct redrive_err *err);
    int variant; /* tells operations apart that share their functions */
};

enum {
    API_ANSWERED = 0, /* the answer is written */
    API_GOES_ON = 1,  /* the change must be committed once more */
};

void api_begin(const struct operation *operation, const struct api_context *c, struct str name,
               struct api_change *ret);

/* {"items":[…],"next":null}, all of them. */
extern const struct operation API_QUEUES;   /* with the jobs of each by state */
extern const struct operation API_BREAKERS; /* also those that no job has met and a task declares */
extern const struct operation API_LIMITS;   /* that a job has met */

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
