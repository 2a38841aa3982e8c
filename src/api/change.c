/* change.c - what people do to one job: cancel it, run it now, redrive, edit or remove it. */
#include "api/api.h"
#include "base/err.h"
#include "engine/engine.h"
#include "fields/json.h"

#define DEAD (1u << REDRIVE_STATE_DEAD_LETTER)

/* The variants of the rows below. */
enum verb {
    CANCEL,
    RETRY,
    RETRY_LETTER,
    EDIT_LETTER,
    REMOVE_LETTER
};

static const struct {
    const char *name;
    enum move_kind kind; /* the first that is tried */
    bool of_letters;     /* of dead letters, and no other job */
} VERBS[] = {
    [CANCEL] = {"cancel", MOVE_CANCEL, false},       [RETRY] = {"retry", MOVE_RUN_NOW, false},
    [RETRY_LETTER] = {"retry", MOVE_REDRIVE, true},  [EDIT_LETTER] = {"edit", MOVE_EDIT, true},
    [REMOVE_LETTER] = {"remove", MOVE_REMOVE, true},
};

/* ---- Begin ----------------------------------------------------------------------------------- */

static void init_move(struct api_change *change, enum move_kind kind)
{
    struct job_change *job = &change->job;
    change_op_init(&job->op, kind, &job->item, 1);
    job->op.from = VERBS[change->operation->variant].of_letters ? DEAD : 0;
}

/* A change that is about all tenants: the job has to be looked for, so that its tenant is known. */
static int find_tenant(const struct api_context *c, struct str *ret, struct redrive_err *err)
{
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = api_find_job(c, 0, &page, err);
    if (rc < 0)
        return rc;
    *ret = arena_str(c->arena, page.jobs[0].spec.tenant);
    return ret->ptr ? 0 : err_nomem(err);
}

static int begin_change(const struct api_context *c, struct api_change *change,
                        struct redrive_err *err)
{
    struct change_item *item = &change->job.item;
    *item = (struct change_item){.tenant = c->tenant, .id = c->name, .arena = c->arena};
    init_move(change, VERBS[change->operation->variant].kind);
    return c->tenant.ptr ? 0 : find_tenant(c, &item->tenant, err);
}

static const struct field EDIT_FIELDS[] = {{"payload", &FIELD_JSON, 0}, {0}};

static int read_payload(const struct api_context *c, struct str *ret, struct redrive_err *err)
{
    struct field_reader b;
    uint64_t given;
    fields_json_open_deeper(&b, api_body(c), 1, c->arena, 0, err);
    int rc = fields_json_object(&b, EDIT_FIELDS, ret, &given);
    if (rc == 0)
        rc = fields_json_end(&b);
    if (rc == 0 && given == 0)
        rc = field_missing(&b, "payload", "JSON");
    fields_json_close(&b);
    return api_note_fault(c, rc, b.place);
}

static int begin_edit(const struct api_context *c, struct api_change *change,
                      struct redrive_err *err)
{
    struct str payload = {0};
    int rc = read_payload(c, &payload, err);
    if (rc == 0)
        rc = begin_change(c, change, err);
    change->job.item.payload = payload;
    return rc;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Of verbs that are not about dead letters. */
static const char *hint_for(enum verb verb, enum redrive_state state)
{
    if (verb == CANCEL)
        return "it has ended already";
    switch (state) {
    case REDRIVE_STATE_RUNNING: return "wait until it has ended, or cancel it";
    case REDRIVE_STATE_WAITING: return "it waits for other jobs, and goes on when they have ended";
    case REDRIVE_STATE_PARKED: return "it goes on when its breaker closes or its limit allows it";
    default: return "submit it as a new job to run it once more";
    }
}

static int refuse_change(const struct api_change *change, const char **ret_field,
                         struct redrive_err *err)
{
    const struct change_item *item = &change->job.item;
    const enum verb verb = (enum verb)change->operation->variant;
    const char *name = VERBS[verb].name;
    const int len = (int)(item->id.len < 100 ? item->id.len : 100), code = item->ret.code;
    switch (code) {
    case REDRIVE_E_NOT_FOUND: return api_not_there(item->id, VERBS[verb].of_letters, err);
    case REDRIVE_E_STATE:
        if (VERBS[verb].of_letters)
            return api_no_letter(item->id, item->ret.state, err);
        (void)err_set(err, code, "cannot %s job '%.*s': it is %s", name, len, item->id.ptr,
                      redrive_state_name(item->ret.state));
        err_hint(err, "%s", hint_for(verb, item->ret.state));
        return code;
    case REDRIVE_E_EXISTS:
        (void)err_set(err, code, "cannot %s job '%.*s': a live job has its unique key", name, len,
                      item->id.ptr);
        err_detail(err, "key %.*s", (int)item->unique_key.len, item->unique_key.ptr);
        err_hint(err, "wait until that job has ended, or cancel it");
        return code;
    case REDRIVE_E_DEADLINE:
        (void)err_set(err, REDRIVE_E_STATE, "cannot %s job '%.*s': its deadline has passed", name,
                      len, item->id.ptr);
        err_hint(err, "submit its payload as a new job");
        return REDRIVE_E_STATE;
    default: break;
    }
    if (verb != EDIT_LETTER)
        return err_set(err, code, "cannot %s job '%.*s': %s", name, len, item->id.ptr,
                       redrive_err_text(code));
    (void)err_set(err, code, "payload: %s", redrive_err_text(code));
    err_detail(err, "expected JSON of at most %u bytes", ENGINE_PAYLOAD_MAX_BYTES);
    *ret_field = "payload";
    return code;
}

/* ---- End ------------------------------------------------------------------------------------- */

static void write_state(struct json_writer *w, const struct change_item *item,
                        enum redrive_state state)
{
    json_begin_object(w);
    json_field_string(w, "id", item->id);
    json_field_string(w, "tenant", item->tenant);
    json_field_cstr(w, "state", redrive_state_name(state));
    json_end_object(w);
}

static int end_change(struct api_change *change, struct json_writer *w, const char **ret_field,
                      struct redrive_err *err)
{
    const struct job_change *job = &change->job;
    *ret_field = NULL;
    if (job->op.op.code < 0)
        return api_refuse_op(&job->op.op, NULL, ret_field, err);
    if (job->item.ret.code < 0)
        return refuse_change(change, ret_field, err);
    if (change->operation->variant == REMOVE_LETTER)
        change->status = 204;
    else
        write_state(w, &job->item, job->item.ret.state);
    return API_ANSWERED;
}

/* A job that waits for its time runs now; one that is dead or has failed begins anew. Each of the
 * two moves is made only from the states that it is for, so that nothing can go wrong in between.
 * A queued job is as ready as it can be: asking twice is no mistake. */
static int end_retry(struct api_change *change, struct json_writer *w, const char **ret_field,
                     struct redrive_err *err)
{
    const struct job_change *job = &change->job;
    const bool is_refused = job->op.op.code == 0 && job->op.kind == MOVE_RUN_NOW &&
                            job->item.ret.code == REDRIVE_E_STATE;
    const enum redrive_state state = job->item.ret.state;
    if (is_refused && (state == REDRIVE_STATE_DEAD_LETTER || state == REDRIVE_STATE_FAILED)) {
        init_move(change, MOVE_REDRIVE);
        return API_GOES_ON;
    }
    if (!is_refused || state != REDRIVE_STATE_QUEUED)
        return end_change(change, w, ret_field, err);
    write_state(w, &job->item, state);
    return API_ANSWERED;
}

#define LETTER "/retry/dead-letters/by-id/{id}"

const struct operation API_CANCEL = {.method = API_DELETE,
                                     .path = "/jobs/{id}",
                                     .summary = "Cancel a job that has not ended",
                                     .scope = CONFIG_SCOPE_ADMIN,
                                     .begin = begin_change,
                                     .end = end_change,
                                     .variant = CANCEL};
const struct operation API_RETRY = {
    .method = API_POST,
    .path = "/jobs/{id}/retry",
    .summary = "Run a waiting job now, or redrive one that is dead or has failed",
    .scope = CONFIG_SCOPE_ADMIN,
    .begin = begin_change,
    .end = end_retry,
    .variant = RETRY};
const struct operation API_RETRY_LETTER = {.method = API_POST,
                                           .path = LETTER "/retry",
                                           .summary = "Redrive a dead letter with fresh attempts",
                                           .scope = CONFIG_SCOPE_ADMIN,
                                           .begin = begin_change,
                                           .end = end_change,
                                           .variant = RETRY_LETTER};
const struct operation API_EDIT_LETTER = {.method = API_PATCH,
                                          .path = LETTER,
                                          .summary = "Give a dead letter another payload",
                                          .scope = CONFIG_SCOPE_ADMIN,
                                          .begin = begin_edit,
                                          .end = end_change,
                                          .body = {EDIT_FIELDS, 0},
                                          .variant = EDIT_LETTER};
const struct operation API_REMOVE_LETTER = {.method = API_DELETE,
                                            .path = LETTER,
                                            .summary =
                                                "Remove a dead letter and its history for good",
                                            .scope = CONFIG_SCOPE_ADMIN,
                                            .begin = begin_change,
                                            .end = end_change,
                                            .variant = REMOVE_LETTER};
