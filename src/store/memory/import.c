/* import.c - jobs and keys that come from another store. */
#include "store/memory/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"

/* The job that stands in the way of an imported one: of its id, or, when both are live, of its key.
 */
static const struct job *in_the_way(const struct mem_state *state, const struct job *imported)
{
    const struct job_spec *spec = &imported->spec;
    const bool wants_key = spec->unique_key.len > 0 && !state_has_ended(imported->status.state);
    const struct job *holder = NULL;
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (!str_eq(job->spec.tenant, spec->tenant))
            continue;
        if (str_eq(job->spec.id, spec->id))
            return job;
        if (wants_key && !state_has_ended(job->status.state) &&
            str_eq(job->spec.unique_key, spec->unique_key))
            holder = job;
    }
    return holder;
}

static int import_one(struct memory *m, const struct imported_job *imported,
                      struct move_result *ret)
{
    const struct job *other = in_the_way(&m->transaction, imported->job);
    if (other) {
        *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = other->status.state};
        return 0;
    }
    struct job job = *imported->job;
    job.status.seq = m->transaction.last_seq + 1;
    job.spec.process_after_ms = 0;
    const size_t rows = imported_rows(imported);
    for (size_t i = 0; i < rows; i++) {
        const struct mem_attempt row = {.seq = job.status.seq, .attempt = imported->attempts[i]};
        if (!mem_table_add(&m->transaction.attempts, &row))
            return REDRIVE_E_NOMEM;
    }
    if (!mem_table_add(&m->transaction.jobs, &job))
        return REDRIVE_E_NOMEM;
    m->transaction.last_seq++;
    *ret = (struct move_result){.state = job.status.state};
    return 0;
}

int memory_import(struct store *store, const struct imported_job *jobs, size_t n,
                  struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (import_one(m, &jobs[i], &ret[i]) < 0)
            rc = err_nomem(err);
    return rc;
}

bool memory_hold_key(struct mem_state *state, const struct mem_key *key)
{
    for (size_t i = 0; i < state->keys.n; i++) {
        const struct mem_key *held = mem_table_at(&state->keys, i);
        if (str_eq(held->key, key->key) && str_eq(held->tenant, key->tenant))
            return true;
    }
    return mem_table_add(&state->keys, key);
}

int memory_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                       struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        /* It is the key of no job of this store, so it has no seq. */
        const struct mem_key key = {
            .tenant = keys[i].tenant,
            .key = keys[i].key,
            .id = keys[i].id,
            .state = keys[i].state,
        };
        if (!memory_hold_key(&m->transaction, &key))
            rc = err_nomem(err);
    }
    return rc;
}

static int compare_keys(struct str tenant, struct str key, const struct mem_key *other)
{
    int order = str_compare(tenant, other->tenant);
    return order != 0 ? order : str_compare(key, other->key);
}

static int by_name(const void *left, const void *right)
{
    const struct mem_key *a = *(const struct mem_key *const *)left;
    return compare_keys(a->tenant, a->key, *(const struct mem_key *const *)right);
}

static void add_key(struct remembered_key_page *page, const struct mem_key *key)
{
    struct mem_key copy;
    mem_table_copy_out(&MEM_KEY, &copy, key, &page->arena);
    page->keys[page->n++] = (struct remembered_key){
        .tenant = copy.tenant, .key = copy.key, .id = copy.id, .state = key->state};
}

static int list_keys(const struct mem_state *state, struct str after_tenant, struct str after_key,
                     size_t limit, struct remembered_key_page *ret, struct redrive_err *err)
{
    const struct mem_key **keys = calloc(state->keys.n + 1, sizeof(const struct mem_key *));
    size_t n = 0;
    if (!keys)
        return err_nomem(err);
    for (size_t i = 0; i < state->keys.n; i++) {
        const struct mem_key *key = mem_table_at(&state->keys, i);
        if (compare_keys(after_tenant, after_key, key) < 0)
            keys[n++] = key;
    }
    qsort(keys, n, sizeof(const struct mem_key *), by_name);
    ret->more = n > limit;
    n = n < limit ? n : limit;
    ret->keys = arena_array(&ret->arena, n, sizeof *ret->keys);
    for (size_t i = 0; ret->keys && i < n; i++)
        add_key(ret, keys[i]);
    free(keys);
    return ret->arena.failed ? err_nomem(err) : 0;
}

int memory_remembered_keys(struct store *store, struct str after_tenant, struct str after_key,
                           size_t limit, struct remembered_key_page *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    remembered_key_page_release(ret);
    int rc = list_keys(memory_look(m), after_tenant, after_key, limit, ret, err);
    memory_unlook(m);
    if (rc < 0)
        remembered_key_page_release(ret);
    return rc;
}
