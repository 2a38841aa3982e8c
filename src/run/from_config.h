/* from_config.h - the runner that a task of the configuration asks for. */
#ifndef RUN_FROM_CONFIG_H
#define RUN_FROM_CONFIG_H

#include "config/config.h"
#include "run/runner.h"

/* Whether the task's program is there and can be executed: REDRIVE_E_CONFIG, with the task and what
 * was looked for. A name without a slash is looked for in the PATH of `inherited`. For a task that
 * is run by HTTP there is nothing to look for. */
int from_config_check(const struct config_task *task, char *const *inherited,
                      struct redrive_err *err);

/* A runner of the task's kind; the task says how it is run. Task and environment are borrowed until
 * the runner is freed. */
int from_config_runner(uv_loop_t *loop, const struct log *log, const struct config_task *task,
                       char *const *inherited, struct runner **ret, struct redrive_err *err);

#endif
