/* private.h - what the files of the memory store share.
 *
 * The reference for all others, and plain on purpose: tables are arrays that are walked from end to
 * end. A transaction works on a second version of all tables; a commit replaces the first by it, a
 * rollback throws it away.
 *
 * Locks. A place has one writer at a time. The mutex guards what is committed: taken to read it, to
 * begin, to commit. The transaction's own version belongs to the writer and needs none.
 */
#ifndef STORE_MEMORY_PRIVATE_H
#define STORE_MEMORY_PRIVATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/mem/arena.h"
#include "base/text/str.h"
#include "store/store.h"
#include "store/transition.h"

/* ---- table.c --------------------------------------------------------------------------------- */

/* A table is an array of pointers to rows. mem_table_share gives a second table on the same rows;
 * the first change that one of both makes to a row gives it a copy of its own. So a snapshot costs
 * a pointer a row, and a rollback only drops it.
 *
 * A row owns its strings; its kind lists which of its fields are strings. Not thread-safe: two
 * tables that share rows are changed by one thread at a time, and read by any.
 */
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

/* The row, to be changed; NULL: no memory. */
void *mem_table_edit(struct mem_table *table, size_t i);

/* Appends a copy. False: no memory. */
bool mem_table_add(struct mem_table *table, const void *row);

/* Replaces a row by a copy, which may use strings of the old row. False: no memory. */
bool mem_table_put(struct mem_table *table, size_t i, const void *row);

/* Removes a row and closes the gap. */
void mem_table_remove(struct mem_table *table, size_t i);

/* Replaces a string of a row that is being changed. False: no memory, and it stays as it was. */
bool mem_table_set_str(struct str *field, struct str value);

/* Copies a row, and its strings into the arena, whose `failed` says whether there was memory. */
void mem_table_copy_out(const struct mem_kind *kind, void *to, const void *row,
                        struct arena *arena);

/* A row of the history. */
struct mem_attempt {
    int64_t seq; /* of the job */
    struct job_attempt attempt;
};

/* A key that is unique for ever, of a job that is gone. */
struct mem_key {
    struct str tenant;
    struct str key;
    struct str id;
    int64_t seq;
    enum redrive_state state;
};

extern const struct mem_kind MEM_JOB;     /* struct job */
extern const struct mem_kind MEM_ATTEMPT; /* struct mem_attempt */
extern const struct mem_kind MEM_KEY;     /* struct mem_key */
extern const struct mem_kind MEM_EDGE;    /* struct job_edge */
extern const struct mem_kind MEM_SHARED;  /* struct shared_row */
extern const struct mem_kind MEM_COUNTER; /* struct counter */

/* All that a store keeps. */
struct mem_state {
    struct mem_table jobs; /* by seq */
    struct mem_table attempts;
    struct mem_table keys;
    struct mem_table edges;    /* by child, parent */
    struct mem_table shared;   /* by kind, tenant, key */
    struct mem_table counters; /* by tenant, name, label */
    int64_t last_seq;
    int64_t shared_version;
};

/* What handles of the same name have in common. */
struct mem_place {
    char *name; /* NULL: no other handle can find it */
    unsigned handles;
    struct mem_place *next;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a transaction has ended */
    bool busy;              /* a handle has a transaction */
    uint64_t commits;
    struct mem_state committed;
};

struct memory {
    struct store_base base;
    struct mem_place *place;
    int64_t busy_wait_ms;
    uint64_t seen_commits;
    bool in_transaction;
    int64_t now_ms; /* the transaction's */
    struct mem_state transaction;
    char *turn; /* the first tenant of the last claim without a tenant */
};

static inline struct memory *memory_of(struct store *store)
{
    return (struct memory *)(void *)store;
}

static inline const struct job *job_at(const struct mem_state *state, size_t i)
{
    return mem_table_at(&state->jobs, i);
}

/* The index of a job in the table, or false. */
bool memory_seek(const struct mem_state *state, int64_t seq, size_t *ret_i);
/* NULL: there is no such job. */
const struct job *memory_find_id(const struct mem_state *state, struct str tenant, struct str id);

/* Copies chosen jobs into a page. */
int memory_page(const struct job *const *jobs, size_t n, struct job_page *ret,
                struct redrive_err *err);

/* ---- store.c --------------------------------------------------------------------------------- */

/* 0, or REDRIVE_E_STATE when there is no transaction. */
int memory_need_transaction(const struct memory *m, struct redrive_err *err);

/* What a read sees: the transaction's version, or else what is committed. memory_unlook ends it. */
const struct mem_state *memory_look(struct memory *m);
void memory_unlook(struct memory *m);

/* Whether the open transaction has made the job, or moved it. Reads by an index leave those out, as
 * rule 4 of store.h allows: so tests of the engine meet the hardest case. */
bool memory_is_moved(const struct memory *m, const struct job *job);

/* ---- edges.c --------------------------------------------------------------------------------- */

/* Removes the edges of a child. */
void memory_remove_edges(struct mem_state *state, int64_t child);

/* ---- shared.c -------------------------------------------------------------------------------- */

bool memory_is_paused(const struct mem_state *state, struct str tenant, struct str queue);
/* False: there is no such limit. */
bool memory_limit_sums(const struct mem_state *state, struct str tenant, struct str key,
                       struct gate_sums *ret);

/* ---- The slots ------------------------------------------------------------------------------- */

STORE_SLOT_MAP(STORE_SLOT_DECLARE, memory)

#endif
