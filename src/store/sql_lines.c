#include "store/sql_lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"

#define KEY_MAX ((size_t)1 << 20)

void lines_init(struct lines *lines)
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

void lines_release(struct lines *lines)
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

int lines_get(struct lines *lines, struct str tenant, struct str queue, struct str task,
              struct line **ret, struct redrive_err *err)
{
    struct str key;
    *ret = NULL;
    const int rc = line_key(lines, tenant, queue, task, &key);
    if (rc != 0)
        return err_full(err, rc, "the names of a job are too long");
    *ret = map_get(&lines->by_name, key);
    return 0;
}

struct line *lines_at(const struct lines *lines, int64_t id)
{
    return id > 0 && (size_t)id < lines->n_by_id ? lines->by_id[id] : NULL;
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

bool lines_keep(struct lines *lines, const struct line *read, struct line **ret)
{
    struct str key;
    if (!make_room(lines, read->id))
        return false;
    *ret = lines->by_id[read->id];
    if (*ret)
        return true;
    struct line *line = calloc(1, sizeof *line);
    if (!line)
        return false;
    line->id = read->id;
    line->tenant_id = read->tenant_id;
    if (!copy(read->tenant, &line->tenant) || !copy(read->queue, &line->queue) ||
        !copy(read->task, &line->task) ||
        line_key(lines, line->tenant, line->queue, line->task, &key) != 0 ||
        map_put(&lines->by_name, key, line) != 0) {
        line_free(line);
        return false;
    }
    lines->by_id[line->id] = line;
    *ret = line;
    return true;
}

void lines_count(struct lines *lines, struct line *line, int from, int to)
{
    if (from >= 0)
        line->moved[from]--;
    if (to >= 0)
        line->moved[to]++;
    if (line->touched)
        return;
    line->touched = true;
    line->next_touched = lines->touched;
    lines->touched = line;
}

void lines_written(struct lines *lines)
{
    struct line *next;
    for (struct line *line = lines->touched; line; line = next) {
        next = line->next_touched;
        line->touched = false;
        line->next_touched = NULL;
        memset(line->moved, 0, sizeof line->moved);
    }
    lines->touched = NULL;
}

void lines_forget(struct lines *lines)
{
    lines_written(lines);
    if (!lines->added)
        return;
    lines_release(lines);
    lines_init(lines);
}
