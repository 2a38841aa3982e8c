/* check.h - what only the whole of a configuration can tell. */
#ifndef CONFIG_CHECK_H
#define CONFIG_CHECK_H

#include "config/schema/bind.h"

/* Completes b->config, all keys of which are bound from `root`: the task that stands for those
 * that nobody declared, and the index by name. Then looks at what sections say of each other. */
void check_whole(struct binder *b, const struct node *root);

/* Looks at a cron entry as a part of `whole`: whether its task is declared, where
 * strict_tasks asks for it, and whether it has the payload that the task requires. */
void check_cron(struct binder *b, const struct config *whole, const struct node *map,
                const struct config_cron *entry);

#endif
