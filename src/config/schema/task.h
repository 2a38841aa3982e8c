/* task.h - tasks that are not in a file. */
#ifndef CONFIG_SCHEMA_TASK_H
#define CONFIG_SCHEMA_TASK_H

#include "config/schema/schema.h"

/* [struct config_task] A task that says nothing, from the defaults of b->config. */
void task_init(struct binder *b, void *object);

#endif
