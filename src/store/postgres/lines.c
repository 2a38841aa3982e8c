#include <stdlib.h>

#include "base/err.h"
#include "store/postgres/private.h"
#include "store/postgres/text.h"

#define KEY_MAX ((size_t)1 << 20)

void pg_lines_init(struct lines *lines)
{
    *lines = (struct lines){0};
    map_init(&lines->by_name, rng_system_seed());
    buf_init(&lines->key, KEY_MAX);
}

static void line_free(struct line *line)
{
    if (!line)
        return;
    free((char *)line->tenant.ptr);
    free((char *)line->queue.ptr);
    free((char *)line->task.ptr);
    free(line);
}

void pg_lines_release(struct lines *lines)
{
    for (size_t i = 0; i < lines->n_by_id; i++)
        line_free(lines->by_id[i]);
    free(lines->by_id);
    map_release(&lines->by_name);
    buf_release(&lines->key);
}

/* The three names with their lengths, so that no two lines look the same. */
static int line_key(struct lines *lines, struct str tenant, struct str queue, struct str task,
                    struct str *ret)
{
    const size_t lengths[2] = {tenant.len, queue.len};
    buf_reset(&lines->key);
    (void)buf_add(&lines->key, lengths, sizeof lengths);
    (void)buf_add_str(&lines->key, tenant);
    (void)buf_add_str(&lines->key, queue);
    int rc = buf_add_str(&lines->key, task);
    *ret = buf_str(&lines->key);
    return rc;
}

static bool make_room(struct lines *lines, int64_t id)
{
    if ((size_t)id < lines->n_by_id)
        return true;
    size_t n = ((size_t)id + 1) * 2;
    struct line **grown = realloc(lines->by_id, n * sizeof(struct line *));
    if (!grown)
        return false;
    memset(grown + lines->n_by_id, 0, (n - lines->n_by_id) * sizeof(struct line *));
    lines->by_id = grown;
    lines->n_by_id = n;
    return true;
}

static bool copy(struct str s, struct str *ret)
{
    *ret = (struct str){str_dup(s), s.len};
    return ret->ptr != NULL;
}

static int keep(struct store *store, int64_t id, int64_t tenant_id, struct str tenant,
                struct str queue, struct str task, struct line **ret, struct redrive_err *err)
{
    struct lines *lines = &store->lines;
    struct str key;
    if (id <= 0 || id > INT32_MAX)
        return pg_damaged(store, 0, "a line has an impossible number", err);
    if (!make_room(lines, id))
        return err_nomem(err);
    *ret = lines->by_id[id];
    if (*ret)
        return 0;
    struct line *line = calloc(1, sizeof *line);
    if (!line)
        return err_nomem(err);
    line->id = id;
    line->tenant_id = tenant_id;
    if (!copy(tenant, &line->tenant) || !copy(queue, &line->queue) || !copy(task, &line->task) ||
        line_key(lines, tenant, queue, task, &key) != 0 ||
        map_put(&lines->by_name, key, line) != 0) {
        line_free(line);
        return err_nomem(err);
    }
    lines->by_id[id] = line;
    *ret = line;
    return 0;
}

int pg_line_named(struct store *store, struct str tenant, struct str queue, struct str task,
                  struct line **ret, struct redrive_err *err)
{
    struct str key;
    const PGresult *result;
    if (line_key(&store->lines, tenant, queue, task, &key) != 0)
        return err_set(err, REDRIVE_E_TOO_BIG, "the names of a job are too long");
    *ret = map_get(&store->lines.by_name, key);
    if (*ret)
        return 0;
    pg_args_name(&store->args, tenant);
    pg_args_name(&store->args, queue);
    pg_args_name(&store->args, task);
    int rc = pg_run(store, STATEMENT_LINE_NAMED, &result, err);
    if (rc != 0)
        return rc;
    store->lines.added = true;
    return keep(store, pg_get_int(result, 0, 0), pg_get_int(result, 0, 1), tenant, queue, task, ret,
                err);
}

struct line *pg_line_numbered(const struct store *store, int64_t id)
{
    return id > 0 && (size_t)id < store->lines.n_by_id ? store->lines.by_id[id] : NULL;
}

/* Keeps what a result of (line_id, tenant_id, tenant, queue, task) tells. */
static int keep_all(struct store *store, const PGresult *result, struct redrive_err *err)
{
    struct arena arena;
    int rc = 0;
    arena_init(&arena);
    for (int i = 0; i < PQntuples(result) && rc == 0; i++) {
        struct line *line;
        struct str tenant = pg_get_text(result, i, 2, &arena);
        struct str queue = pg_get_text(result, i, 3, &arena);
        struct str task = pg_get_text(result, i, 4, &arena);
        rc = arena.failed ? err_nomem(err)
                          : keep(store, pg_get_int(result, i, 0), pg_get_int(result, i, 1), tenant,
                                 queue, task, &line, err);
    }
    arena_release(&arena);
    return rc;
}

/* The result that is looked at is among those that the next statement would take the place of: it
 * is set aside. */
int pg_lines_know(struct store *store, const PGresult *result, int column, struct redrive_err *err)
{
    size_t unknown = 0;
    int64_t last = 0;
    for (int i = 0; i < PQntuples(result); i++) {
        int64_t id = pg_get_int(result, i, column);
        if (id == 0 || id == last || pg_line_numbered(store, id))
            continue;
        if (unknown++ == 0)
            pg_args_array(&store->args, ARG_INT4);
        pg_item_int4(&store->args, (int32_t)id);
        last = id;
    }
    if (unknown == 0)
        return 0;
    pg_args_array_end(&store->args);
    PGresult **aside = store->results;
    const size_t n = store->n_results, capacity = store->results_capacity;
    store->results = NULL;
    store->n_results = store->results_capacity = 0;
    const PGresult *lines;
    int rc = pg_run(store, STATEMENT_LINES_KNOWN, &lines, err);
    if (rc == 0)
        rc = keep_all(store, lines, err);
    pg_forget_results(store);
    free(store->results);
    store->results = aside;
    store->n_results = n;
    store->results_capacity = capacity;
    for (int i = 0; i < PQntuples(result) && rc == 0; i++)
        if (pg_get_int(result, i, column) != 0 &&
            !pg_line_numbered(store, pg_get_int(result, i, column)))
            rc = pg_damaged(store, 0, "jobs stand in a line that is not there", err);
    return rc;
}

void pg_line_count(struct store *store, struct line *line, int from, int to)
{
    if (from >= 0)
        line->moved[from]--;
    if (to >= 0)
        line->moved[to]++;
    if (line->touched)
        return;
    line->touched = true;
    line->next_touched = store->lines.touched;
    store->lines.touched = line;
}

static void untouch(struct store *store)
{
    struct line *next;
    for (struct line *line = store->lines.touched; line; line = next) {
        next = line->next_touched;
        line->touched = false;
        line->next_touched = NULL;
        memset(line->moved, 0, sizeof line->moved);
    }
    store->lines.touched = NULL;
}

int pg_lines_flush(struct store *store, struct redrive_err *err)
{
    struct args *args = &store->args;
    if (!store->lines.touched)
        return 0;
    pg_args_rows(args, store->types.tallies);
    for (const struct line *line = store->lines.touched; line; line = line->next_touched) {
        pg_row_begin(args);
        pg_field_int4(args, (int32_t)line->id);
        for (int i = 0; i < REDRIVE_STATE_COUNT; i++)
            pg_field_int8(args, line->moved[i]);
        pg_row_end(args);
        store->n_appended++;
    }
    pg_args_array_end(args);
    untouch(store);
    return pg_send(store, STATEMENT_TALLIES_ADD, false, err);
}

void pg_lines_settled(struct store *store)
{
    store->lines.added = false;
}

void pg_lines_forget(struct store *store)
{
    untouch(store);
    if (!store->lines.added)
        return;
    pg_lines_release(&store->lines);
    pg_lines_init(&store->lines);
}
