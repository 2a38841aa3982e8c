/* table.c - tables whose rows several versions share, and what the rows are made of. */
#include "store/memory/private.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

struct mem_row {
    size_t refs;
    _Alignas(max_align_t) unsigned char data[];
};

static struct str *str_at(void *data, size_t offset)
{
    return (struct str *)(void *)((char *)data + offset);
}

static void row_unref(struct mem_row *row, const struct mem_kind *kind)
{
    if (!row || --row->refs > 0)
        return;
    for (size_t i = 0; i < kind->n_strs; i++)
        free((char *)str_at(row->data, kind->strs[i])->ptr);
    free(row);
}

static struct mem_row *row_new(const struct mem_kind *kind, const void *data)
{
    struct mem_row *row = calloc(1, sizeof *row + kind->size);
    if (!row)
        return NULL;
    row->refs = 1;
    memcpy(row->data, data, kind->size);
    for (size_t i = 0; i < kind->n_strs; i++)
        *str_at(row->data, kind->strs[i]) = (struct str){0};

    for (size_t i = 0; i < kind->n_strs; i++) {
        const struct str *from = (const void *)((const char *)data + kind->strs[i]);
        if (!mem_table_set_str(str_at(row->data, kind->strs[i]), *from)) {
            row_unref(row, kind);
            return NULL;
        }
    }
    return row;
}

bool mem_table_set_str(struct str *field, struct str value)
{
    char *copy = NULL;
    if (value.len > 0) {
        copy = str_dup(value);
        if (!copy)
            return false;
    }
    free((char *)field->ptr);
    *field = (struct str){copy, value.len};
    return true;
}

void mem_table_init(struct mem_table *table, const struct mem_kind *kind)
{
    *table = (struct mem_table){.kind = kind};
}

void mem_table_release(struct mem_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        row_unref(table->rows[i], table->kind);
    free(table->rows);
    table->rows = NULL;
    table->n = table->capacity = 0;
}

static bool reserve(struct mem_table *table, size_t n)
{
    if (n <= table->capacity)
        return true;
    size_t capacity = n > 2 * table->capacity ? n : 2 * table->capacity;
    struct mem_row **rows = reallocarray(table->rows, capacity, sizeof(struct mem_row *));
    if (!rows)
        return false;
    table->rows = rows;
    table->capacity = capacity;
    return true;
}

bool mem_table_share(struct mem_table *to, const struct mem_table *from)
{
    mem_table_init(to, from->kind);
    if (!reserve(to, from->n))
        return false;
    for (size_t i = 0; i < from->n; i++) {
        to->rows[i] = from->rows[i];
        to->rows[i]->refs++;
    }
    to->n = from->n;
    return true;
}

const void *mem_table_at(const struct mem_table *table, size_t i)
{
    return table->rows[i]->data;
}

void *mem_table_edit(struct mem_table *table, size_t i)
{
    struct mem_row *row = table->rows[i];
    if (row->refs > 1) {
        struct mem_row *own = row_new(table->kind, row->data);
        if (!own)
            return NULL;
        row->refs--;
        table->rows[i] = own;
    }
    return table->rows[i]->data;
}

bool mem_table_add(struct mem_table *table, const void *row)
{
    if (!reserve(table, table->n + 1))
        return false;
    struct mem_row *own = row_new(table->kind, row);
    if (!own)
        return false;
    table->rows[table->n++] = own;
    return true;
}

bool mem_table_put(struct mem_table *table, size_t i, const void *row)
{
    struct mem_row *own = row_new(table->kind, row);
    if (!own)
        return false;
    row_unref(table->rows[i], table->kind);
    table->rows[i] = own;
    return true;
}

void mem_table_remove(struct mem_table *table, size_t i)
{
    row_unref(table->rows[i], table->kind);
    table->n--;
    memmove(&table->rows[i], &table->rows[i + 1], (table->n - i) * sizeof(struct mem_row *));
}

void mem_table_copy_out(const struct mem_kind *kind, void *to, const void *row, struct arena *arena)
{
    memcpy(to, row, kind->size);
    for (size_t i = 0; i < kind->n_strs; i++) {
        struct str *s = str_at(to, kind->strs[i]);
        if (s->ptr)
            *s = arena_str(arena, *s);
    }
}

/* ---- What the rows are made of, and how they are found --------------------------------------- */

#define N(array) (sizeof(array) / sizeof((array)[0]))

static const size_t JOB_STRS[] = {
    offsetof(struct job, spec.tenant),
    offsetof(struct job, spec.id),
    offsetof(struct job, spec.task),
    offsetof(struct job, spec.queue),
    offsetof(struct job, spec.payload),
    offsetof(struct job, spec.user),
    offsetof(struct job, spec.project),
    offsetof(struct job, spec.service),
    offsetof(struct job, spec.unique_key),
    offsetof(struct job, spec.policy),
    offsetof(struct job, spec.breaker_key),
    offsetof(struct job, spec.limit_key),
    offsetof(struct job, status.worker),
    offsetof(struct job, status.result),
    offsetof(struct job, status.error.type),
    offsetof(struct job, status.error.message),
    offsetof(struct job, status.error.stacktrace),
};
const struct mem_kind MEM_JOB = {sizeof(struct job), JOB_STRS, N(JOB_STRS)};

static const size_t ATTEMPT_STRS[] = {
    offsetof(struct mem_attempt, attempt.worker),
    offsetof(struct mem_attempt, attempt.why),
    offsetof(struct mem_attempt, attempt.error.type),
    offsetof(struct mem_attempt, attempt.error.message),
    offsetof(struct mem_attempt, attempt.error.stacktrace),
};
const struct mem_kind MEM_ATTEMPT = {sizeof(struct mem_attempt), ATTEMPT_STRS, N(ATTEMPT_STRS)};

static const size_t KEY_STRS[] = {
    offsetof(struct mem_key, tenant),
    offsetof(struct mem_key, key),
    offsetof(struct mem_key, id),
};
const struct mem_kind MEM_KEY = {sizeof(struct mem_key), KEY_STRS, N(KEY_STRS)};

const struct mem_kind MEM_EDGE = {sizeof(struct job_edge), NULL, 0};

static const size_t SHARED_STRS[] = {
    offsetof(struct shared_row, tenant),
    offsetof(struct shared_row, key),
    offsetof(struct shared_row, value),
};
const struct mem_kind MEM_SHARED = {sizeof(struct shared_row), SHARED_STRS, N(SHARED_STRS)};

static const size_t COUNTER_STRS[] = {
    offsetof(struct counter, tenant),
    offsetof(struct counter, name),
    offsetof(struct counter, label),
};
const struct mem_kind MEM_COUNTER = {sizeof(struct counter), COUNTER_STRS, N(COUNTER_STRS)};

bool memory_seek(const struct mem_state *state, int64_t seq, size_t *ret_i)
{
    size_t low = 0, high = state->jobs.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (job_at(state, middle)->status.seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    *ret_i = low;
    return low < state->jobs.n && job_at(state, low)->status.seq == seq;
}

const struct job *memory_find_id(const struct mem_state *state, struct str tenant, struct str id)
{
    for (size_t i = 0; i < state->jobs.n; i++) {
        const struct job *job = job_at(state, i);
        if (str_eq(job->spec.id, id) && str_eq(job->spec.tenant, tenant))
            return job;
    }
    return NULL;
}

int memory_page(const struct job *const *jobs, size_t n, struct job_page *ret,
                struct redrive_err *err)
{
    job_page_release(ret);
    ret->jobs = arena_array(&ret->arena, n, sizeof *ret->jobs);
    for (size_t i = 0; ret->jobs && i < n; i++)
        mem_table_copy_out(&MEM_JOB, &ret->jobs[i], jobs[i], &ret->arena);
    ret->n = n;
    if (!ret->arena.failed)
        return 0;
    job_page_release(ret);
    return err_nomem(err);
}
