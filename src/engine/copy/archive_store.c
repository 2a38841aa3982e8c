/* archive_store.c - a store into an export, and an export into a store. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "engine/copy/archive.h"
#include "engine/copy/copy.h"
#include "engine/copy/load.h"
#include "engine/copy/source.h"
#include "engine/engine.h"

/* ---- Progress and reports -------------------------------------------------------------------- */

struct phase {
    const struct archive_options *options;
    const char *name;
    uint64_t total;
};

static int show_phase(void *ctx, uint64_t done, struct redrive_err *err)
{
    const struct phase *phase = ctx;
    const struct archive_options *o = phase->options;
    if (!o->progress || o->progress(o->ctx, phase->name, done, phase->total))
        return 0;
    return err_set(err, REDRIVE_E_CANCELLED, "interrupted");
}

static void report_header(struct archive_report *report, const struct record_header *header)
{
    (void)str_copy(report->program, sizeof report->program, header->program);
    (void)str_copy(report->id, sizeof report->id, header->id);
    (void)str_copy(report->store, sizeof report->store, header->store);
    (void)str_copy(report->tenant, sizeof report->tenant, header->tenant);
    report->format = header->format;
    report->at_ms = header->at_ms;
    report->is_snapshot = header->is_snapshot;
}

/* ---- Export ---------------------------------------------------------------------------------- */

static int write_store(const struct archive_options *o, const struct record_header *header,
                       FILE *file, struct archive_report *ret, struct redrive_err *err)
{
    struct phase phase = {.options = o, .name = "export"};
    const struct source source = {
        .store = o->store, .tenant = o->tenant, .progress = show_phase, .progress_ctx = &phase};
    struct archive_writer writer;
    int rc = source_count(o->store, o->tenant, &phase.total, err);
    if (rc < 0)
        return rc;
    rc = archive_writer_init(&writer, file, header, err);
    if (rc == 0)
        rc = source_give(&source, archive_writer_take, &writer, err);
    if (rc == 0)
        rc = archive_writer_end(&writer, err);
    ret->tally = writer.tally;
    ret->records = writer.records;
    ret->bytes = writer.bytes;
    archive_writer_release(&writer);
    return rc;
}

int archive_export(const struct archive_options *options, FILE *file, struct archive_report *ret,
                   struct redrive_err *err)
{
    struct store *store = options->store;
    char id[ARCHIVE_ID_MAX];
    struct record_header header = {.format = RECORD_FORMAT,
                                   .program = STR(REDRIVE_VERSION),
                                   .id = str_of(archive_new_id(id)),
                                   .store = str_of(store_ops(store)->scheme),
                                   .at_ms = store_time_ms(store, options->now_ms),
                                   .tenant = options->tenant};
    struct store_facts facts;
    *ret = (struct archive_report){0};
    int rc = store_ops(store)->facts(store, &facts, err);
    if (rc < 0)
        return rc;
    header.schema = facts.version_newest;
    rc = source_freeze(store, &header.is_snapshot, err);
    if (rc == 0 && !header.is_snapshot && !options->despite_workers)
        rc = copy_check_idle(store, "store", "--live", options->now_ms, err);
    if (rc == 0)
        rc = write_store(options, &header, file, ret, err);
    source_thaw(store);
    report_header(ret, &header);
    return rc;
}

/* ---- A file that is read --------------------------------------------------------------------- */

/* Reads all that follows the first line; what was read goes into the report. */
static int read_rest(struct archive_reader *reader, struct phase *phase, int64_t skip,
                     record_take_fn take, void *ctx, struct archive_report *ret,
                     struct redrive_err *err)
{
    phase->total = phase->options->file_bytes;
    reader->progress = show_phase;
    reader->progress_ctx = phase;
    int rc = archive_reader_give(reader, skip, take, ctx, err);
    ret->tally = reader->tally;
    ret->records = reader->records;
    ret->bytes = reader->bytes;
    return rc;
}

static int ignore_batch(void *ctx, const struct record_batch *batch, struct redrive_err *err)
{
    (void)ctx;
    (void)batch;
    (void)err;
    return 0;
}

int archive_check(const struct archive_options *options, FILE *file, struct archive_report *ret,
                  struct redrive_err *err)
{
    struct phase phase = {.options = options, .name = "check"};
    struct archive_reader reader;
    *ret = (struct archive_report){0};
    int rc = archive_reader_init(&reader, file, err);
    report_header(ret, &reader.header);
    if (rc == 0)
        rc = read_rest(&reader, &phase, 0, ignore_batch, NULL, ret, err);
    archive_reader_release(&reader);
    return rc;
}

/* ---- Import ---------------------------------------------------------------------------------- */

struct import {
    const struct archive_options *options;
    struct archive_report *report;
    char name[80]; /* of the mark */
    bool is_alone; /* the store had no counters when this run began */
    struct load load;
};

static int refuse_jobs(uint64_t jobs, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "the store has %" PRIu64 " job%s of its own", jobs,
            jobs == 1 ? "" : "s");
    err_hint(err, "name an empty store, or add to this one with --into-existing");
    return REDRIVE_E_STATE;
}

static int has_counters(struct store *store, bool *ret, struct redrive_err *err)
{
    RELEASED_BY(counter_page_release) struct counter_page page = {0};
    int rc = store_ops(store)->counters_list(store, (struct str){0}, &page, err);
    *ret = false;
    for (size_t i = 0; i < page.n; i++)
        *ret = *ret || !is_mark(&page.counters[i]);
    return rc;
}

/* A store that is not empty must come from an earlier import of this file. */
static int look_at_store(struct import *i, struct redrive_err *err)
{
    const struct archive_options *o = i->options;
    uint64_t jobs = 0;
    bool counts = false;
    int rc = o->despite_workers ? 0 : copy_check_idle(o->store, "store", "--force", o->now_ms, err);
    if (rc == 0)
        rc = load_mark(o->store, i->load.name, &i->report->skipped, err);
    if (rc == 0)
        rc = source_count(o->store, (struct str){0}, &jobs, err);
    if (rc == 0)
        rc = has_counters(o->store, &counts, err);
    if (rc == 0 && jobs > 0 && i->report->skipped == 0 && !o->into_existing)
        rc = refuse_jobs(jobs, err);
    i->load.keeps_rows = jobs > 0 || o->into_existing;
    i->is_alone = !counts && !o->into_existing;
    return rc;
}

/* After it was taken: whether everything is in the store. */
static int compare_with_file(struct import *i, FILE *file, struct redrive_err *err)
{
    const struct archive_options *o = i->options;
    struct phase phase = {.options = o, .name = "check"};
    struct findings *f = &i->report->findings;
    RELEASED_BY(archive_reader_release) struct archive_reader reader = {0};
    struct compare compare;
    uint64_t jobs = 0;
    if (fseek(file, 0, SEEK_SET) != 0)
        return err_set(err, REDRIVE_E_IO, "cannot read the file again: %s", strerror(errno));
    int rc = compare_init(&compare, o->store, f, err);
    compare.keeps_own = o->into_existing;
    compare.ignores_counters = !i->is_alone;
    if (rc == 0)
        rc = archive_reader_init(&reader, file, err);
    if (rc == 0)
        rc = read_rest(&reader, &phase, 0, compare_take, &compare, i->report, err);
    if (rc == 0)
        rc = source_count(o->store, (struct str){0}, &jobs, err);
    const uint64_t expected = (uint64_t)f->from.sums[RECORD_JOB].rows;
    if (rc == 0 && !o->into_existing && findings_are_same(f) && jobs != expected)
        findings_differ(f, &f->others, "%" PRIu64 " jobs in the store, %" PRIu64 " in the export",
                        jobs, expected);
    i->report->is_compared = rc == 0;
    compare_release(&compare);
    return rc;
}

static int take_file(struct import *i, FILE *file, struct redrive_err *err)
{
    struct phase phase = {.options = i->options, .name = "import"};
    struct archive_reader reader;
    int rc = archive_reader_init(&reader, file, err);
    report_header(i->report, &reader.header);
    (void)snprintf(i->name, sizeof i->name, "export %s", i->report->id);
    i->load.name = str_of(i->name);
    if (rc == 0)
        rc = look_at_store(i, err);
    if (rc == 0)
        rc = read_rest(&reader, &phase, i->report->skipped, load_take, &i->load, i->report, err);
    i->report->copied = i->load.copied;
    archive_reader_release(&reader);
    return rc;
}

int archive_import(const struct archive_options *options, FILE *file, struct archive_report *ret,
                   struct redrive_err *err)
{
    struct import i = {
        .options = options,
        .report = ret,
        .load = {.store = options->store,
                 .now_ms = options->now_ms,
                 .has_own_jobs = options->into_existing,
                 .adds_counters = true,
                 .counts = true},
    };
    *ret = (struct archive_report){0};
    int rc = take_file(&i, file, err);
    if (rc < 0 && ret->copied > 0)
        err_hint(err,
                 "%" PRIu64 " job%s taken by this run stay; the same command with a whole copy of "
                 "the export goes on with the rest",
                 ret->copied, ret->copied == 1 ? "" : "s");
    /* After an earlier run has taken everything, workers may have changed it. */
    if (rc == 0 && options->file_bytes > 0 && ret->records > ret->skipped)
        rc = compare_with_file(&i, file, err);
    return rc;
}
