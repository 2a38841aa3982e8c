/* export.h - jobs as a stream, JSON lines or CSV; files that are whole or not there; and the
 * command `export` of `jobs` and `dlq`.
 *
 * Jobs are read page by page and written as they come, so that memory does not grow with their
 * number. A line of JSON is the job as job_json.h has it, with the white space of payload and
 * result taken out. A row of CSV has the columns
 *
 *     id, task, queue, state, reason, attempts, max_attempts, class, error_type, message,
 *     created_at, finished_at, payload, result
 *
 * after a row with their names; payload and result are copied byte for byte, and cells that a
 * spreadsheet takes for a formula are left as they are (base/csv/csv.h).
 */
#ifndef CLI_JOBS_EXPORT_H
#define CLI_JOBS_EXPORT_H

#include <stdio.h>

#include "cli/frame/cli.h"
#include "cli/jobs/select.h"
#include "cli/output/progress.h"
#include "store/store.h"

enum export_format {
    EXPORT_JSONL,
    EXPORT_CSV,
};

/* The names of the formats, in their order; ends with NULL. */
extern const char *const EXPORT_FORMATS[];

/* Writes every job that matches, in the filter's order and from its keyset on, and gives how many
 * they were. filter->limit is the most that are written; 0: all. `progress` may be NULL. After a
 * failure `out` ends anywhere. Flushes `out`, so that a full disk is noticed. */
int export_jobs(struct store *store, const struct job_filter *filter, enum export_format format,
                FILE *out, struct progress *progress, uint64_t *ret_n, struct redrive_err *err);

/* The format that a file's name asks for: CSV if it ends in .csv, else JSON lines. NULL: no file.
 */
enum export_format export_format_of(const char *path);

/* ---- A file that is whole or not there ---------------------------------------------------------
 *
 * Written in the same folder under another name and renamed at the end. If it fails, or a signal
 * ends it, the file is removed.
 */
struct export_file {
    const char *path; /* borrowed */
    const char *what; /* borrowed: what errors call it, "export" */
    bool force;       /* replace a file that is there */
    char *temporary;
    FILE *file;
};

/* REDRIVE_E_EXISTS when there is a file and `force` is not set, or something that is no file. */
int export_file_open(struct export_file *f, const char *what, const char *path, bool force,
                     struct redrive_err *err);
/* Renames it; removes it if that fails. */
int export_file_finish(struct export_file *f, struct redrive_err *err);
/* Removes it, unless it is finished or was never opened. */
void export_file_abandon(struct export_file *f);

/* ---- The commands ---------------------------------------------------------------------------- */

struct export_options {
    struct job_select select;
    const char *output;
    int format; /* enum export_format, or -1 */
    bool force;
    int64_t limit;
};

#define EXPORT_ROWS                                                                       \
    OPTION("output", 'o', "FILE",                                                         \
           "write to FILE, which appears when it is complete; - for standard output",     \
           INTO_STRING(struct export_options, output)),                                   \
        OPTION("format", 'f', "FORMAT",                                                   \
               "the format, if FILE is not to tell (csv if it ends in .csv, else jsonl)", \
               INTO_CHOICE(struct export_options, format), .words = EXPORT_FORMATS),      \
        OPTION("force", 0, NULL, "replace FILE if it is there",                           \
               INTO_FLAG(struct export_options, force), .needs = "output"),               \
        OPTION("limit", 'n', "N", "write at most N jobs; all unless given",               \
               INTO_INT(struct export_options, limit), .min = 1, .max = INT64_MAX)

#define EXPORT_DESCRIPTION                                                                         \
    "Writes every job that matches, oldest first: a line of JSON for each, or CSV with a row of "  \
    "names: id, task, queue, state, reason, attempts, max_attempts, class, error_type, message, "  \
    "created_at, finished_at, payload and result. Jobs are read while the queue is at work; what " \
    "changes meanwhile is written as it was found. In CSV, cells are quoted as RFC 4180 has it, "  \
    "and those that a spreadsheet takes for a formula are left as they are: import the columns "   \
    "as text."

/* A command whose options are a struct export_options. Its check is job_select_check, and its
 * variant as for job_select_filter. */
int export_run(struct cli *cli, struct session *session, struct redrive_err *err);

#endif
