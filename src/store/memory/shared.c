/* shared.c - what processes share: rows with versions, and counters. */
#include "store/memory/private.h"

#include "base/err.h"

/* Moves the last row of a table to its place in the order. */
static void move_last(struct mem_table *table, size_t at)
{
    struct mem_row *last = table->rows[table->n - 1];
    memmove(&table->rows[at + 1], &table->rows[at], (table->n - 1 - at) * sizeof(struct mem_row *));
    table->rows[at] = last;
}

/* Whether the row is there; *ret_at: its index, or where it would be. */
static bool find_row(const struct mem_table *table, const struct shared_row *row, size_t *ret_at)
{
    size_t at = 0;
    while (at < table->n && shared_row_order(mem_table_at(table, at), row) < 0)
        at++;
    *ret_at = at;
    return at < table->n && shared_row_order(mem_table_at(table, at), row) == 0;
}

static int replace(struct mem_table *table, size_t at, const struct shared_row *row,
                   struct gate_sums sums)
{
    struct shared_row *own = mem_table_edit(table, at);
    if (!own || (!row->is_delta && !mem_table_set_str(&own->value, row->value)))
        return REDRIVE_E_NOMEM;
    own->version += !row->is_delta;
    own->sums = sums;
    return 0;
}

static int insert(struct mem_table *table, size_t at, const struct shared_row *row,
                  struct gate_sums sums)
{
    const struct shared_row first = {.kind = row->kind,
                                     .tenant = row->tenant,
                                     .key = row->key,
                                     .value = row->value,
                                     .version = 1,
                                     .sums = sums};
    if (!mem_table_add(table, &first))
        return REDRIVE_E_NOMEM;
    move_last(table, at);
    return 0;
}

static int put_one(struct mem_state *state, const struct shared_row *row, struct move_result *ret)
{
    size_t at;
    int rc = 0;
    bool there = find_row(&state->shared, row, &at);
    const struct shared_row *old = there ? mem_table_at(&state->shared, at) : NULL;
    struct gate_sums sums = old ? old->sums : (struct gate_sums){0};
    *ret = (struct move_result){0};
    if (!shared_put_fits(row, old ? old->version : 0, &sums)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    if (row->merged)
        *row->merged = (struct merged_gate){sums, (old ? old->version : 0) + !row->is_delta};
    if (row->removed)
        mem_table_remove(&state->shared, at);
    else
        rc = there ? replace(&state->shared, at, row, sums) : insert(&state->shared, at, row, sums);
    state->shared_version += shared_put_is_notified(row);
    return rc;
}

int memory_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                      struct move_result *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (put_one(&m->transaction, &rows[i], &ret[i]) < 0)
            rc = err_nomem(err);
    return rc;
}

bool memory_is_paused(const struct mem_state *state, struct str tenant, struct str queue)
{
    const struct shared_row pause = {.kind = SHARED_PAUSE, .tenant = tenant, .key = queue};
    size_t at;
    return find_row(&state->shared, &pause, &at);
}

bool memory_limit_sums(const struct mem_state *state, struct str tenant, struct str key,
                       struct gate_sums *ret)
{
    const struct shared_row limit = {.kind = SHARED_LIMIT, .tenant = tenant, .key = key};
    size_t at;
    if (!find_row(&state->shared, &limit, &at))
        return false;
    *ret = ((const struct shared_row *)mem_table_at(&state->shared, at))->sums;
    return true;
}

int memory_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                       struct shared_page *ret, struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    shared_page_release(ret);
    const struct mem_table *table = &memory_look(m)->shared;
    ret->rows = arena_array(&ret->arena, table->n, sizeof *ret->rows);
    for (size_t i = 0; ret->rows && i < table->n; i++) {
        const struct shared_row *row = mem_table_at(table, i);
        if (row->kind == kind && (tenant.len == 0 || str_eq(tenant, row->tenant)))
            mem_table_copy_out(&MEM_SHARED, &ret->rows[ret->n++], row, &ret->arena);
    }
    memory_unlook(m);
    if (!ret->arena.failed)
        return 0;
    shared_page_release(ret);
    return err_nomem(err);
}

static bool count_one(struct mem_table *table, const struct counter *counter)
{
    size_t at = 0;
    while (at < table->n && counter_order(mem_table_at(table, at), counter) < 0)
        at++;
    if (at < table->n && counter_order(mem_table_at(table, at), counter) == 0) {
        struct counter *own = mem_table_edit(table, at);
        if (own)
            own->value += counter->value;
        return own != NULL;
    }
    if (!mem_table_add(table, counter))
        return false;
    move_last(table, at);
    return true;
}

int memory_counters_add(struct store *store, const struct counter *counters, size_t n,
                        struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    int rc = memory_need_transaction(m, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (!count_one(&m->transaction.counters, &counters[i]))
            rc = err_nomem(err);
    return rc;
}

int memory_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                         struct redrive_err *err)
{
    struct memory *m = memory_of(store);
    counter_page_release(ret);
    const struct mem_table *table = &memory_look(m)->counters;
    ret->counters = arena_array(&ret->arena, table->n, sizeof *ret->counters);
    for (size_t i = 0; ret->counters && i < table->n; i++) {
        const struct counter *counter = mem_table_at(table, i);
        if (tenant.len == 0 || str_eq(tenant, counter->tenant))
            mem_table_copy_out(&MEM_COUNTER, &ret->counters[ret->n++], counter, &ret->arena);
    }
    memory_unlook(m);
    if (!ret->arena.failed)
        return 0;
    counter_page_release(ret);
    return err_nomem(err);
}
