/* stats.c - `redrive dlq stats` and `redrive dlq groups`: what died, and of what? */
#include "cli/commands/dlq/private.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/jobs/select.h"
#include "cli/jobs/text.h"
#include "cli/output/listing.h"
#include "cli/output/table.h"
#include "cli/output/tally.h"
#include "cli/shared/session.h"
#include "store/job_json.h"

#define OUTPUT_MAX (64u * 1024 * 1024)

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

static void put_json(const struct stats *stats, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_int(&w, "total_jobs", (int64_t)stats->total);
    for (size_t i = 0; i < N_COUNTS; i++) {
        const struct tally *tally = &stats->counts[i];
        json_key(&w, KEYS[i]);
        json_begin_object(&w);
        for (size_t k = 0; k < tally->n; k++) {
            json_key_str(&w, str_of(tally->rows[k].name));
            json_put_uint(&w, tally->rows[k].count);
        }
        json_end_object(&w);
    }
    json_end_object(&w);
    buf_putc(out, '\n');
}

static int put_tables(const struct stats *stats, const struct term *term, struct buf *out)
{
    int rc = 0;
    buf_printf(out, "%" PRIu64 " dead letter%s\n", stats->total, stats->total == 1 ? "" : "s");
    for (size_t i = 0; i < N_COUNTS && stats->total > 0 && rc == 0; i++) {
        const struct tally *tally = &stats->counts[i];
        const struct table_column columns[] = {{"JOBS", ALIGN_RIGHT}, {TITLES[i], ALIGN_LEFT}};
        struct table t;
        table_init(&t, columns, 2);
        for (size_t k = 0; k < tally->n; k++) {
            table_addf(&t, "%" PRIu64, tally->rows[k].count);
            table_add(&t, tally->rows[k].name);
        }
        buf_putc(out, '\n');
        rc = table_render(&t, term->width, term->color, out);
        table_release(&t);
    }
    return rc;
}

static int print_stats(struct cli *cli, const struct stats *stats, struct redrive_err *err)
{
    struct buf out;
    int rc = 0;
    buf_init(&out, OUTPUT_MAX);
    if (cli->globals->json)
        put_json(stats, &out);
    else
        rc = put_tables(stats, &cli->out, &out);
    if (rc == 0)
        return cli_print(cli, &out, err);
    buf_release(&out);
    return err_set(err, rc, "cannot print the statistics: %s", redrive_err_text(rc));
}

static int run_stats(struct cli *cli, struct redrive_err *err)
{
    const struct stats_options *options = invocation_options(&cli->invocation);
    struct session session;
    struct job_filter filter;
    struct stats stats = {0};
    int rc = job_select_read(&options->select, &filter, err);
    if (rc < 0)
        return rc;
    filter.states = DLQ_STATES;
    for (size_t i = 0; i < N_COUNTS; i++)
        tally_init(&stats.counts[i]);
    rc = session_open_existing(cli, &session, err);
    if (rc == 0) {
        job_select_date(&options->select, engine_now_ms(session.engine), &filter);
        rc = count_jobs(session.store, &filter, &stats, err);
    }
    if (rc == 0)
        rc = print_stats(cli, &stats, err);
    for (size_t i = 0; i < N_COUNTS; i++)
        tally_release(&stats.counts[i]);
    session_close(&session);
    return rc;
}

const struct command dlq_stats = {
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
    .run = run_stats,
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

static void put_groups_json(const struct group_page *page, struct buf *out)
{
    char text[FINGERPRINT_TEXT_MAX];
    struct json_writer w;
    listing_begin(&w, out);
    for (size_t i = 0; i < page->n; i++) {
        const struct group_count *g = &page->groups[i];
        json_begin_object(&w);
        json_field_cstr(&w, "fingerprint", fingerprint_format(g->fingerprint, text));
        json_field_int(&w, "count", (int64_t)g->count);
        job_write_time(&w, "first_seen", g->first_ms);
        job_write_time(&w, "last_seen", g->last_ms);
        json_field_string(&w, "task", g->example.spec.task);
        json_field_string(&w, "example_id", g->example.spec.id);
        job_write_error(&w, "example", &g->example.status.error);
        json_end_object(&w);
    }
    listing_end(&w, NULL);
}

static int put_groups_table(const struct group_page *page, const struct term *term, int64_t now_ms,
                            struct buf *out)
{
    static const struct table_column COLUMNS[] = {
        {"GROUP", ALIGN_LEFT}, {"JOBS", ALIGN_RIGHT}, {"FIRST", ALIGN_RIGHT},
        {"LAST", ALIGN_RIGHT}, {"TASK", ALIGN_LEFT},  {"EXAMPLE", ALIGN_LEFT},
        {"ERROR", ALIGN_LEFT},
    };
    struct table t;
    struct buf cell;
    table_init(&t, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    buf_init(&cell, OUTPUT_MAX);
    for (size_t i = 0; i < page->n; i++) {
        const struct group_count *g = &page->groups[i];
        const struct job_spec *spec = &g->example.spec;
        char text[FINGERPRINT_TEXT_MAX], age[AGE_TEXT_MAX];
        table_add(&t, fingerprint_format(g->fingerprint, text));
        table_addf(&t, "%" PRIu64, g->count);
        table_add(&t, age_text(now_ms - g->first_ms, age));
        table_add(&t, age_text(now_ms - g->last_ms, age));
        table_addf(&t, "%.*s", (int)spec->task.len, spec->task.ptr);
        table_addf(&t, "%.*s", (int)spec->id.len, spec->id.ptr);
        buf_reset(&cell);
        job_add_error(&cell, &g->example.status.error);
        table_add(&t, buf_cstr(&cell));
    }
    int rc = table_render(&t, term->width, term->color, out);
    buf_release(&cell);
    table_release(&t);
    return rc;
}

static int run_groups(struct cli *cli, struct redrive_err *err)
{
    const struct groups_options *options = invocation_options(&cli->invocation);
    struct session session;
    struct job_filter filter;
    struct group_page page = {0};
    struct buf out;
    int rc = job_select_read(&options->select, &filter, err);
    if (rc < 0)
        return rc;
    filter.states = DLQ_STATES;
    filter.limit = (size_t)options->limit;
    buf_init(&out, OUTPUT_MAX);
    rc = session_open_existing(cli, &session, err);
    const int64_t now_ms = rc == 0 ? engine_now_ms(session.engine) : 0;
    job_select_date(&options->select, now_ms, &filter);
    if (rc == 0)
        rc = store_ops(session.store)->groups(session.store, &filter, &page, err);
    if (rc == 0 && cli->globals->json)
        put_groups_json(&page, &out);
    else if (rc == 0 && put_groups_table(&page, &cli->out, now_ms, &out) < 0)
        rc = err_nomem(err);
    if (rc == 0)
        rc = cli_print(cli, &out, err);
    buf_release(&out);
    group_page_release(&page);
    session_close(&session);
    return rc;
}

const struct command dlq_groups = {
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
    .run = run_groups,
};
