/* stats.c - `redrive dlq stats` and `redrive dlq groups`: what died, and of what? */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem/map.h"
#include "cli/jobs/list.h"
#include "cli/shared/session.h"
#include "store/job_json.h"

/* ---- How often each name came ---------------------------------------------------------------- */

struct tally_row {
    const char *name;
    uint64_t count;
};

/* Running out of memory sticks and is returned by tally_sort. */
struct tally {
    struct map counts; /* name → uint64_t */
    struct tally_row *rows;
    size_t n;
    bool failed;
};

static void tally_init(struct tally *t)
{
    *t = (struct tally){0};
    map_init(&t->counts, 1);
}

static void tally_release(struct tally *t)
{
    MAP_FOREACH (&t->counts, slot)
        free(slot->value);
    map_release(&t->counts);
    free(t->rows);
    *t = (struct tally){0};
}

/* It came n times more. */
static void tally_add(struct tally *t, struct str name, uint64_t n)
{
    uint64_t *count = map_get(&t->counts, name);
    if (count) {
        *count += n;
        return;
    }
    count = malloc(sizeof *count);
    if (!count || map_put(&t->counts, name, count) < 0) {
        free(count);
        t->failed = true;
        return;
    }
    *count = n;
}

static int by_count(const void *left, const void *right)
{
    const struct tally_row *a = left, *b = right;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Makes the rows, the most frequent first, then by name; 0 or REDRIVE_E_NOMEM. They are valid until
 * release; nothing may be added meanwhile. */
static int tally_sort(struct tally *t)
{
    free(t->rows);
    t->n = 0;
    t->rows = calloc(t->counts.count + 1, sizeof *t->rows);
    if (!t->rows || t->failed)
        return REDRIVE_E_NOMEM;
    MAP_FOREACH (&t->counts, slot)
        t->rows[t->n++] = (struct tally_row){slot->key, *(uint64_t *)slot->value};
    qsort(t->rows, t->n, sizeof *t->rows, by_count);
    return 0;
}

/* ---- stats ----------------------------------------------------------------------------------- */

struct stats_options {
    struct job_select select;
};

static const struct option STATS_OPTIONS[] = {
    JOB_SELECT_ROWS(struct stats_options, select),
    {0},
};

enum {
    BY_CLASS,
    BY_REASON,
    BY_TASK,
    BY_TYPE,
    N_COUNTS
};

static const char *const KEYS[] = {
    [BY_CLASS] = "failure_type_counts", /* a class is what a type of failure is here */
    [BY_REASON] = "by_reason",
    [BY_TASK] = "by_task",
    [BY_TYPE] = "by_type",
};
static const char *const TITLES[] = {
    [BY_CLASS] = "CLASS", [BY_REASON] = "REASON", [BY_TASK] = "TASK", [BY_TYPE] = "TYPE"};

struct stats {
    uint64_t total;
    struct tally counts[N_COUNTS];
};

static void count_cause(void *ctx, const struct cause_count *cause)
{
    struct stats *stats = ctx;
    const uint64_t n = cause->count;
    stats->total += n;
    /* What never ran has no error. */
    bool has_error = cause->class_ != REDRIVE_CLASS_SUCCESS;
    tally_add(&stats->counts[BY_CLASS],
              has_error ? str_of(redrive_class_name(cause->class_)) : STR("none"), n);
    tally_add(&stats->counts[BY_REASON], str_of(redrive_reason_name(cause->reason)), n);
    tally_add(&stats->counts[BY_TASK], cause->task, n);
    tally_add(&stats->counts[BY_TYPE], cause->type.len > 0 ? cause->type : STR("none"), n);
}

static int count_jobs(struct store *store, const struct job_filter *filter, struct stats *stats,
                      struct redrive_err *err)
{
    int rc = store_ops(store)->causes(store, filter, count_cause, stats, err);
    for (size_t i = 0; rc == 0 && i < N_COUNTS; i++)
        rc = tally_sort(&stats->counts[i]) < 0 ? err_nomem(err) : 0;
    return rc;
}

static void stats_as_json(struct json_writer *w, const void *thing)
{
    const struct stats *stats = thing;
    json_begin_object(w);
    json_field_int(w, "total_jobs", (int64_t)stats->total);
    for (size_t i = 0; i < N_COUNTS; i++) {
        const struct tally *tally = &stats->counts[i];
        json_key(w, KEYS[i]);
        json_begin_object(w);
        for (size_t k = 0; k < tally->n; k++) {
            json_key_str(w, str_of(tally->rows[k].name));
            json_put_uint(w, tally->rows[k].count);
        }
        json_end_object(w);
    }
    json_end_object(w);
}

static void stats_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct stats *stats = thing;
    buf_printf(out, "%" PRIu64 " dead letter%s\n", stats->total, stats->total == 1 ? "" : "s");
    for (size_t i = 0; i < N_COUNTS && stats->total > 0; i++) {
        const struct tally *tally = &stats->counts[i];
        const struct table_column columns[] = {{"JOBS", ALIGN_RIGHT}, {TITLES[i], ALIGN_LEFT}};
        struct table t;
        table_init(&t, columns, 2);
        for (size_t k = 0; k < tally->n; k++) {
            table_addf(&t, "%" PRIu64, tally->rows[k].count);
            table_add(&t, tally->rows[k].name);
        }
        buf_putc(out, '\n');
        table_finish(&t, term->width, term->color, out);
    }
}

static int run_stats(struct cli *cli, struct session *session, struct redrive_err *err)
{
    struct job_filter filter;
    struct stats stats = {0};
    for (size_t i = 0; i < N_COUNTS; i++)
        tally_init(&stats.counts[i]);
    job_select_filter(cli, engine_now_ms(session->engine), &filter);
    int rc = count_jobs(session->store, &filter, &stats, err);
    if (rc == 0)
        rc = cli_show(cli, &stats, stats_as_json, stats_as_text, err);
    for (size_t i = 0; i < N_COUNTS; i++)
        tally_release(&stats.counts[i]);
    return rc;
}

const struct command cmd_dlq_stats = {
    .name = "stats",
    .summary = "count dead letters by class, reason, task and type",
    .description = "They are counted where they are kept; no payload is read.",
    .options = STATS_OPTIONS,
    .options_size = sizeof(struct stats_options),
    .examples =
        (const struct example[]){
            {"redrive dlq stats --newer-than 24h", "what died since yesterday?"},
            {0},
        },
    .check = job_select_check,
    .run_on_store = run_stats,
    .variant = DLQ_STATES,
};

/* ---- groups ---------------------------------------------------------------------------------- */

struct groups_options {
    struct job_select select;
    int64_t limit;
};

static const struct option GROUPS_OPTIONS[] = {
    {.name = "limit",
     .letter = 'n',
     INTO_INT(struct groups_options, limit),
     .min = 1,
     .max = STORE_PAGE_MAX,
     .placeholder = "N",
     .default_text = "50",
     .help = "how many groups, the largest first"},
    JOB_SELECT_ROWS(struct groups_options, select),
    {0},
};

struct groups {
    struct group_page page;
    int64_t now_ms;
    struct buf *cell;
};

static void add_group_json(struct json_writer *w, const void *list, size_t i)
{
    const struct group_count *g = &((const struct groups *)list)->page.groups[i];
    char text[FINGERPRINT_TEXT_MAX];
    json_begin_object(w);
    json_field_cstr(w, "fingerprint", fingerprint_format(g->fingerprint, text));
    json_field_int(w, "count", (int64_t)g->count);
    job_write_time(w, "first_seen", g->first_ms);
    job_write_time(w, "last_seen", g->last_ms);
    json_field_string(w, "task", g->example.spec.task);
    json_field_string(w, "example_id", g->example.spec.id);
    job_write_error(w, "example", &g->example.status.error);
    json_end_object(w);
}

static void add_group_row(struct table *t, const void *list, size_t i)
{
    const struct groups *groups = list;
    const struct group_count *g = &groups->page.groups[i];
    char text[FINGERPRINT_TEXT_MAX], age[AGE_TEXT_MAX];
    table_add(t, fingerprint_format(g->fingerprint, text));
    table_addf(t, "%" PRIu64, g->count);
    table_add(t, age_text(groups->now_ms - g->first_ms, age));
    table_add(t, age_text(groups->now_ms - g->last_ms, age));
    table_add_str(t, g->example.spec.task);
    table_add_str(t, g->example.spec.id);
    buf_reset(groups->cell);
    job_add_error(groups->cell, &g->example.status.error);
    table_add_buf(t, groups->cell);
}

static int run_groups(struct cli *cli, struct session *session, struct redrive_err *err)
{
    static const struct table_column COLUMNS[] = {
        {"GROUP", ALIGN_LEFT}, {"JOBS", ALIGN_RIGHT}, {"FIRST", ALIGN_RIGHT},
        {"LAST", ALIGN_RIGHT}, {"TASK", ALIGN_LEFT},  {"EXAMPLE", ALIGN_LEFT},
        {"ERROR", ALIGN_LEFT},
    };
    const struct groups_options *options = invocation_options(&cli->invocation);
    struct groups groups = {.now_ms = engine_now_ms(session->engine)};
    struct listing listing = {
        .columns = COLUMNS,
        .n_columns = sizeof COLUMNS / sizeof COLUMNS[0],
        .item = add_group_json,
        .row = add_group_row,
        .list = &groups,
    };
    struct job_filter filter;
    struct buf cell;
    job_select_filter(cli, groups.now_ms, &filter);
    filter.limit = (size_t)options->limit;
    buf_init(&cell, CLI_OUTPUT_MAX);
    groups.cell = &cell;
    int rc = store_ops(session->store)->groups(session->store, &filter, &groups.page, err);
    listing.n = groups.page.n;
    if (rc == 0)
        rc = cli_list(cli, &listing, err);
    buf_release(&cell);
    group_page_release(&groups.page);
    return rc;
}

const struct command cmd_dlq_groups = {
    .name = "groups",
    .summary = "group dead letters whose errors look alike",
    .description = "Errors look alike when they have type, class and message in common once "
                   "numbers, names and addresses are taken out of the message. Each group has a "
                   "fingerprint, which --group of `list`, `retry`, `purge` and `export` takes.",
    .options = GROUPS_OPTIONS,
    .options_size = sizeof(struct groups_options),
    .examples =
        (const struct example[]){
            {"redrive dlq groups", "of what do jobs die?"},
            {"redrive dlq retry --group 9f86d081884c7d65 --rate 10/s", "redrive one group"},
            {0},
        },
    .check = job_select_check,
    .run_on_store = run_groups,
    .variant = DLQ_STATES,
};
