#include "doors/dead_counts.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"

struct count {
    struct str name;
    uint64_t n;
};

static const char *const KEYS[] = {
    [DEAD_BY_CLASS] = "failure_type_counts", /* a class is what a type of failure is here */
    [DEAD_BY_REASON] = "by_reason",
    [DEAD_BY_TASK] = "by_task",
    [DEAD_BY_TYPE] = "by_type",
};

void dead_counts_init(struct dead_counts *counts)
{
    *counts = (struct dead_counts){0};
    arena_init(&counts->arena);
    for (size_t i = 0; i < DEAD_BY_COUNT; i++)
        map_init(&counts->by[i], (uint64_t)clock_monotonic_ns());
}

void dead_counts_release(struct dead_counts *counts)
{
    for (size_t i = 0; i < DEAD_BY_COUNT; i++)
        map_release(&counts->by[i]);
    arena_release(&counts->arena);
}

static void add(struct dead_counts *counts, enum dead_by by, struct str name, uint64_t n)
{
    struct count *count = map_get(&counts->by[by], name);
    if (!count) {
        count = arena_alloc(&counts->arena, sizeof *count);
        const char *copy = arena_dup(&counts->arena, name);
        if (!count || !copy || map_put(&counts->by[by], name, count) < 0) {
            counts->failed = true;
            return;
        }
        *count = (struct count){.name = {copy, name.len}};
    }
    count->n += n;
}

/* What never ran has no error. */
static void add_cause(void *ctx, const struct cause_count *cause)
{
    struct dead_counts *counts = ctx;
    const bool has_error = cause->class_ != REDRIVE_CLASS_SUCCESS;
    counts->total += cause->count;
    add(counts, DEAD_BY_CLASS, has_error ? str_of(redrive_class_name(cause->class_)) : STR("none"),
        cause->count);
    add(counts, DEAD_BY_REASON, str_of(redrive_reason_name(cause->reason)), cause->count);
    add(counts, DEAD_BY_TASK, cause->task, cause->count);
    add(counts, DEAD_BY_TYPE, cause->type.len > 0 ? cause->type : STR("none"), cause->count);
}

int dead_counts_read(struct dead_counts *counts, struct store *store,
                     const struct job_filter *filter, struct redrive_err *err)
{
    int rc = store_ops(store)->causes(store, filter, add_cause, counts, err);
    return rc == 0 && counts->failed ? err_nomem(err) : rc;
}

static int larger_first(const void *a, const void *b)
{
    const struct count *x = a, *y = b;
    if (x->n != y->n)
        return x->n > y->n ? -1 : 1;
    size_t len = x->name.len < y->name.len ? x->name.len : y->name.len;
    int order = memcmp(x->name.ptr, y->name.ptr, len);
    return order != 0 ? order : (x->name.len > y->name.len) - (x->name.len < y->name.len);
}

static void write_map(struct json_writer *w, const struct map *map)
{
    struct count *sorted = calloc(map->count + 1, sizeof *sorted);
    size_t n = 0;
    json_begin_object(w);
    if (sorted) {
        MAP_FOREACH (map, slot)
            sorted[n++] = *(const struct count *)slot->value;
        qsort(sorted, n, sizeof *sorted, larger_first);
    }
    for (size_t i = 0; i < n; i++) {
        json_key_str(w, sorted[i].name);
        json_put_uint(w, sorted[i].n);
    }
    json_end_object(w);
    free(sorted);
}

void dead_counts_write(struct json_writer *w, const struct dead_counts *counts)
{
    json_begin_object(w);
    json_key(w, "total_jobs");
    json_put_uint(w, counts->total);
    for (size_t i = 0; i < DEAD_BY_COUNT; i++) {
        json_key(w, KEYS[i]);
        write_map(w, &counts->by[i]);
    }
    json_end_object(w);
}
