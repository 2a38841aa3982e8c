/* change.c - verbs for the jobs that are named by their ids. */
#include "cli/jobs/change.h"

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "core/state.h"

/* ---- Jobs by id ------------------------------------------------------------------------------ */

const struct field JOB_BY_ID_OPTIONS[] = {
    JOB_SELECT_TENANT_ROW(struct job_by_id, select),
    {0},
};

static int not_found(const char *tenant, const char *id, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_NOT_FOUND, "there is no job %s", id);
    if (tenant)
        err_detail(err, "tenant %s", tenant);
    err_hint(err, "`redrive jobs list` shows what is there; ended jobs go when their time is over");
    return REDRIVE_E_NOT_FOUND;
}

static int check_id(const char *id, struct redrive_err *err)
{
    return *id ? 0 : err_set(err, REDRIVE_E_USAGE, "the id of the job is empty");
}

/* What a person can do about a job that is not found, or not what it must be. */
static int explain(const struct session *session, const char *tenant, const char *id, int rc,
                   struct redrive_err *err)
{
    if (rc == REDRIVE_E_NOT_FOUND)
        return not_found(tenant, id, err);
    if (rc == REDRIVE_E_USAGE && !session->remote)
        err_hint(err, "say whose it is: --tenant NAME");
    else if (rc == REDRIVE_E_STATE && !err->hint[0])
        err_hint(err, "see `redrive jobs show %s`", id);
    return rc;
}

int job_ask(const struct session *session, const struct operation *operation, const char *tenant,
            const char *id, struct answer *ret, struct redrive_err *err)
{
    const struct ask ask = {.operation = operation, .tenant = str_of(tenant), .name = str_of(id)};
    int rc = check_id(id, err);
    if (rc < 0)
        return rc;
    rc = answer_ask(session, &ask, ret, err);
    return rc < 0 ? explain(session, tenant, id, rc, err) : 0;
}

int job_change(struct session *session, const struct operation *operation, const char *tenant,
               const char *id, struct str body, struct answer *ret, struct redrive_err *err)
{
    struct api_input input = {.body = body};
    const struct ask ask = {
        .operation = operation, .tenant = str_of(tenant), .name = str_of(id), .input = &input};
    int rc = check_id(id, err);
    if (rc < 0)
        return rc;
    rc = answer_change(session, &ask, ret, err);
    return rc < 0 ? explain(session, tenant, id, rc, err) : 0;
}

/* ---- Those of the arguments ------------------------------------------------------------------ */

struct changer {
    struct cli *cli;
    struct session *session;
    const struct operation *operation;
    const char *tenant;
    struct buf out;
    struct json_writer w;
};

/* A job that was removed has no answer. */
static void print_changed(struct changer *c, const char *id, const struct answer *answer)
{
    const bool is_removed = answer->status == 204;
    if (!c->cli->globals->json) {
        text_add_clean(&c->out, str_of(id));
        buf_puts(&c->out, "  ");
        text_add_clean(&c->out,
                       is_removed ? STR("removed") : object_text(&answer->object, "state"));
        buf_putc(&c->out, '\n');
    } else if (is_removed) {
        json_begin_object(&c->w);
        json_field_cstr(&c->w, "id", id);
        json_field_cstr(&c->w, "state", "removed");
        json_end_object(&c->w);
    } else {
        json_put_raw(&c->w, buf_str(&answer->text));
    }
}

static int change_id(struct changer *c, const char *id, struct redrive_err *err)
{
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = job_change(c->session, c->operation, c->tenant, id, (struct str){0}, &answer, err);
    if (rc == 0)
        print_changed(c, id, &answer);
    return rc;
}

/* The first error is kept for the end, where cli_main reports it; the others are reported here. */
static int change_ids(struct changer *c, struct redrive_err *err)
{
    const struct invocation *inv = &c->cli->invocation;
    int first = 0;
    for (size_t i = 0; i < inv->n_args; i++) {
        struct redrive_err wrong = {0};
        int rc = change_id(c, inv->args[i], first == 0 ? err : &wrong);
        if (rc < 0 && first == 0)
            first = rc;
        else if (rc < 0)
            cli_report(c->cli, &wrong);
    }
    return first;
}

int job_change_args(struct cli *cli, struct session *session, enum job_verb verb,
                    const char *tenant, struct redrive_err *err)
{
    static const struct operation *const OPERATIONS[] = {[JOB_CANCEL] = &API_CANCEL,
                                                         [JOB_RETRY] = &API_RETRY,
                                                         [LETTER_RETRY] = &API_RETRY_LETTER,
                                                         [LETTER_REMOVE] = &API_REMOVE_LETTER};
    struct changer c = {
        .cli = cli, .session = session, .operation = OPERATIONS[verb], .tenant = tenant};
    buf_init(&c.out, CLI_OUTPUT_MAX);
    if (cli->globals->json)
        listing_begin(&c.w, &c.out);
    int rc = change_ids(&c, err);
    if (cli->globals->json)
        listing_end(&c.w, NULL);
    int printed = cli_print(cli, &c.out, rc < 0 ? NULL : err);
    return rc < 0 ? rc : printed;
}

int job_change_run(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct job_by_id *options = invocation_options(&cli->invocation);
    return job_change_args(cli, session, (enum job_verb)cli_variant(cli), options->select.tenant,
                           err);
}
