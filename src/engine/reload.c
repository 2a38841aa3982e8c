#include "engine/reload.h"

#include "core/classify/classify.h"
#include "engine/private.h"

static void exchange(struct engine *e, struct reload_op *op)
{
    struct config *config = (struct config *)e->options.config;
    struct classifier *classifier = e->classifier;
    pthread_mutex_lock(&e->config_mutex);
    e->options.config = op->config;
    pthread_mutex_unlock(&e->config_mutex);
    e->classifier = op->classifier;
    /* It points into the former configuration. */
    cron_entries_release(&e->cron_entries);
    op->config = config;
    op->classifier = classifier;
    op->in_force = true;
    /* Periodic tasks and alerts may want to be looked at earlier than the former ones. */
    e->alert_ms = 0;
    e->wake_ms = 0;
}

/* Memory is exchanged once and for all, whatever becomes of the transaction; after a transaction
 * that failed the marks are read again anyway, because nothing cached is believed then. */
static int apply_reload(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct reload_op *op = (struct reload_op *)base;
    struct publish_op publish;
    if (!op->in_force)
        exchange(e, op);
    int rc = cron_entries_load(e, err);
    if (rc == 0)
        rc = published_load(e, err);
    publish_op_init(&publish);
    return rc < 0 ? rc : publish.op.apply(e, &publish.op, err);
}

int reload_op_init(struct reload_op *op, const struct config *config, struct redrive_err *err)
{
    *op = (struct reload_op){.op = {.apply = apply_reload, .weight = 1}};
    op->config = config_hold(config);
    int rc = classifier_new(config->classify, config->n_classify, &op->classifier, err);
    if (rc < 0)
        reload_op_release(op);
    return rc;
}

void reload_op_release(struct reload_op *op)
{
    config_free(op->config);
    classifier_free(op->classifier);
    *op = (struct reload_op){0};
}
