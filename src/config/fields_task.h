/* fields_task.h - tasks, for whoever needs one that stands in no file. */
#ifndef CONFIG_FIELDS_TASK_H
#define CONFIG_FIELDS_TASK_H

#include "config/schema.h"

/* [struct config_task] A task that says nothing, from the defaults of b->config. */
void task_init(struct binder *b, void *object);

#endif
