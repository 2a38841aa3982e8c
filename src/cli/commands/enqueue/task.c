/* task.c - warns of a task that is not declared. */
#include "cli/commands/enqueue/private.h"

#include <stdio.h>

#include "base/err.h"
#include "cli/frame/words.h"

/* Longer names are no task's. */
#define NAME_MAX_BYTES 256

/* Adds the tasks that processes have published; whether this one is among them. A store that cannot
 * be read says so when the job is submitted. */
static bool add_published(struct store *store, struct str name, struct words *words)
{
    struct shared_page page = {0};
    char text[NAME_MAX_BYTES];
    bool is_there = false;
    if (store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL) == 0)
        for (size_t i = 0; i < page.n; i++) {
            is_there |= str_eq(page.rows[i].key, name);
            if (str_copy(text, sizeof text, page.rows[i].key))
                words_add(words, "", text);
        }
    shared_page_release(&page);
    return is_there;
}

static void warn(struct cli *cli, const struct words *known, struct str name)
{
    struct redrive_err warning = {0};
    const char *nearest = words_nearest(known, name);
    (void)err_set(&warning, REDRIVE_E_UNKNOWN, "no task '%.*s' is declared", (int)name.len,
                  name.ptr);
    err_detail(&warning, "the job waits until a worker runs this task");
    if (nearest)
        err_hint(&warning, "did you mean '%s'? strict_tasks refuses others", nearest);
    else
        err_hint(&warning, "declare it under `tasks:`; strict_tasks refuses others");
    cli_warn(cli, &warning);
}

void enqueue_check_task(struct cli *cli, const struct session *session, struct str name)
{
    const struct config *config = session->config;
    struct words known = WORDS_INIT;
    if (*config_task(config, name)->name != '\0')
        return;
    for (size_t i = 0; i < config->n_tasks; i++)
        words_add(&known, "", config->tasks[i].name);
    if (!add_published(session->store, name, &known) && known.n > 0)
        warn(cli, &known, name);
    words_release(&known);
}
