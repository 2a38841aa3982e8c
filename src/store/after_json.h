/* after_json.h - the member `after` of a new job, as every interface takes it. */
#ifndef STORE_AFTER_JSON_H
#define STORE_AFTER_JSON_H

#include "base/mem/arena.h"
#include "store/job.h"

/* Reads an id, or an array of ids and of objects {"id":…,"on":"success","on_dead":"wait"}, in which
 * on and on_dead may be left out. An empty array, and null, are none. The strings live in the arena
 * or in the text. */
int after_read_json(struct str json, struct arena *arena, const struct job_after **ret,
                    size_t *ret_n, struct redrive_err *err);

#endif
