/* sql_partitions.h - what a handle of an SQL store knows of partitions, for the SQL stores only.
 *
 * A partition is the jobs of one task in one queue of one tenant. Rows of jobs name it by a number;
 * names and numbers are learned from the store once and kept. How many jobs have come to each of
 * its states and left them in the open transaction is gathered here, and written by the store at
 * the transaction's end.
 */
#ifndef STORE_SQL_PARTITIONS_H
#define STORE_SQL_PARTITIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem/map.h"
#include "base/text/buf.h"
#include "redrive.h"

struct partition {
    int64_t id;
    int64_t tenant_id;
    struct str tenant; /* the partition's own copies */
    struct str queue;
    struct str task;
    bool touched; /* by this transaction */
    int64_t moved[REDRIVE_STATE_COUNT];
    struct partition *next_touched;
};

struct partitions {
    struct map by_name;
    struct partition **by_id; /* index: id; NULL: not read yet */
    size_t n_by_id;
    struct partition *touched;
    bool added; /* by this transaction: a rollback takes them away */
    struct buf key;
};

void partitions_init(struct partitions *partitions);
void partitions_release(struct partitions *partitions);

/* The partition if it is known, else NULL. REDRIVE_E_TOO_BIG: names as long as that no job has. */
int partitions_get(struct partitions *partitions, struct str tenant, struct str queue,
                   struct str task, struct partition **ret, struct redrive_err *err);
struct partition *partitions_at(const struct partitions *partitions, int64_t id);

/* Keeps a partition that was read, unless it is known, with copies of its names. False: there is no
 * memory. The id is the store's to check: 1 … INT32_MAX. */
bool partitions_keep(struct partitions *partitions, const struct partition *read,
                     struct partition **ret);

/* A job has come (from < 0), gone (to < 0) or moved. */
void partitions_count(struct partitions *partitions, struct partition *partition, int from, int to);
/* What was counted has been written. */
void partitions_written(struct partitions *partitions);
/* The transaction was rolled back: nothing was counted, and partitions that it has added are not
 * there. */
void partitions_forget(struct partitions *partitions);

#endif
