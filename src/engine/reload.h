/* reload.h - another configuration for an engine that is at work.
 *
 *     struct reload_op op;
 *     reload_op_init(&op, config, err);          makes of it what the engine needs
 *     committer_run(committer, &op.op, err);
 *     … op.in_force …
 *     reload_op_release(&op);                    lets go of the former one
 *
 * From the operation on everything goes by the new configuration: policies, classification, limits,
 * breakers, periodic tasks, alerts, retention; its tasks are published. Jobs that were submitted
 * before keep the queue and the keys that they came in with. The engine holds its configuration,
 * and so does a submit that is under way: the former one is freed when the last of them lets go.
 */
#ifndef ENGINE_RELOAD_H
#define ENGINE_RELOAD_H

#include "config/config.h"
#include "engine/transaction.h"

struct classifier;

struct reload_op {
    struct op op;
    bool in_force; /* the answer; a failure after that is of the store, and is made up for */
    /* What the engine gets, and afterwards what it had. */
    struct config *config;
    struct classifier *classifier;
};

/* Holds the configuration until release. */
int reload_op_init(struct reload_op *op, const struct config *config, struct redrive_err *err);
void reload_op_release(struct reload_op *op);

#endif
