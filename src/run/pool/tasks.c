/* tasks.c - which tasks of the configuration this pool runs. */
#include "run/pool/private.h"

#include "base/err.h"
#include "run/from_config.h"

static bool is_named(const struct pool_options *options, const char *task)
{
    for (size_t i = 0; i < options->n_tasks; i++)
        if (str_is(options->tasks[i], task))
            return true;
    return options->n_tasks == 0;
}

bool pool_tasks_has(const struct pool_options *options, const struct config_task *task)
{
    return task->run.kind != CONFIG_RUN_NONE && is_named(options, task->name);
}

static int no_such_task(const struct config *config, struct str name, struct redrive_err *err)
{
    const char *nearest = config_task_nearest(config, name);
    err_set(err, REDRIVE_E_CONFIG, "no task '%.*s' in the configuration", (int)name.len, name.ptr);
    if (nearest)
        err_hint(err, "did you mean '%s'?", nearest);
    return REDRIVE_E_CONFIG;
}

static int check_name(const struct config *config, struct str name, struct redrive_err *err)
{
    const struct config_task *task = config_task(config, name);
    if (task->name[0] == '\0')
        return no_such_task(config, name, err);
    if (task->run.kind != CONFIG_RUN_NONE)
        return 0;
    err_set(err, REDRIVE_E_CONFIG, "task '%s' does not say how it is run", task->name);
    err_detail(err, "its jobs wait for remote workers");
    err_hint(err, "add run: {exec: [PROGRAM]} to the task, or stream or http");
    return REDRIVE_E_CONFIG;
}

int pool_tasks_check(const struct pool_options *options, size_t *ret_n, struct redrive_err *err)
{
    const struct config *config = options->config;
    int rc = 0;
    *ret_n = 0;
    for (size_t i = 0; i < options->n_tasks && rc == 0; i++)
        rc = check_name(config, options->tasks[i], err);
    for (size_t i = 0; i < config->n_tasks && rc == 0; i++) {
        if (!pool_tasks_has(options, &config->tasks[i]))
            continue;
        rc = from_config_check(&config->tasks[i], options->environ, err);
        ++*ret_n;
    }
    if (rc < 0 || *ret_n > 0)
        return rc;
    err_set(err, REDRIVE_E_CONFIG, "there is nothing to run");
    err_detail(err, config->n_tasks ? "no task of the configuration says how it is run"
                                    : "the configuration has no tasks");
    err_hint(err, "give a task run: {exec: [PROGRAM]}, or stream or http");
    return REDRIVE_E_CONFIG;
}
