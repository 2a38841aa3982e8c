/* name.h - which names jobs, tasks, queues and workers may have.
 *
 * Names come from clients. They are checked before they are looked up anywhere.
 */
#ifndef CORE_NAME_H
#define CORE_NAME_H

#include "base/text/str.h"
#include "redrive.h"

#define NAME_MAX_BYTES 255

/* 0 for 1 to NAME_MAX_BYTES bytes of UTF-8 without control characters. Otherwise
 * REDRIVE_E_INVALID or REDRIVE_E_TOO_BIG; the message begins with `what`. */
int name_check(const char *what, struct str name, struct redrive_err *err);

/* The same of a queue, whose name has letters, digits, '.', '_' and '-' only: it is written
 * unescaped in commands and paths. */
int name_check_queue(struct str name, struct redrive_err *err);

/* What the names of workers that claim through the Faktory protocol begin with, in leases and lists
 * of workers; a worker of another kind may not be called so. It decides whether a Faktory client
 * may settle a job. */
#define NAME_FAKTORY_WORKER "faktory:"

#endif
