/* cron.h - the cron entries of a server. */
#ifndef CLI_REMOTE_CRON_H
#define CLI_REMOTE_CRON_H

#include "cli/remote/remote.h"
#include "engine/clock/cron.h"

/* As cron_page_read. The files of the time zones are those of this machine. */
int remote_cron(struct remote *remote, struct cron_page *ret, struct redrive_err *err);

/* Stores an entry; the page has it as it is then. */
int remote_cron_put(struct remote *remote, const char *name, struct str definition,
                    struct cron_page *ret, bool *ret_created, struct redrive_err *err);

/* A tick by hand: the id of the new job, and its state. */
int remote_cron_run(struct remote *remote, const char *name, char ret_id[CRON_ID_MAX],
                    enum redrive_state *ret_state, struct redrive_err *err);

#endif
