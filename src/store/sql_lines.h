/* sql_lines.h - what a handle of an SQL store knows of lines, for the SQL stores only.
 *
 * A line is the jobs of one task in one queue of one tenant. Rows of jobs name it by a number;
 * names and numbers are learned from the store once and kept. How many jobs have come to each of
 * its states and left them in the open unit is gathered here, and written by the store at the
 * unit's end.
 */
#ifndef STORE_SQL_LINES_H
#define STORE_SQL_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/map.h"
#include "base/text/buf.h"
#include "redrive.h"

struct line {
    int64_t id;
    int64_t tenant_id;
    struct str tenant; /* the line's own copies */
    struct str queue;
    struct str task;
    bool touched; /* by this unit */
    int64_t moved[REDRIVE_STATE_COUNT];
    struct line *next_touched;
};

struct lines {
    struct map by_name;
    struct line **by_id; /* index: id; NULL: not read yet */
    size_t n_by_id;
    struct line *touched;
    bool added; /* by this unit: a rollback takes them away */
    struct buf key;
};

void lines_init(struct lines *lines);
void lines_release(struct lines *lines);

/* The line if it is known, else NULL. REDRIVE_E_TOO_BIG: names as long as that no job has. */
int lines_get(struct lines *lines, struct str tenant, struct str queue, struct str task,
              struct line **ret, struct redrive_err *err);
struct line *lines_at(const struct lines *lines, int64_t id);

/* Keeps a line that was read, unless it is known, with copies of its names. False: there is no
 * memory. The id is the store's to check: 1 … INT32_MAX. */
bool lines_keep(struct lines *lines, const struct line *read, struct line **ret);

/* A job has come (from < 0), gone (to < 0) or moved. */
void lines_count(struct lines *lines, struct line *line, int from, int to);
/* What was counted has been written. */
void lines_written(struct lines *lines);
/* The unit was rolled back: nothing was counted, and lines that it has added are not there. */
void lines_forget(struct lines *lines);

#endif
