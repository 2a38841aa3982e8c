/* check.h - checks that need the whole configuration. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/schema/bind.h"

/* Completes b->config, all keys of which are bound from `root`: the task that is used for
 * undeclared ones, and the index by name. Then checks the references between sections. */
void check_whole(struct binder *b, const struct node *root);

/* Looks at a cron entry as a part of `whole`: whether its task is declared, where
 * strict_tasks asks for it, and whether it has the payload that the task requires. */
void check_cron(struct binder *b, const struct config *whole, const struct node *map,
                const struct config_cron *entry);

#endif
