/* table.h - rows that several versions of a table share.
 *
 * A table is an array of pointers to rows. mem_table_share gives a second table on the same rows;
 * the first change that one of both makes to a row gives it a copy of its own. So a snapshot costs
 * a pointer a row, and to forget it is to undo everything.
 *
 * A row owns its strings; which of its fields are strings, its kind says. Not thread-safe: two
 * tables that share rows are changed by one thread at a time, and read by any.
 */
#ifndef STORE_MEMORY_TABLE_H
#define STORE_MEMORY_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mem/arena.h"
#include "base/text/str.h"

struct mem_kind {
    size_t size;
    const size_t *strs; /* offsets of the fields of type struct str */
    size_t n_strs;
};

struct mem_row;

struct mem_table {
    const struct mem_kind *kind;
    struct mem_row **rows;
    size_t n;
    size_t capacity;
};

void mem_table_init(struct mem_table *table, const struct mem_kind *kind);
void mem_table_release(struct mem_table *table);

/* Makes `to`, which holds nothing, equal to `from`. False: no memory. */
bool mem_table_share(struct mem_table *to, const struct mem_table *from);

const void *mem_table_at(const struct mem_table *table, size_t i);

/* The row, for changing; NULL: no memory. */
void *mem_table_edit(struct mem_table *table, size_t i);

/* Appends a copy. False: no memory. */
bool mem_table_add(struct mem_table *table, const void *row);

/* Puts a copy in the place of a row, whose strings may be in it. False: no memory. */
bool mem_table_put(struct mem_table *table, size_t i, const void *row);

/* Takes a row out and closes the gap. */
void mem_table_remove(struct mem_table *table, size_t i);

/* Replaces a string of a row that is being changed. False: no memory, and it is as it was. */
bool mem_table_set_str(struct str *field, struct str value);

/* Copies a row, and its strings into the arena; running out of memory sticks there. */
void mem_table_copy_out(const struct mem_kind *kind, void *to, const void *row,
                        struct arena *arena);

#endif
