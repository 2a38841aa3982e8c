/* export_jobs.h - `jobs export` and `dlq export`: options and run. */
#ifndef CLI_JOBS_EXPORT_JOBS_H
#define CLI_JOBS_EXPORT_JOBS_H

#include "cli/frame/cli.h"
#include "cli/jobs/export.h"
#include "cli/jobs/select.h"

struct export_options {
    struct job_select select;
    const char *output;
    int format; /* enum export_format, or -1 */
    bool force;
    int64_t limit;
};

#define EXPORT_ROWS                                                                            \
    {.name = "output",                                                                         \
     .letter = 'o',                                                                            \
     INTO_STRING(struct export_options, output),                                               \
     .placeholder = "FILE",                                                                    \
     .help = "write to FILE, which is whole or not there; - for standard output"},             \
        {.name = "format",                                                                     \
         .letter = 'f',                                                                        \
         INTO_CHOICE(struct export_options, format),                                           \
         .choices = EXPORT_FORMATS,                                                            \
         .placeholder = "FORMAT",                                                              \
         .help = "jsonl, or csv for a file that ends in .csv, unless given"},                  \
        {.name = "force",                                                                      \
         INTO_FLAG(struct export_options, force),                                              \
         .help = "replace FILE if it is there"},                                               \
    {                                                                                          \
        .name = "limit", .letter = 'n', INTO_INT(struct export_options, limit), .min = 1,      \
        .max = INT64_MAX, .placeholder = "N", .help = "write at most N jobs; all unless given" \
    }

#define EXPORT_DESCRIPTION                                                                        \
    "Writes every job that matches, oldest first: a line of JSON for each, or CSV with a row of " \
    "names. Jobs are read while the queue is at work; what changes meanwhile is written as it "   \
    "was "                                                                                        \
    "found. In CSV, cells that a spreadsheet takes for a formula are left as they are: import "   \
    "the columns as text."

/* Runs a command whose options are a struct export_options. `states` is a bit mask of those that
 * the command is about; 0: whatever --state says. */
int export_run(struct cli *cli, uint32_t states, struct redrive_err *err);

#endif
