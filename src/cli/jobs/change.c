/* change.c - cancel, retry and remove: for jobs by id, and for many, chunk by chunk. */
#include "cli/jobs/change.h"

#include <inttypes.h>
#include <poll.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "cli/output/progress.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "core/state.h"
#include "engine/verbs/change.h"

static const char *const VERBS[] = {
    [JOB_CANCEL] = "cancel", [JOB_RETRY] = "retry", [JOB_REMOVE] = "remove"};

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

/* A job of several tenants: which one is meant? */
static int ambiguous(struct redrive_err *err)
{
    err_hint(err, "say whose it is: --tenant NAME");
    return REDRIVE_E_USAGE;
}

static int check_dead(const char *id, struct str state, struct redrive_err *err)
{
    if (str_is(state, redrive_state_name(REDRIVE_STATE_DEAD_LETTER)))
        return 0;
    err_set(err, REDRIVE_E_STATE, "job %s is no dead letter: it is %.*s", id, (int)state.len,
            state.ptr);
    err_hint(err, "see `redrive jobs show %s`", id);
    return REDRIVE_E_STATE;
}

static int check_id(const char *id, struct redrive_err *err)
{
    return *id ? 0 : err_set(err, REDRIVE_E_USAGE, "the id of the job is empty");
}

int job_ask(const struct session *session, const struct operation *operation, const char *tenant,
            const char *id, struct answer *ret, struct redrive_err *err)
{
    const struct ask ask = {.operation = operation, .tenant = str_of(tenant), .name = str_of(id)};
    int rc = check_id(id, err);
    if (rc < 0)
        return rc;
    rc = answer_ask(session, &ask, ret, err);
    if (rc == REDRIVE_E_NOT_FOUND)
        return not_found(tenant, id, err);
    return rc == REDRIVE_E_USAGE && !session->remote ? ambiguous(err) : rc;
}

int job_ask_all(const struct session *session, const char *tenant, const char *id,
                bool must_be_dead, struct answer *ret, struct redrive_err *err)
{
    const struct operation *operation = must_be_dead ? &API_DEAD_LETTER : &API_JOB;
    int rc = job_ask(session, operation, tenant, id, ret, err);
    if (rc != REDRIVE_E_NOT_FOUND || !must_be_dead)
        return rc;
    /* Is there a job of that id, and what is it? */
    answer_release(ret);
    rc = job_ask(session, &API_JOB, tenant, id, ret, err);
    if (rc < 0)
        return rc;
    const struct object job = ret->object;
    return check_dead(id, object_text(&job, "state"), err);
}

/* What is needed of a job at a server. Its strings live as long as the page. */
static struct job job_of(const struct object *o)
{
    const struct object error = object_object(o, "last_error");
    const int state = vocabulary_find(VOCABULARY_STATE, object_text(o, "state"));
    const int class_ = vocabulary_find(VOCABULARY_CLASS, object_text(&error, "class"));
    return (struct job){
        .spec = {.id = object_text(o, "id"),
                 .tenant = object_text(o, "tenant"),
                 .unique_key = object_text(o, "unique_key"),
                 .payload = object_value(o, "payload", "payload_bytes")},
        .status = {.state = state < 0 ? REDRIVE_STATE_COUNT : (enum redrive_state)state,
                   .result = object_value(o, "result", "result_bytes"),
                   .error = {.class_ =
                                 class_ < 0 ? REDRIVE_CLASS_SUCCESS : (enum redrive_class)class_,
                             .type = object_text(&error, "type"),
                             .message = object_text(&error, "message")}},
    };
}

static int find_at_server(const struct session *session, const char *tenant, const char *id,
                          bool must_be_dead, struct job_page *ret, struct redrive_err *err)
{
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = job_ask_all(session, tenant, id, must_be_dead, &answer, err);
    if (rc < 0)
        return rc;
    const struct str text = arena_str(&ret->arena, buf_str(&answer.text));
    const struct object found = object_of(text, &ret->arena);
    struct job *job = arena_alloc(&ret->arena, sizeof *job);
    if (!job)
        return err_nomem(err);
    *job = job_of(&found);
    if (ret->arena.failed)
        return err_nomem(err);
    if (job->spec.id.len == 0)
        return err_set(err, REDRIVE_E_PARSE, "the answer of the server is about no job");
    ret->jobs = job;
    ret->n = 1;
    return 0;
}

int job_find(const struct session *session, const char *tenant, const char *id, bool must_be_dead,
             struct job_page *ret, struct redrive_err *err)
{
    struct api_context context = {
        .store = session->store, .tenant = str_of(tenant), .name = str_of(id)};
    if (session->remote)
        return find_at_server(session, tenant, id, must_be_dead, ret, err);
    int rc = check_id(id, err);
    if (rc < 0)
        return rc;
    rc = api_find_job(&context, 0, ret, err);
    if (rc == REDRIVE_E_NOT_FOUND)
        return not_found(tenant, id, err);
    if (rc == REDRIVE_E_USAGE)
        return ambiguous(err);
    return rc == 0 && must_be_dead
               ? check_dead(id, str_of(redrive_state_name(ret->jobs[0].status.state)), err)
               : rc;
}

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
    case REDRIVE_STATE_WAITING: return "it waits for other jobs, and goes on when they have ended";
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

static int change_at_server(struct remote *remote, enum job_verb verb, struct str id,
                            enum redrive_state *ret_state, struct redrive_err *err)
{
    const struct str none = {0};
    switch (verb) {
    case JOB_CANCEL:
        return remote_job_change(remote, "DELETE", "/jobs/", id, "", none, ret_state, err);
    case JOB_REMOVE:
        return remote_job_change(remote, "DELETE", "/retry/dead-letters/by-id/", id, "", none,
                                 ret_state, err);
    case JOB_RETRY:
    default: return remote_job_change(remote, "POST", "/jobs/", id, "/retry", none, ret_state, err);
    }
}

int job_change_one(struct session *session, enum job_verb verb, const struct job *job,
                   enum redrive_state *ret_state, struct redrive_err *err)
{
    struct change_item item = {.tenant = job->spec.tenant, .id = job->spec.id};
    enum move_kind kind;
    struct change_op op;
    if (!kind_for(verb, job->status.state, &kind))
        return wrong_state(verb, job, job->status.state, err);
    *ret_state = job->status.state;
    if (session->remote)
        return change_at_server(session->remote, verb, job->spec.id, ret_state, err);
    change_op_init(&op, kind, &item, 1);
    int rc = session_apply(session, &op.op, err);
    if (rc == 0 && item.ret.code < 0)
        rc = refused(verb, job, &item.ret, err);
    if (rc == 0)
        *ret_state = item.ret.state;
    return rc;
}

/* ---- Those of the arguments ------------------------------------------------------------------ */

struct changer {
    struct cli *cli;
    struct session *session;
    enum job_verb verb;
    const char *tenant;
    bool dead_only;
    struct buf out;
    struct json_writer w;
};

static void print_changed(struct changer *c, const struct job *job, enum redrive_state state)
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
    RELEASED_BY(job_page_release) struct job_page page = {0};
    enum redrive_state state;
    int rc = job_find(c->session, c->tenant, id, c->dead_only, &page, err);
    if (rc == 0)
        rc = job_change_one(c->session, c->verb, &page.jobs[0], &state, err);
    if (rc == 0)
        print_changed(c, &page.jobs[0], state);
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
                    const char *tenant, bool dead_only, struct redrive_err *err)
{
    struct changer c = {
        .cli = cli, .session = session, .verb = verb, .tenant = tenant, .dead_only = dead_only};
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
    const enum job_verb verb = (enum job_verb)cli_variant(cli);
    return job_change_args(cli, session, verb, options->select.tenant, verb == JOB_REMOVE, err);
}

/* ---- Many jobs ------------------------------------------------------------------------------- */

/* A signal that comes just before the wait does not end it, so waits are short. */
static void wait_ms(int64_t ms)
{
    (void)poll(NULL, 0, ms < 50 ? (int)ms : 50);
}

static int run_chunks(struct session *session, struct bulk *bulk, struct bulk_run *run,
                      struct progress *progress, struct redrive_err *err)
{
    struct bulk_pace pace;
    int rc = 0;
    bulk_pace_init(&pace, &run->rate, clock_monotonic_ms());
    while (rc == 0 && !bulk->finished && !interrupt_asked()) {
        struct bulk_op op;
        int64_t pause_ms;
        size_t n = bulk_pace_due(&pace, clock_monotonic_ms(), &pause_ms);
        if (n == 0) {
            wait_ms(pause_ms);
            progress_update(progress, bulk->changed + bulk->refused);
            continue;
        }
        bulk_op_init(&op, bulk, n);
        rc = session_apply(session, &op.op, err);
        if (rc < 0)
            break;
        bulk_add(bulk, &op);
        bulk_pace_took(&pace, op.changed, clock_monotonic_ms());
        progress_update(progress, bulk->changed + bulk->refused);
    }
    run->changed = bulk->changed;
    run->refused = bulk->refused;
    run->interrupted = interrupt_asked() && !bulk->finished;
    return rc;
}

int bulk_run(struct cli *cli, struct session *session, struct bulk *bulk, struct bulk_run *run,
             struct redrive_err *err)
{
    struct interrupt interrupt;
    struct progress progress;
    struct bulk_forecast forecast;
    int rc = bulk_count(session->store, bulk, UINT64_MAX, &forecast, err);
    run->changed = forecast.changed;
    run->refused = forecast.refused;
    run->matched = run->changed + run->refused;
    if (rc < 0 || run->dry_run || run->matched == 0)
        return rc;
    progress_init(&progress, &cli->err, run->label, run->matched, NULL);
    interrupt_catch(&interrupt);
    rc = run_chunks(session, bulk, run, &progress, err);
    interrupt_release(&interrupt);
    progress_clear(&progress);
    return rc;
}

int bulk_run_interrupted(const struct bulk_run *run, const char *done, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_CANCELLED, "interrupted: %" PRIu64 " of %s%" PRIu64 " %s", run->changed,
            run->is_at_least ? "at least " : "", run->matched, done);
    err_hint(err, "the same command goes on with the rest");
    return REDRIVE_E_CANCELLED;
}
