/* check.c - checks of the whole: tasks that are named but not declared, servers that other machines
 * can reach, files that other users can read. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "config/config.h"
#include "config/load/load.h"
#include "config/schema/schema.h"
#include "config/schema/types.h"

/* ---- Tasks by name --------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b)
{
    const struct config_task *left = *(const struct config_task *const *)a;
    const struct config_task *right = *(const struct config_task *const *)b;
    return strcmp(left->name, right->name);
}

static void index_tasks(struct binder *b)
{
    struct config *config = b->config;
    config->tasks_by_name = arena_array(b->arena, config->n_tasks, sizeof(struct config_task *));
    if (!config->tasks_by_name)
        return;
    for (size_t i = 0; i < config->n_tasks; i++)
        config->tasks_by_name[i] = &config->tasks[i];
    qsort(config->tasks_by_name, config->n_tasks, sizeof(struct config_task *), compare_names);
}

/* ---- Tasks that others name ------------------------------------------------------------------ */

/* The task that an element names, or NULL. */
typedef const char *task_of_fn(const struct config *config, size_t i);

static const char *task_of_alert(const struct config *config, size_t i)
{
    return config->alerts[i].task;
}

static const char *task_of_row(const struct config *config, size_t i)
{
    return config->classify[i].task;
}

/* An undeclared task is a warning, or with strict_tasks an error. */
static void check_task(struct binder *b, const struct config *config, const struct node *at,
                       const char *task)
{
    if (config_task(config, str_of(task)) != &config->undeclared)
        return;

    char shown[NODE_SHOW_MAX];
    node_show(str_of(task), shown);
    const char *format = "task %s is not declared";
    struct redrive_err *err = config->strict_tasks ? bind_error(b, at, format, shown)
                                                   : bind_warning(b, at, format, shown);
    if (err)
        err_suggest(err, config_task_nearest(config, str_of(task)));
}

/* Elements are in the order of their nodes. */
static void check_tasks_of(struct binder *b, const struct node *section, size_t n,
                           task_of_fn *task_of)
{
    const struct node *child = section ? section->first : NULL;
    for (size_t i = 0; child && i < n; i++, child = child->next) {
        const char *task = task_of(b->config, i);
        if (task)
            check_task(b, b->config, node_find(child, STR("task")), task);
    }
}

void check_cron(struct binder *b, const struct config *whole, const struct node *map,
                const struct config_cron *entry)
{
    if (!entry->task)
        return;
    check_task(b, whole, node_find(map, STR("task")), entry->task);
    const struct config_task *task = config_task(whole, str_of(entry->task));
    if (task->payload == CONFIG_PAYLOAD_REQUIRED && strcmp(entry->payload, "null") == 0)
        bind_lack(b, map, "payload", "task '%.60s' requires a payload", task->name);
}

static void check_cron_entries(struct binder *b, const struct node *section)
{
    const struct node *child = section ? section->first : NULL;
    for (size_t i = 0; child && i < b->config->n_cron; i++, child = child->next)
        check_cron(b, b->config, child, &b->config->cron[i]);
}

/* An experiment whose task is not there could never have a job. */
static void check_experiment(struct binder *b, const struct node *map,
                             struct experiment *experiment)
{
    const struct config_task *declared = config_task(b->config, str_of(experiment->task));
    const struct node *at = node_find(map, STR("task"));
    char shown[NODE_SHOW_MAX];
    if (declared == &b->config->undeclared) {
        struct redrive_err *err = bind_error(b, at, "task %s is not declared",
                                             node_show(str_of(experiment->task), shown));
        const char *nearest = config_task_nearest(b->config, str_of(experiment->task));
        if (nearest)
            err_suggest(err, nearest);
        else
            err_hint(err, "declare it under `tasks:`");
        return;
    }
    struct config_task *task = &b->config->tasks[declared - b->config->tasks];
    if (task->experiment)
        err_hint(bind_error(b, at, "task '%.60s' takes part in experiment '%.64s' already",
                            task->name, task->experiment->name),
                 "a job has one policy: let one experiment end before the next begins");
    else
        task->experiment = experiment;
}

static void check_experiments(struct binder *b, const struct node *section)
{
    const struct node *child = section ? section->first : NULL;
    for (size_t i = 0; child && i < b->config->n_experiments; i++, child = child->next)
        if (b->config->experiments[i].task)
            check_experiment(b, child, &b->config->experiments[i]);
}

/* ---- Tokens and listen addresses ------------------------------------------------------------- */

struct named {
    const char *name;
    const struct node *node;
    size_t index;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *left = a, *right = b;
    int order = strcmp(left->name ? left->name : "", right->name ? right->name : "");
    return order ? order : (left->index > right->index) - (left->index < right->index);
}

/* The entries of a list have names of their own. */
static void check_names_of(struct binder *b, const struct node *list, size_t n_entries,
                           const char *(*name_of)(const struct config *config, size_t index),
                           const char *what)
{
    struct named *sorted = arena_array(b->arena, n_entries, sizeof *sorted);
    size_t n = 0;
    if (!list || !sorted)
        return;
    for (const struct node *child = list->first; child && n < n_entries; child = child->next, n++)
        sorted[n] = (struct named){name_of(b->config, n), child, n};
    qsort(sorted, n, sizeof *sorted, compare_named);
    for (size_t i = 1; i < n; i++) {
        const char *name = sorted[i].name, *before = sorted[i - 1].name;
        if (name && before && strcmp(name, before) == 0)
            bind_error(b, sorted[i].node, "another %s has the name '%.60s'", what, name);
    }
}

static const char *name_of_token(const struct config *config, size_t index)
{
    return config->tokens[index].name;
}

static const char *name_of_faktory_password(const struct config *config, size_t index)
{
    return config->faktory_passwords[index].name;
}

/* Without tokens every client that reaches the port may do everything; without TLS every machine on
 * the way can read the tokens. `missing`: what clients would have to know; NULL: there is some. */
static void check_address(struct binder *b, const struct node *root, const char *name,
                          const char *address, const char *missing)
{
    const struct node *listen = node_find(root, STR("listen"));
    const struct node *node = listen ? node_find(listen, str_of(name)) : NULL;
    if (!node || !address || type_address_is_loopback(str_of(address)))
        return;
    if (missing) {
        struct redrive_err *err =
            bind_error(b, node, "is open to other machines, but there are no %s", missing);
        err_detail(err, "without %s only loopback addresses are served", missing);
        err_hint(err, "add %s, or listen on 127.0.0.1", missing);
    }
    if (!b->config->listen.tls.cert && !b->config->listen.insecure) {
        struct redrive_err *err =
            bind_error(b, node, "is open to other machines, but there is no TLS");
        err_detail(err, "tokens, passwords and payloads could be read on the way");
        err_hint(err, "set listen.tls, or listen.insecure: true where the network is your own");
    }
}

void check_whole(struct binder *b, const struct node *root, bool has_faktory_passwords)
{
    struct config *config = b->config;

    /* Names may be missing then. */
    if (b->arena->failed)
        return;
    task_init(b, &config->undeclared);
    config->undeclared.retry = config->defaults.retry;
    memcpy(config->undeclared.retries_from, config->defaults.retries_from,
           sizeof config->undeclared.retries_from);
    config->undeclared.heartbeat_ms = config->undeclared.lease_ms / 3;
    index_tasks(b);
    if (b->arena->failed)
        return;
    check_cron_entries(b, node_find(root, STR("cron")));
    check_experiments(b, node_find(root, STR("experiments")));
    check_tasks_of(b, node_find(root, STR("alerts")), config->n_alerts, task_of_alert);
    check_tasks_of(b, node_find(root, STR("classify")), config->n_classify, task_of_row);
    check_names_of(b, node_find(root, STR("tokens")), config->n_tokens, name_of_token, "token");
    check_names_of(b, node_find(root, STR("faktory_passwords")), config->n_faktory_passwords,
                   name_of_faktory_password, "password");
    const char *tokens = config->n_tokens > 0 ? NULL : "tokens";
    check_address(b, root, "http", config->listen.http, tokens);
    check_address(b, root, "metrics", config->listen.metrics, tokens);
    if (tokens && config->n_faktory_passwords == 0 && !has_faktory_passwords)
        check_address(b, root, "faktory", config->listen.faktory, "faktory_passwords");
    else
        check_address(b, root, "faktory", config->listen.faktory, NULL);
}

/* ---- Files with secrets that other users can read -------------------------------------------- */

#define OF_GROUP  (S_IRGRP | S_IWGRP)
#define OF_OTHERS (S_IROTH | S_IWOTH)

struct search {
    struct exposed *found;
    size_t n;
};

/* A pipe or a device, as of `<(command)`, is not looked at. */
static void look_at(struct search *search, const char *path, const char *holds)
{
    struct stat st;
    const uid_t user = geteuid();
    if (!path || !holds || search->n == EXPOSED_MAX || stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return;
    const bool is_own = st.st_uid == user && user != 0;
    if (st.st_mode & (is_own ? OF_GROUP | OF_OTHERS : OF_OTHERS))
        search->found[search->n++] =
            (struct exposed){.path = path, .holds = holds, .mode = st.st_mode & 0777};
}

size_t exposed_find(const struct config *config, const char *password_file,
                    struct exposed ret[EXPOSED_MAX])
{
    struct search search = {.found = ret};
    look_at(&search, config->path, config->owned->file_secrets);
    look_at(&search, config->owned->dotenv_path, config->owned->dotenv_secrets);
    look_at(&search, config->listen.tls.key, "the private key of TLS");
    look_at(&search, password_file, "a password");
    for (size_t i = 0; i < config->n_faktory_passwords; i++)
        look_at(&search, config->faktory_passwords[i].password_file, "a password");
    return search.n;
}

void exposed_warning(const struct exposed *file, struct redrive_err *ret)
{
    err_set(ret, REDRIVE_E_CONFIG, "other users can read %.150s, which holds %s", file->path,
            file->holds);
    err_detail(ret, "mode %04o", file->mode);
    err_hint(ret, "chmod 600 %s", file->path);
}
