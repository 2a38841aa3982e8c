/* shared.c - what processes share: rows with versions, and counters. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "store/redis/private.h"

int rd_scan_hash(struct store *store, const char *key,
                 int (*each)(void *ctx, struct str field, struct str value,
                             struct redrive_err *err),
                 void *ctx, struct redrive_err *err)
{
    char cursor[24] = "0";
    int rc = 0;
    while (rc == 0) {
        redisReply *reply = NULL;
        rd_ask_read(store, "scan");
        rd_ask_text(store, key);
        rd_ask_text(store, cursor);
        rc = rd_link_read(store, &reply, err);
        if (rc != 0)
            return rc;
        str_copy(cursor, sizeof cursor, rd_reply_str(reply, 0));
        for (size_t i = 1; rc == 0 && i + 1 < reply->elements; i += 2)
            rc = each(ctx, rd_reply_str(reply, i), rd_reply_str(reply, i + 1), err);
        freeReplyObject(reply);
        if (strcmp(cursor, "0") == 0)
            return rc;
    }
    return rc;
}

/* Byte order. */
static int compare(struct str a, struct str b)
{
    const size_t shorter = a.len < b.len ? a.len : b.len;
    const int order = shorter > 0 ? memcmp(a.ptr, b.ptr, shorter) : 0;
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* ---- Rows ---------------------------------------------------------------------------------------
 */

static void shared_key(enum shared_kind kind, char ret[16])
{
    snprintf(ret, 16, "s:%d", (int)kind);
}

static int put_one(struct store *store, const struct shared_row *row, struct cell *cell,
                   struct move_result *ret, struct redrive_err *err)
{
    const int64_t version = cell->now.len > 0 ? strtoll(cell->now.ptr, NULL, 10) : 0;
    struct buf value;
    *ret = (struct move_result){0};
    if (version != row->version || (row->removed && version == 0)) {
        ret->code = REDRIVE_E_STATE;
        return 0;
    }
    buf_init(&value, (size_t)1 << 30);
    if (!row->removed) {
        buf_printf(&value, "%" PRId64 " ", version + 1);
        buf_add_str(&value, row->value);
    }
    int rc = buf_failed(&value) ? err_nomem(err) : rd_cell_put(store, cell, buf_str(&value), err);
    buf_release(&value);
    store->shared_version += shared_is_cached(row->kind);
    return rc;
}

int redis_shared_put(struct store *store, const struct shared_row *rows, size_t n,
                     struct move_result *ret, struct redrive_err *err)
{
    int rc = rd_unit_needed(store, err);
    if (rc != 0 || n == 0)
        return rc;
    struct str *names = arena_array(&store->arena, 2 * n, sizeof *names);
    struct cell **cells = arena_array(&store->arena, n, sizeof(struct cell *));
    if (!names || !cells)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        char key[16];
        shared_key(rows[i].kind, key);
        buf_reset(&store->row);
        rd_add_part(&store->row, rows[i].tenant);
        rd_add_part(&store->row, rows[i].key);
        names[2 * i] = rd_unit_dup(store, str_of(key));
        names[2 * i + 1] = rd_unit_dup(store, buf_str(&store->row));
    }
    rc = store->arena.failed ? err_nomem(err) : rd_cells_get(store, names, n, cells, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put_one(store, &rows[i], cells[i], &ret[i], err);
    return rc;
}

struct shared_reader {
    enum shared_kind kind;
    struct str tenant;
    struct shared_page *page;
    size_t capacity;
};

static int read_row(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct shared_reader *r = ctx;
    struct arena *arena = &r->page->arena;
    struct shared_row row = {.kind = r->kind};
    char *end = NULL;
    if (!rd_take_part(&field, arena, &row.tenant) || !rd_take_part(&field, arena, &row.key))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "a shared row is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, row.tenant))
        return 0;
    row.version = value.len > 0 ? strtoll(value.ptr, &end, 10) : 0;
    if (!end || *end != ' ')
        return err_set(err, REDRIVE_E_CORRUPT, "a shared row is damaged");
    row.value =
        rd_page_dup(arena, (struct str){end + 1, value.len - (size_t)(end + 1 - value.ptr)});
    if (r->page->n == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16;
        struct shared_row *grown = arena_array(arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (r->page->n > 0)
            memcpy(grown, r->page->rows, r->page->n * sizeof *grown);
        r->page->rows = grown;
        r->capacity = capacity;
    }
    r->page->rows[r->page->n++] = row;
    return arena->failed ? err_nomem(err) : 0;
}

static int by_name(const void *left, const void *right)
{
    const struct shared_row *a = left, *b = right;
    const int order = compare(a->tenant, b->tenant);
    return order != 0 ? order : compare(a->key, b->key);
}

int redis_shared_list(struct store *store, enum shared_kind kind, struct str tenant,
                      struct shared_page *ret, struct redrive_err *err)
{
    char key[16];
    shared_page_release(ret);
    struct shared_reader reader = {.kind = kind, .tenant = tenant, .page = ret};
    shared_key(kind, key);
    int rc = rd_unit_write_for_key(store, str_of(key), err);
    if (rc == 0)
        rc = rd_scan_hash(store, key, read_row, &reader, err);
    if (rc != 0) {
        shared_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->rows, ret->n, sizeof *ret->rows, by_name);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (n == 0 || by_name(&ret->rows[n - 1], &ret->rows[i]) != 0)
            ret->rows[n++] = ret->rows[i];
    ret->n = n;
    return 0;
}

/* ---- Counters -----------------------------------------------------------------------------------
 */

int redis_counters_add(struct store *store, const struct counter *counters, size_t n,
                       struct redrive_err *err)
{
    int rc = rd_unit_needed(store, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        buf_reset(&store->row);
        rd_add_part(&store->row, counters[i].tenant);
        rd_add_part(&store->row, counters[i].name);
        rd_add_part(&store->row, counters[i].label);
        rd_ops_sum(&store->onward, STR("c"), buf_str(&store->row), counters[i].value);
        rd_ops_sum(&store->back, STR("c"), buf_str(&store->row), -counters[i].value);
        if (buf_failed(&store->row) || store->onward.failed || store->back.failed)
            rc = err_nomem(err);
    }
    return rc;
}

struct counter_reader {
    struct str tenant;
    struct counter_page *page;
    size_t capacity;
};

static int read_counter(void *ctx, struct str field, struct str value, struct redrive_err *err)
{
    struct counter_reader *r = ctx;
    struct arena *arena = &r->page->arena;
    struct counter c = {.value = value.len > 0 ? strtoll(value.ptr, NULL, 10) : 0};
    if (!rd_take_part(&field, arena, &c.tenant) || !rd_take_part(&field, arena, &c.name) ||
        !rd_take_part(&field, arena, &c.label))
        return arena->failed ? err_nomem(err)
                             : err_set(err, REDRIVE_E_CORRUPT, "a counter is damaged");
    if (r->tenant.len > 0 && !str_eq(r->tenant, c.tenant))
        return 0;
    if (r->page->n == r->capacity) {
        const size_t capacity = r->capacity ? 2 * r->capacity : 16;
        struct counter *grown = arena_array(arena, capacity, sizeof *grown);
        if (!grown)
            return err_nomem(err);
        if (r->page->n > 0)
            memcpy(grown, r->page->counters, r->page->n * sizeof *grown);
        r->page->counters = grown;
        r->capacity = capacity;
    }
    r->page->counters[r->page->n++] = c;
    return 0;
}

static int counter_order(const void *left, const void *right)
{
    const struct counter *a = left, *b = right;
    int order = compare(a->tenant, b->tenant);
    if (order == 0)
        order = compare(a->name, b->name);
    return order != 0 ? order : compare(a->label, b->label);
}

int redis_counters_list(struct store *store, struct str tenant, struct counter_page *ret,
                        struct redrive_err *err)
{
    counter_page_release(ret);
    struct counter_reader reader = {.tenant = tenant, .page = ret};
    int rc = rd_unit_write_for_key(store, STR("c"), err);
    if (rc == 0)
        rc = rd_scan_hash(store, "c", read_counter, &reader, err);
    if (rc != 0) {
        counter_page_release(ret);
        return rc;
    }
    if (ret->n > 0)
        qsort(ret->counters, ret->n, sizeof *ret->counters, counter_order);
    size_t n = 0;
    for (size_t i = 0; i < ret->n; i++)
        if (n == 0 || counter_order(&ret->counters[n - 1], &ret->counters[i]) != 0)
            ret->counters[n++] = ret->counters[i];
    ret->n = n;
    return 0;
}
