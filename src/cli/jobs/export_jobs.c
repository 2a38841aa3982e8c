/* export_jobs.c - runs `jobs export` and `dlq export`. */
#include "cli/jobs/export_jobs.h"

#include <inttypes.h>
#include <string.h>

#include "cli/shared/session.h"

static int export_to(struct cli *cli, struct store *store, const struct job_filter *filter,
                     enum export_format format, FILE *out, uint64_t *ret_n, struct redrive_err *err)
{
    struct progress progress;
    progress_init(&progress, &cli->err, "export", 0, NULL);
    /* No bar when the export itself goes to a terminal. */
    bool visible = out != cli->out.file || !cli->out.is_tty;
    int rc = export_jobs(store, filter, format, out, visible ? &progress : NULL, ret_n, err);
    progress_clear(&progress);
    return rc;
}

static int export_to_file(struct cli *cli, struct store *store, const struct job_filter *filter,
                          const struct export_options *options, enum export_format format,
                          struct redrive_err *err)
{
    struct export_file file;
    uint64_t n = 0;
    int rc = export_file_open(&file, "export", options->output, options->force, err);
    if (rc == 0)
        rc = export_to(cli, store, filter, format, file.file, &n, err);
    if (rc == 0)
        rc = export_file_finish(&file, err);
    else
        export_file_abandon(&file);
    if (rc == 0)
        (void)fprintf(cli->err.file, "%" PRIu64 " job%s written to %s\n", n, n == 1 ? "" : "s",
                      options->output);
    return rc;
}

int export_run(struct cli *cli, uint32_t states, struct redrive_err *err)
{
    const struct export_options *options = invocation_options(&cli->invocation);
    bool to_file = options->output && strcmp(options->output, "-") != 0;
    enum export_format format = options->format >= 0 ? (enum export_format)options->format
                                                     : export_format_of(options->output);
    struct session session;
    struct job_filter filter;
    int rc = job_select_read(&options->select, &filter, err);
    if (rc < 0)
        return rc;
    filter.states = states != 0 ? states : filter.states;
    filter.limit = (size_t)options->limit;
    rc = session_open_existing(cli, &session, err);
    if (rc == 0) {
        job_select_date(&options->select, engine_now_ms(session.engine), &filter);
        if (to_file)
            rc = export_to_file(cli, session.store, &filter, options, format, err);
        else
            rc = export_to(cli, session.store, &filter, format, cli->out.file, NULL, err);
    }
    session_close(&session);
    return rc;
}
