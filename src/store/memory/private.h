/* private.h - the inside of the memory store.
 *
 * The reference for all others, so plain on purpose: tables are arrays that are walked from end to
 * end. A transaction works on a second version of all tables (memory/table.h); a commit puts it in
 * the place of the first, a rollback throws it away. Nothing is ever undone.
 *
 * Locks. A place has one writer at a time. The mutex guards what is committed: taken to read it, to
 * begin, to commit. The transaction's own version belongs to the writer and needs none.
 */
#ifndef STORE_MEMORY_PRIVATE_H
#define STORE_MEMORY_PRIVATE_H

#include <pthread.h>

#include "store/memory/table.h"
#include "store/store.h"
#include "store/transition.h"

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
extern const struct mem_kind MEM_SHARED;  /* struct shared_row */
extern const struct mem_kind MEM_COUNTER; /* struct counter */

/* All that a store keeps. */
struct mem_state {
    struct mem_table jobs; /* by seq */
    struct mem_table attempts;
    struct mem_table keys;
    struct mem_table shared;   /* by kind, tenant, key */
    struct mem_table counters; /* by tenant, name, label */
    int64_t last_seq;
    int64_t shared_version;
};

/* What handles of the same name have in common. */
struct mem_place {
    char *name; /* NULL: nobody else can find it */
    unsigned handles;
    struct mem_place *next;

    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a transaction has ended */
    bool busy;              /* somebody has a transaction */
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
    char *turn; /* the tenant that was first when all were asked for ready jobs */
};

static inline struct memory *memory_of(struct store *store)
{
    return (struct memory *)(void *)store;
}

static inline const struct job *job_at(const struct mem_state *state, size_t i)
{
    return mem_table_at(&state->jobs, i);
}

/* -- memory/transaction.c -- */

void mem_state_init(struct mem_state *state);
void mem_state_release(struct mem_state *state);

int memory_begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err);
int memory_commit(struct store *store, struct redrive_err *err);
void memory_rollback(struct store *store);
int memory_wait(struct store *store, int64_t timeout_ms, uint32_t *ret_notification,
                struct redrive_err *err);

/* 0, or REDRIVE_E_STATE when there is no transaction. */
int memory_need_transaction(const struct memory *m, struct redrive_err *err);

/* What a read sees: the transaction's version, or else what is committed, until memory_unlook. */
const struct mem_state *memory_look(struct memory *m);
void memory_unlook(struct memory *m);

/* Whether the open transaction has made the job, or moved it. Reads by an index leave those out, as
 * stores may that have not written anything yet: so the engine is tried with the hardest case. */
bool memory_is_moved(const struct memory *m, const struct job *job);

/* -- memory/row.c -- */

/* The place of a job in the table, or false. */
bool memory_find(const struct mem_state *state, int64_t seq, size_t *ret_i);

/* Copies chosen jobs into a page. */
int memory_page(const struct job *const *jobs, size_t n, struct job_page *ret,
                struct redrive_err *err);

/* -- The slots, by subject -- */

int memory_submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err);

/* memory/claim.c */
int memory_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err);

/* memory/move.c */
int memory_move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err);

/* memory/import.c */
int memory_import(struct store *store, const struct imported_job *jobs, size_t n,
                  struct move_result *ret, struct redrive_err *err);
int memory_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                       struct redrive_err *err);
int memory_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                           size_t limit, struct remembered_key_page *ret, struct redrive_err *err);
/* Remembers a key; one that is remembered already stays as it is. False: no memory. */
bool memory_hold_key(struct mem_state *state, const struct mem_key *key);

/* memory/scan.c */
int memory_scan(struct store *store, struct scan *scan, struct job_page *ret,
                struct redrive_err *err);

/* memory/shared.c */
int memory_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                      struct move_result *ret, struct redrive_err *err);
int memory_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                       struct shared_page *ret, struct redrive_err *err);
int memory_counters_add(struct store *store, const struct counter *counters, size_t n,
                        struct redrive_err *err);
int memory_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                         struct redrive_err *err);
bool memory_is_paused(const struct mem_state *state, struct str tenant, struct str queue);
/* False: there is no such limit. */
bool memory_limit_sums(const struct mem_state *state, struct str tenant, struct str key,
                       struct gate_sums *ret);

/* memory/list.c */
int memory_list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err);
int memory_lookup(struct store *store, const struct job_name *names, size_t n, struct job_page *ret,
                  struct redrive_err *err);
int memory_history(struct store *store, const int64_t *seqs, size_t n, struct attempt_page *ret,
                   struct redrive_err *err);

/* Whether a job matches, but for the keyset. */
bool memory_matches(const struct job_filter *filter, const struct job *job);

/* memory/sum.c */
int memory_counts(struct store *store, enum count_kind kind, struct str tenant,
                  struct count_page *ret, struct redrive_err *err);
int memory_causes(struct store *store, const struct job_filter *filter,
                  void (*add)(void *ctx, const struct cause_count *cause), void *ctx,
                  struct redrive_err *err);
int memory_groups(struct store *store, const struct job_filter *filter, struct group_page *ret,
                  struct redrive_err *err);

#endif
