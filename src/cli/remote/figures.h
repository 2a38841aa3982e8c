/* figures.h - what a server counts: queues, breakers, limits, workers, statistics, dead letters. */
#ifndef CLI_REMOTE_FIGURES_H
#define CLI_REMOTE_FIGURES_H

#include "cli/remote/remote.h"
#include "engine/report/dead_letters.h"
#include "engine/report/stats.h"
#include "store/page.h"

/* As COUNT_QUEUES. */
int remote_queues(struct remote *remote, struct count_page *ret, struct redrive_err *err);

/* With those that tasks of the server's configuration declare, and with the parked jobs of each. */
int remote_breakers(struct remote *remote, struct breaker_page *ret, struct redrive_err *err);

/* With the parked jobs of each. */
int remote_limits(struct remote *remote, struct limit_page *ret, struct redrive_err *err);

/* `json` (which http_answer_init has seen) is the document as the server wrote it, `ret` what the
 * text of `redrive stats` and `redrive top` needs of it. To be released in any case. */
int remote_stats(struct remote *remote, struct http_answer *json, struct stats *ret,
                 struct redrive_err *err);

/* The health, and how many workers there are. Strings live in the arena. */
int remote_health(struct remote *remote, struct arena *arena, struct redrive_health *ret,
                  size_t *ret_workers, struct redrive_err *err);

/* Dead letters by their errors. `path` is that of the groups, with the filter. */
int remote_groups(struct remote *remote, const struct buf *path, struct group_page *ret,
                  struct redrive_err *err);

/* How many there are, by class, reason, task and type; `ret` has been initialized. */
int remote_dead_counts(struct remote *remote, const struct buf *path, struct dead_counts *ret,
                       struct redrive_err *err);

#endif
