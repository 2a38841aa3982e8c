/* tasks.h - the definitions of tasks that processes share.
 *
 * A process that works publishes the tasks of its configuration as shared rows, one a task, when it
 * starts. A process whose configuration does not have a task goes by what was published: its jobs
 * get the queue, policy, breaker and limits that their task has elsewhere. Its own configuration
 * always comes first. Where processes publish different definitions the one that started last wins;
 * a task that no process declares any more stays as it was. Workers of other languages, which have
 * no configuration, declare their tasks through a server.
 *
 * How a task is run is not published: only the process that runs it needs to know.
 */
#ifndef ENGINE_TASKS_H
#define ENGINE_TASKS_H

#include "base/json/json.h"
#include "base/mem/arena.h"
#include "config/config.h"
#include "engine/op.h"

struct engine;

/* Reads the rows that have changed. */
int tasks_load(struct engine *e, struct redrive_err *err);
/* What was seen of the store may not be so any more (STORE_VERSION_UNKNOWN): all are read again. */
void tasks_distrust(struct engine *e);
void tasks_release(struct engine *e);

/* The definition that holds: the configuration's, the published one, or the defaults. For the
 * thread that owns the engine; it holds until the transaction ends. */
const struct config_task *task_in_force(const struct engine *e, struct str name);

/* All that are declared here or have been published, each once, in the memory of the transaction;
 * NULL: out of memory. */
const struct config_task **tasks_in_force(struct engine *e, size_t *ret_n);

/* Publishes the tasks of the configuration that are not there yet, or are there in another form. */
struct publish_op {
    struct op op;
    size_t n_changed; /* the answer */
};
void publish_op_init(struct publish_op *op);

/* Publishes tasks that are given as JSON, in the form of the configuration's section `tasks`, on
 * top of the defaults of this process; those that its configuration has are left as they are. Tasks
 * are the same for all tenants.
 *
 *     struct declare_op op;
 *     rc = declare_op_init(&op, engine, json, err);     any thread
 *     if (rc == 0)
 *         rc = engine_apply_one(engine, &op.op, err);
 *     declare_op_release(&op);                          also when the init has failed
 */
#define DECLARE_MAX 10000
struct declare_op {
    struct op op;
    struct arena arena;
    struct json_member *tasks;
    size_t n;
    size_t n_changed; /* the answer */
};
int declare_op_init(struct declare_op *op, const struct engine *e, struct str json,
                    struct redrive_err *err);
void declare_op_release(struct declare_op *op);

#endif
