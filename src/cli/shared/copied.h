/* copied.h - what a copy of a store was: its counts, its differences and its progress. */
#ifndef CLI_SHARED_COPIED_H
#define CLI_SHARED_COPIED_H

#include "base/json/writer.h"
#include "cli/frame/cli.h"
#include "cli/output/progress.h"
#include "engine/copy/compare.h"

static inline uint64_t tally_jobs(const struct tally *tally)
{
    return (uint64_t)tally->sums[RECORD_JOB].rows;
}

/* Members of an object: jobs, attempts, by_state, breakers, … */
void tally_as_json(struct json_writer *w, const struct tally *tally);
/* The same as two lines. */
void tally_as_text(struct buf *out, const struct tally *tally);

/* Members of an object: differing, missing, other_differences, difference. */
void findings_as_json(struct json_writer *w, const struct findings *findings);
/* REDRIVE_E_STATE: the destination is not as the `source`, with the first difference. */
int findings_error(const struct findings *findings, const char *source, struct redrive_err *err);

/* A bar for a copy, which a signal stops. Zeroed but for `cli` at first. */
struct copy_bar {
    struct cli *cli;
    struct progress progress;
};
/* The `progress` of struct copy_options and struct archive_options. */
bool copy_bar_show(void *ctx, const char *phase, uint64_t done, uint64_t total);

#endif
