/* change.c - cancel, retry and remove for jobs by id. */
#include "cli/jobs/change.h"

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/jobs/find.h"
#include "cli/output/listing.h"
#include "cli/output/text.h"
#include "core/state.h"
#include "engine/verbs/change.h"

#define OUTPUT_MAX (16u * 1024 * 1024)

static const char *const VERBS[] = {
    [JOB_CANCEL] = "cancel", [JOB_RETRY] = "retry", [JOB_REMOVE] = "remove"};

/* ---- Refusals -------------------------------------------------------------------------------- */

static const char *hint_for(enum job_verb verb, enum redrive_state state)
{
    if (verb == JOB_CANCEL)
        return "it has ended already";
    if (verb == JOB_REMOVE)
        return "only jobs that have ended can be removed: cancel it first";
    switch (state) {
    case REDRIVE_STATE_QUEUED: return "it runs as soon as a worker takes it";
    case REDRIVE_STATE_RUNNING: return "wait until it has ended, or cancel it";
    case REDRIVE_STATE_PARKED: return "it goes on when its breaker closes or its limit allows it";
    default: return "submit it as a new job to run it once more";
    }
}

static int wrong_state(enum job_verb verb, const struct job *job, enum redrive_state state,
                       struct redrive_err *err)
{
    const struct str id = job->spec.id;
    static const char *const TO[] = {
        [JOB_CANCEL] = "cancelled", [JOB_RETRY] = "queued", [JOB_REMOVE] = "gone"};
    err_set(err, REDRIVE_E_STATE, "cannot %s job %.*s: it cannot go from %s to %s", VERBS[verb],
            (int)id.len, id.ptr, redrive_state_name(state), TO[verb]);
    err_hint(err, "%s", hint_for(verb, state));
    return REDRIVE_E_STATE;
}

static int refused(enum job_verb verb, const struct job *job, const struct move_result *result,
                   struct redrive_err *err)
{
    const struct str id = job->spec.id, key = job->spec.unique_key;
    if (result->code == REDRIVE_E_STATE)
        return wrong_state(verb, job, result->state, err);
    if (result->code == REDRIVE_E_EXISTS) {
        err_set(err, REDRIVE_E_EXISTS, "cannot retry job %.*s: a live job has its unique key",
                (int)id.len, id.ptr);
        err_detail(err, "key %.*s", (int)key.len, key.ptr);
        err_hint(err, "wait until that job has ended, or cancel it");
        return REDRIVE_E_EXISTS;
    }
    if (result->code == REDRIVE_E_DEADLINE) {
        err_set(err, REDRIVE_E_STATE, "cannot retry job %.*s: its deadline has passed", (int)id.len,
                id.ptr);
        err_hint(err, "submit its payload as a new job");
        return REDRIVE_E_STATE;
    }
    return err_set(err, result->code, "cannot %s job %.*s: %s", VERBS[verb], (int)id.len, id.ptr,
                   redrive_err_text(result->code));
}

/* ---- One job --------------------------------------------------------------------------------- */

static bool kind_for(enum job_verb verb, enum redrive_state state, enum move_kind *ret)
{
    switch (verb) {
    case JOB_CANCEL: *ret = MOVE_CANCEL; return !state_has_ended(state);
    case JOB_REMOVE: *ret = MOVE_REMOVE; return state_has_ended(state);
    case JOB_RETRY:
    default: break;
    }
    if (state == REDRIVE_STATE_SCHEDULED || state == REDRIVE_STATE_RETRYING)
        *ret = MOVE_RUN_NOW;
    else if (state == REDRIVE_STATE_DEAD_LETTER || state == REDRIVE_STATE_FAILED)
        *ret = MOVE_REDRIVE;
    else
        return false;
    return true;
}

int job_change_one(struct engine *engine, enum job_verb verb, const struct job *job,
                   enum redrive_state *ret_state, struct redrive_err *err)
{
    struct change_item item = {.seq = job->status.seq, .tenant = job->spec.tenant};
    enum move_kind kind;
    struct change_op op;
    if (!kind_for(verb, job->status.state, &kind))
        return wrong_state(verb, job, job->status.state, err);
    change_op_init(&op, kind, &item, 1);
    int rc = engine_apply_one(engine, &op.op, err);
    if (rc == 0 && item.ret.code < 0)
        rc = refused(verb, job, &item.ret, err);
    if (rc == 0)
        *ret_state = item.ret.state;
    return rc;
}

/* ---- Those of the arguments ------------------------------------------------------------------ */

struct changer {
    struct cli *cli;
    struct session session;
    enum job_verb verb;
    const char *tenant;
    bool dead_only;
    struct buf out;
    struct json_writer w;
};

static void tell(struct changer *c, const struct job *job, enum redrive_state state)
{
    const char *what = c->verb == JOB_REMOVE ? "removed" : redrive_state_name(state);
    if (!c->cli->globals->json) {
        text_add_clean(&c->out, job->spec.id);
        buf_printf(&c->out, "  %s\n", what);
        return;
    }
    json_begin_object(&c->w);
    json_field_string(&c->w, "id", job->spec.id);
    json_field_string(&c->w, "tenant", job->spec.tenant);
    json_field_cstr(&c->w, "state", what);
    json_end_object(&c->w);
}

static int change_id(struct changer *c, const char *id, struct redrive_err *err)
{
    struct job_page page = {0};
    enum redrive_state state;
    int rc = c->dead_only ? job_find_dead(c->session.store, c->tenant, id, &page, err)
                          : job_find(c->session.store, c->tenant, id, &page, err);
    if (rc == 0)
        rc = job_change_one(c->session.engine, c->verb, &page.jobs[0], &state, err);
    if (rc == 0)
        tell(c, &page.jobs[0], state);
    job_page_release(&page);
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

int job_change_args(struct cli *cli, enum job_verb verb, const char *tenant, bool dead_only,
                    struct redrive_err *err)
{
    struct changer c = {.cli = cli, .verb = verb, .tenant = tenant, .dead_only = dead_only};
    int rc = session_open_existing(cli, &c.session, err);
    if (rc < 0) {
        session_close(&c.session);
        return rc;
    }
    buf_init(&c.out, OUTPUT_MAX);
    if (cli->globals->json)
        listing_begin(&c.w, &c.out);
    rc = change_ids(&c, err);
    if (cli->globals->json)
        listing_end(&c.w, NULL);
    int printed = cli_print(cli, &c.out, rc < 0 ? NULL : err);
    session_close(&c.session);
    return rc < 0 ? rc : printed;
}
