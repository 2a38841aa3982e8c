/* move.c - jobs that come in, their moves, and unique keys. */
#include "store/memory/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "core/state.h"

/* ---- Unique keys ----------------------------------------------------------------------------- */

/* The live job that holds a key; NULL: there is none. */
static const struct job *live_holder(const struct mem_state *state, struct str tenant,
                                     struct str key)
{
    for (size_t i = 0; key.len > 0 && i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (!state_has_ended(job->status.state) && str_eq(job->spec.unique_key, key) &&
            str_eq(job->spec.tenant, tenant))
            return job;
    }
    return NULL;
}

/* A key that is unique for ever, of a job that is gone; NULL: it is not remembered. */
static const struct mem_key *remembered(const struct mem_state *state, struct str tenant,
                                        struct str key)
{
    for (size_t i = 0; i < state->keys.n; i++) {
        const struct mem_key *row = mem_table_at(&state->keys, i);
        if (str_eq(row->key, key) && str_eq(row->tenant, tenant))
            return row;
    }
    return NULL;
}

/* The job is here again, and holds its key itself. */
static void forget_key(struct mem_state *state, const struct job_spec *spec)
{
    for (size_t i = 0; i < state->keys.n; i++) {
        const struct mem_key *row = mem_table_at(&state->keys, i);
        if (str_eq(row->key, spec->unique_key) && str_eq(row->tenant, spec->tenant) &&
            str_eq(row->id, spec->id)) {
            mem_table_remove(&state->keys, i);
            return;
        }
    }
}

/* Remembers a key, unless it is remembered already. False: no memory. */
static bool remember(struct mem_state *state, const struct mem_key *key)
{
    return remembered(state, key->tenant, key->key) || mem_table_add(&state->keys, key);
}

/* ---- Moves ----------------------------------------------------------------------------------- */

/* Replaces the row of a job. */
static int write_down(struct memory *m, size_t i, const struct job *job, const struct transition *t)
{
    const struct mem_attempt row = {.seq = job->status.seq, .attempt = t->attempt};
    if (t->adds_attempt && !mem_table_add(&m->transaction.attempts, &row))
        return REDRIVE_E_NOMEM;
    return mem_table_put(&m->transaction.jobs, i, job) ? 0 : REDRIVE_E_NOMEM;
}

/* Removes the history of a job. */
static void remove_history(struct mem_state *state, int64_t seq)
{
    for (size_t i = state->attempts.n; i-- > 0;) {
        const struct mem_attempt *row = mem_table_at(&state->attempts, i);
        if (row->seq == seq)
            mem_table_remove(&state->attempts, i);
    }
}

/* Removes a job with its history. Fails with REDRIVE_E_NOMEM only. */
static int remove_at(struct memory *m, size_t i)
{
    const struct job *job = job_at(&m->transaction, i);
    const struct job_spec *spec = &job->spec;
    if (spec->unique_forever && spec->unique_key.len > 0) {
        const struct mem_key key = {
            .tenant = spec->tenant,
            .key = spec->unique_key,
            .id = spec->id,
            .seq = job->status.seq,
            .state = job->status.state,
        };
        if (!remember(&m->transaction, &key))
            return REDRIVE_E_NOMEM;
    }
    remove_history(&m->transaction, job->status.seq);
    if (job->status.parents > 0)
        memory_remove_edges(&m->transaction, job->status.seq);
    mem_table_remove(&m->transaction.jobs, i);
    return 0;
}

/* Makes the move, or refuses it, as *ret says. Fails with REDRIVE_E_NOMEM only. */
static int move_one(struct memory *m, const struct move *move, struct move_result *ret)
{
    struct transition t;
    size_t i;
    if (!memory_seek(&m->transaction, move->seq, &i)) {
        *ret = (struct move_result){.code = REDRIVE_E_NOT_FOUND};
        return 0;
    }
    const struct job *old = job_at(&m->transaction, i);
    struct job job = *old;
    transition(&job.status, move, store_time_of((struct store *)(void *)m, m->now_ms), &t);
    *ret = (struct move_result){t.code, job.status.state, job.status.children};
    if (t.key == KEY_IS_TAKEN &&
        live_holder(&m->transaction, old->spec.tenant, old->spec.unique_key))
        *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = old->status.state};
    if (ret->code != 0)
        return 0;
    if (t.removes_job)
        return remove_at(m, i);
    if (t.replaces_payload)
        job.spec.payload = move->change->payload;
    return write_down(m, i, &job, &t);
}

int memory_move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        const struct move move = move_at(list, i);
        if (move_one(m, &move, &ret[i]) < 0)
            rc = err_nomem(err);
    }
    return rc;
}

/* ---- New jobs -------------------------------------------------------------------------------- */

/* The first job whose key keeps a new one out: one that lives, or that is unique for ever; any, if
 * the new one is to be unique for ever. */
static const struct job *key_holder(const struct mem_state *state, const struct job_spec *spec)
{
    for (size_t i = 0; spec->unique_key.len > 0 && i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        const bool counts =
            spec->unique_forever || job->spec.unique_forever || !state_has_ended(job->status.state);
        if (counts && str_eq(job->spec.unique_key, spec->unique_key) &&
            str_eq(job->spec.tenant, spec->tenant))
            return job;
    }
    return NULL;
}

static struct submit_result answer_with(int code, const struct job *job)
{
    return (struct submit_result){code, job->status.seq, job->status.state, job->spec.id};
}

/* Whether the submit is refused; *ret names the job that stands for it. */
static bool is_refused(const struct mem_state *state, const struct job_spec *spec,
                       struct submit_result *ret)
{
    const struct job *job = memory_find_id(state, spec->tenant, spec->id);
    const struct mem_key *key =
        !job && spec->unique_key.len > 0 ? remembered(state, spec->tenant, spec->unique_key) : NULL;
    if (!job && !key)
        job = key_holder(state, spec);
    if (key)
        *ret = (struct submit_result){REDRIVE_E_EXISTS, key->seq, key->state, key->id};
    else if (job)
        *ret = answer_with(REDRIVE_E_EXISTS, job);
    return key || job;
}

/* What only submit reads is not kept. */
static void forget_submit(struct job_spec *spec)
{
    spec->process_after_ms = 0;
    spec->after = NULL;
    spec->n_after = 0;
    spec->parents = spec->open_parents = spec->children = 0;
}

static bool add_job(struct memory *m, const struct job_spec *spec, struct submit_result *ret)
{
    struct job job = {
        .spec = *spec,
        .status = transition_submit(spec, m->transaction.last_seq + 1, m->now_ms),
    };
    forget_submit(&job.spec);
    if (!mem_table_add(&m->transaction.jobs, &job))
        return false;
    m->transaction.last_seq++;
    *ret = answer_with(0, &job);
    return true;
}

int memory_submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (is_refused(&m->transaction, &specs[i], &ret[i]) || add_job(m, &specs[i], &ret[i]))
            ret[i].id = arena_str(arena, ret[i].id);
        else
            rc = err_nomem(err);
    }
    return rc == 0 && arena->failed ? err_nomem(err) : rc;
}

/* ---- Jobs and keys of another store ---------------------------------------------------------- */

static int import_one(struct memory *m, const struct imported_job *imported,
                      struct move_result *ret)
{
    struct job job = *imported->job;
    const struct job *other = memory_find_id(&m->transaction, job.spec.tenant, job.spec.id);
    if (!other && !state_has_ended(job.status.state))
        other = live_holder(&m->transaction, job.spec.tenant, job.spec.unique_key);
    if (other) {
        *ret = (struct move_result){.code = REDRIVE_E_EXISTS, .state = other->status.state};
        return 0;
    }
    job.status.seq = m->transaction.last_seq + 1;
    forget_submit(&job.spec);
    const size_t rows = imported_rows(imported);
    for (size_t i = 0; i < rows; i++) {
        const struct mem_attempt row = {.seq = job.status.seq, .attempt = imported->attempts[i]};
        if (!mem_table_add(&m->transaction.attempts, &row))
            return REDRIVE_E_NOMEM;
    }
    if (!mem_table_add(&m->transaction.jobs, &job))
        return REDRIVE_E_NOMEM;
    m->transaction.last_seq++;
    if (job.spec.unique_forever)
        forget_key(&m->transaction, &job.spec);
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

static bool is_held_for_ever(const struct mem_state *state, const struct remembered_key *key)
{
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job_spec *spec = &job_at(state, i)->spec;
        if (spec->unique_forever && str_eq(spec->unique_key, key->key) &&
            str_eq(spec->tenant, key->tenant))
            return true;
    }
    return false;
}

int memory_import_keys(struct store *store, const struct remembered_key *keys, size_t n,
                       struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        /* No job of this store has had the key, so that there is no seq. */
        const struct mem_key key = {
            .tenant = keys[i].tenant,
            .key = keys[i].key,
            .id = keys[i].id,
            .state = keys[i].state,
        };
        if (!is_held_for_ever(&m->transaction, &keys[i]) && !remember(&m->transaction, &key))
            rc = err_nomem(err);
    }
    return rc;
}

int memory_keys_held(struct store *store, struct str tenant, const struct str *keys, size_t n,
                     bool *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = store_check_count(n, err);
    if (rc < 0)
        return rc;
    const struct mem_state *state = memory_look(m);
    for (size_t i = 0; i < n; i++) {
        const struct job_spec spec = {
            .tenant = tenant, .unique_key = keys[i], .unique_forever = true};
        ret[i] = remembered(state, tenant, keys[i]) || key_holder(state, &spec);
    }
    memory_unlook(m);
    return 0;
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
