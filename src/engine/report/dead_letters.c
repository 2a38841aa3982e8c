/* dead_letters.c - counts dead letters by class, reason, task and type, and writes the counts. */
#include "engine/report/dead_letters.h"

#include "base/err.h"
#include "core/classify/fingerprint.h"
#include "store/job_json.h"

static const char *const KEYS[] = {
    [DEAD_BY_CLASS] = "failure_type_counts", /* a class is what a type of failure is here */
    [DEAD_BY_REASON] = "by_reason",
    [DEAD_BY_TASK] = "by_task",
    [DEAD_BY_TYPE] = "by_type",
};

const char *dead_counts_key(enum dead_by by)
{
    return KEYS[by];
}

void dead_counts_init(struct dead_counts *counts, uint64_t seed)
{
    *counts = (struct dead_counts){0};
    arena_init(&counts->arena);
    for (size_t i = 0; i < DEAD_BY_COUNT; i++)
        name_counts_init(&counts->by[i], &counts->arena, seed);
}

void dead_counts_release(struct dead_counts *counts)
{
    for (size_t i = 0; i < DEAD_BY_COUNT; i++)
        name_counts_release(&counts->by[i]);
    arena_release(&counts->arena);
}

/* What never ran has no error. */
static void add_cause(void *ctx, const struct cause_count *cause)
{
    struct dead_counts *counts = ctx;
    const bool has_error = cause->class_ != REDRIVE_CLASS_SUCCESS;
    counts->total += cause->count;
    name_counts_add(&counts->by[DEAD_BY_CLASS],
                    has_error ? str_of(redrive_class_name(cause->class_)) : STR("none"),
                    cause->count);
    name_counts_add(&counts->by[DEAD_BY_REASON], str_of(redrive_reason_name(cause->reason)),
                    cause->count);
    name_counts_add(&counts->by[DEAD_BY_TASK], cause->task, cause->count);
    const struct str type = counts->hides_types ? STR("[redacted]") : cause->type;
    name_counts_add(&counts->by[DEAD_BY_TYPE], cause->type.len > 0 ? type : STR("none"),
                    cause->count);
}

int dead_counts_read(struct dead_counts *counts, struct store *store,
                     const struct job_filter *filter, struct redrive_err *err)
{
    int rc = store_ops(store)->causes(store, filter, add_cause, counts, err);
    for (size_t i = 0; i < DEAD_BY_COUNT && rc == 0; i++)
        rc = counts->by[i].failed ? err_nomem(err) : 0;
    return rc;
}

static void write_counts(struct json_writer *w, const struct name_counts *counts)
{
    size_t n;
    const struct name_count *sorted = name_counts_sorted(counts, &n);
    if (!sorted)
        w->out->failed = REDRIVE_E_NOMEM;
    json_begin_object(w);
    for (size_t i = 0; sorted && i < n; i++) {
        json_key_str(w, sorted[i].name);
        json_put_uint(w, sorted[i].n);
    }
    json_end_object(w);
}

void dead_counts_write(struct json_writer *w, const struct dead_counts *counts)
{
    json_begin_object(w);
    json_key(w, "total_jobs");
    json_put_uint(w, counts->total);
    for (size_t i = 0; i < DEAD_BY_COUNT; i++) {
        json_key(w, KEYS[i]);
        write_counts(w, &counts->by[i]);
    }
    json_end_object(w);
}

void group_write_json(struct json_writer *w, const struct group_count *group)
{
    char text[FINGERPRINT_TEXT_MAX];
    json_begin_object(w);
    json_field_cstr(w, "fingerprint", fingerprint_text(group->fingerprint, text));
    json_field_int(w, "count", (int64_t)group->count);
    job_write_time(w, "first_seen", group->first_ms);
    job_write_time(w, "last_seen", group->last_ms);
    json_field_string(w, "task", group->example.spec.task);
    json_field_string(w, "example_id", group->example.spec.id);
    job_write_error(w, "example", &group->example.status.error);
    json_end_object(w);
}
