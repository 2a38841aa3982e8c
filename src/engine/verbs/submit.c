/* submit.c - new jobs. */
#include "engine/verbs/submit.h"

#include <stdio.h>

#include "base/err.h"
#include "core/check.h"
#include "engine/gates/gates.h"
#include "engine/rows.h"
#include "engine/state.h"
#include "engine/tasks.h"
#include "engine/verbs/after.h"
#include "engine/verbs/ending.h"

/* What the defaults fill in now, and a definition that another process has published may change. */
static unsigned open_parts(const struct config_task *task, const struct job_spec *spec)
{
    if (*task->name)
        return 0;
    return SUBMIT_OPEN_TASK | (spec->queue.len == 0 ? SUBMIT_OPEN_QUEUE : 0) |
           (spec->breaker_key.len == 0 ? SUBMIT_OPEN_BREAKER : 0) |
           (spec->limit_key.len == 0 ? SUBMIT_OPEN_LIMIT : 0);
}

/* Many jobs of one submit bring the same policy, which need not be read for each if the job before,
 * which may have been refused, had it too. */
static int read_policy_once(const struct engine *e, const struct submit_op *op, size_t i,
                            const struct config_task *task, struct redrive_err *err)
{
    struct job_spec *spec = &op->specs[i];
    const struct job_spec *before = i > 0 ? spec - 1 : NULL;
    if (!before || before->max_attempts == 0 || !str_eq(before->policy, spec->policy) ||
        engine_task_by(e, op->config, before->task) != task)
        return submit_read_policy(task, spec, err);
    spec->max_attempts = before->max_attempts;
    return 0;
}

static int complete(const struct engine *e, struct submit_op *op, size_t i,
                    const struct config_task *task, struct redrive_err *err)
{
    struct job_spec *spec = &op->specs[i];
    struct submit_answer *a = &op->answers[i];
    int rc = submit_check_form(op->config, e->options.payload_max_bytes, spec, err);
    if (rc < 0)
        a->member = rc == REDRIVE_E_UNKNOWN ? "task" : "payload";
    if (rc == 0 && (rc = read_policy_once(e, op, i, task, err)) < 0)
        a->member = "retry";
    if (rc < 0)
        return rc;
    if (spec->tenant.len == 0)
        spec->tenant = STR(ENGINE_TENANT_DEFAULT);
    if (spec->queue.len == 0)
        spec->queue = str_of(task->queue);
    if (spec->breaker_key.len == 0)
        rc = key_of_breaker(task, spec, &op->arena, &spec->breaker_key, err);
    if (rc == 0 && spec->limit_key.len == 0)
        rc = key_of_limit(task, spec, &op->arena, &spec->limit_key, err);
    return rc;
}

/* A job with a policy of its own takes no part: its client has decided. So does not one that has
 * failed elsewhere. */
static const struct experiment *experiment_of(const struct config_task *task,
                                              const struct job_spec *spec)
{
    const bool takes_part = !trace_has_policy(spec->policy) && !spec->failed;
    return task->experiment && takes_part ? task->experiment : NULL;
}

static int check_all(const struct engine *e, struct submit_op *op, size_t i,
                     struct redrive_err *err)
{
    struct job_spec *spec = &op->specs[i];
    struct submit_answer *a = &op->answers[i];
    spec->max_attempts = 0;
    int rc = submit_check_names(spec, err);
    if (rc < 0) {
        a->member = "task";
        return rc;
    }
    const struct config_task *task = engine_task_by(e, op->config, spec->task);
    a->open = open_parts(task, spec);
    a->experiment = experiment_of(task, spec);
    rc = complete(e, op, i, task, err);
    if (rc < 0)
        return rc;
    rc = submit_check_there(task, spec->payload, err);
    a->lacks_payload = rc < 0;
    a->member = rc < 0 ? "payload" : NULL;
    return rc;
}

/* ---- In the transaction ---------------------------------------------------------------------- */

static bool is_rejected(const struct engine *e, const struct job_spec *spec)
{
    const struct config_task *task = task_in_force(e, spec->task);
    if (task->breaker.config.on_open != REDRIVE_ON_OPEN_REJECT || spec->breaker_key.len == 0 ||
        spec->failed)
        return false;
    const struct gate *gate = gate_find(&e->gates.breakers, spec->tenant, spec->breaker_key);
    if (!gate)
        return false;
    return gate->breaker.state == REDRIVE_BREAKER_FORCED_OPEN ||
           (gate->breaker.state == REDRIVE_BREAKER_OPEN && e->now_ms < gate->breaker.retry_at_ms);
}

/* Puts in what was published about a task that the configuration does not have. */
static int fill_in(const struct engine *e, struct submit_op *op, size_t i, struct redrive_err *err)
{
    struct job_spec *spec = &op->specs[i];
    const unsigned open = op->answers[i].open;
    const struct config_task *task = open ? task_in_force(e, spec->task) : NULL;
    int rc = 0;
    if (!task || op->answers[i].invalid)
        return 0;
    if (task == engine_task(e, spec->task) && !(open & SUBMIT_FILLED_IN))
        return 0;
    op->answers[i].open |= SUBMIT_FILLED_IN;
    op->answers[i].experiment = experiment_of(task, spec);
    if (open & SUBMIT_OPEN_QUEUE)
        spec->queue = str_of(task->queue);
    if (open & SUBMIT_OPEN_BREAKER)
        spec->breaker_key = (struct str){0};
    if (open & SUBMIT_OPEN_LIMIT)
        spec->limit_key = (struct str){0};
    if (open & SUBMIT_OPEN_BREAKER)
        rc = key_of_breaker(task, spec, &op->result, &spec->breaker_key, err);
    if (rc == 0 && open & SUBMIT_OPEN_LIMIT)
        rc = key_of_limit(task, spec, &op->result, &spec->limit_key, err);
    if (rc < 0)
        return rc;
    /* A policy of its own may be wrong on top of the published one. */
    struct redrive_err why;
    if (submit_read_policy(task, spec, &why) < 0) {
        op->answers[i].member = "retry";
        (void)submit_refuse(op, i, &why);
    }
    return 0;
}

/* Refusals that depend on the moment; those of submit_op_init stand. */
static size_t refuse_some(const struct engine *e, struct submit_op *op)
{
    size_t refused = 0;
    for (size_t i = 0; i < op->n; i++) {
        struct submit_answer *a = &op->answers[i];
        if (!a->invalid)
            a->member = NULL;
        if (!a->invalid || (op->records && a->lacks_payload))
            a->code = 0;
        if (a->code == 0 && is_rejected(e, &op->specs[i])) {
            const struct str key = op->specs[i].breaker_key;
            struct redrive_err why;
            (void)err_set(&why, REDRIVE_E_BREAKER_OPEN, "circuit breaker '%.*s' is open",
                          (int)key.len, key.ptr);
            (void)submit_refuse_now(op, i, &why);
        }
        refused += a->code < 0;
    }
    return refused;
}

/* Whether the id of a record is another job's, as far as one can tell: a job that is gone holds
 * nothing but its key. */
static int is_anothers_id(struct engine *e, const struct job_spec *spec,
                          const struct submit_result *result, struct redrive_err *err)
{
    if (result->code != REDRIVE_E_EXISTS || !str_eq(result->id, spec->id) ||
        spec->unique_key.len == 0 || str_eq(spec->id, spec->unique_key))
        return 0;
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = engine_find(e, spec->tenant, spec->id, 0, &page, err);
    if (rc > 0)
        rc = !str_eq(page.jobs[0].spec.unique_key, spec->unique_key);
    return rc;
}

/* Gives the job the policy of its arm, now that it has its id. */
static void choose_arm(struct engine *e, const struct experiment *experiment, struct job_spec *spec)
{
    const struct arm *arm = experiment_choose(experiment, spec->id);
    spec->policy = arm_keep(arm, spec->policy, &e->arena);
    spec->max_attempts = arm->max_attempts;
}

static int put_record(struct engine *e, struct submit_op *op, size_t i, struct job_spec *spec,
                      struct submit_result *ret, struct redrive_err *err)
{
    const struct experiment *experiment = op->answers[i].experiment;
    int rc = e->ops->submit(e->store, spec, 1, ret, &op->result, err);
    if (rc < 0)
        return rc;
    rc = is_anothers_id(e, spec, ret, err);
    if (rc <= 0)
        return rc;
    spec->id = spec->unique_key;
    if (experiment)
        choose_arm(e, experiment, spec);
    *ret = (struct submit_result){0};
    return e->ops->submit(e->store, spec, 1, ret, &op->result, err);
}

/* A new job has been put into the store. */
static int arrive(struct engine *e, const struct job_spec *spec, struct submit_answer *a,
                  struct redrive_err *err)
{
    struct job job = {.spec = *spec, .status = {.seq = a->seq, .state = a->state}};
    const struct engine_event event = event_of(e, ENGINE_EVENT_SUBMITTED, &job);
    event_add(e, &event);
    if (spec->failed)
        return end_failed_elsewhere(e, &job, &a->state, err);
    if (a->lacks_payload)
        return end_waiting(e, &job, ENDING_INVALID, &a->state, err);
    engine_waits_until(e, spec->deadline_ms);
    if (a->state == REDRIVE_STATE_SCHEDULED)
        engine_waits_until(e, spec->process_after_ms);
    else if (a->state == REDRIVE_STATE_QUEUED)
        engine_made_some_ready(e);
    return 0;
}

static int note_result(struct engine *e, const struct job_spec *spec, struct submit_op *op,
                       size_t i, const struct submit_result *result, struct redrive_err *err)
{
    struct submit_answer *a = &op->answers[i];
    struct redrive_err why;
    e->touched = true;
    a->existed = result->code == REDRIVE_E_EXISTS;
    a->code = 0;
    if (result->code < 0 && !a->existed) {
        (void)err_set(&why, result->code, "the store refused the job");
        (void)submit_refuse_now(op, i, &why);
    }
    a->seq = result->seq;
    a->id = result->id;
    a->state = result->state;
    return a->code < 0 || a->existed ? 0 : arrive(e, spec, a, err);
}

/* ---- Repetitions -----------------------------------------------------------------------------
 *
 * Whether a request that comes again under the key of its client is the same one. The jobs of such
 * a request have the key for an id, or KEY/0, KEY/1 … in an array. What is compared is what a job
 * keeps as it was sent: task, payload, priority, user, project, service, unique key and policy. Its
 * queue may have come from a configuration that has changed since, and times may have been spans
 * from then, so that these are not compared.
 */

/* Whether the request is an array: the form of its ids says so. */
static bool is_array_request(const struct submit_op *op)
{
    return op->key.len > 0 && !(op->n == 1 && str_eq(op->specs[0].id, op->key));
}

/* Jobs of the request may have ids of their own, which the key has nothing to do with. */
static bool is_of_key(struct str id, struct str key)
{
    return str_starts_with(id, key) && (id.len == key.len || id.ptr[key.len] == '/');
}

static struct str as_json(struct str payload)
{
    return payload.len > 0 ? payload : STR("null");
}

/* What the client has said: the policy of an arm is none of it. */
static struct str own_members(struct str policy)
{
    return arm_kept(policy).len > 0 ? STR("}") : trace_policy_members(policy);
}

/* The name of the first part in which two jobs differ; NULL: they are the same. */
static const char *difference(const struct job_spec *a, const struct job_spec *b)
{
    const struct {
        const char *name;
        struct str a, b;
    } parts[] = {
        {"task", a->task, b->task},
        {"payload", as_json(a->payload), as_json(b->payload)},
        {"user", a->user, b->user},
        {"project", a->project, b->project},
        {"service", a->service, b->service},
        {"unique key", a->unique_key, b->unique_key},
        /* A client that sends a request again may do so in another span. */
        {"retry policy", own_members(a->policy), own_members(b->policy)},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!str_eq(parts[i].a, parts[i].b))
            return parts[i].name;
    return a->priority == b->priority ? NULL : "priority";
}

static void refuse_repetition(struct submit_op *op, size_t i, const char *detail)
{
    const struct str key = op->key;
    struct redrive_err why;
    (void)err_set(&why, REDRIVE_E_EXISTS, "the key '%.*s' was used for another request",
                  (int)(key.len < 100 ? key.len : 100), key.ptr);
    err_detail(&why, "%s", detail);
    err_hint(&why, "use a new key for a new request");
    (void)submit_refuse_now(op, i, &why);
}

static void refuse_difference(struct submit_op *op, size_t i, const char *part)
{
    const struct str id = op->specs[i].id;
    char detail[200];
    (void)snprintf(detail, sizeof detail, "job '%.*s' has another %s",
                   (int)(id.len < 100 ? id.len : 100), id.ptr, part);
    refuse_repetition(op, i, detail);
}

/* 1: the job is there, and has been compared; 0: it is not. */
static int compare_repeated(struct engine *e, struct submit_op *op, size_t i,
                            struct redrive_err *err)
{
    const struct job_spec *spec = &op->specs[i];
    RELEASED_BY(job_page_release) struct job_page page = {0};
    int rc = engine_find(e, spec->tenant, spec->id, 0, &page, err);
    const char *part = rc > 0 ? difference(spec, &page.jobs[0].spec) : NULL;
    if (part)
        refuse_difference(op, i, part);
    return rc;
}

/* Looks for the job that stands for number `i`, and refuses it with REDRIVE_E_EXISTS in its answer
 * if the two differ. A job that is gone is no difference. Below 0: the store failed. */
static int check_repetition(struct engine *e, struct submit_op *op, size_t i,
                            struct redrive_err *err)
{
    const int rc = compare_repeated(e, op, i, err);
    return rc < 0 ? rc : 0;
}

/* Whether the request before went on after the last job of this one. */
static int was_longer(struct engine *e, const struct submit_op *op, struct redrive_err *err)
{
    char id[NAME_MAX_BYTES + 32];
    RELEASED_BY(job_page_release) struct job_page page = {0};
    (void)snprintf(id, sizeof id, "%.*s/%zu", (int)op->key.len, op->key.ptr, op->n);
    return engine_find(e, op->specs[0].tenant, str_of(id), 0, &page, err);
}

/* The same for an array, before any of it is put into the store: all of its jobs are there and
 * the same and there is no further one, or the first is not there and the request is new. */
static int check_repeated_array(struct engine *e, struct submit_op *op, struct redrive_err *err)
{
    bool is_repeated = false;
    for (size_t i = 0; i < op->n; i++) {
        if (op->answers[i].code < 0 || !is_of_key(op->specs[i].id, op->key))
            continue;
        const int rc = compare_repeated(e, op, i, err);
        if (rc < 0 || (rc == 0 && !is_repeated))
            return rc;
        if (rc == 0)
            refuse_repetition(op, i, "that one had fewer jobs");
        if (op->answers[i].code < 0)
            return 0;
        is_repeated = true;
    }
    const int rc = is_repeated ? was_longer(e, op, err) : 0;
    if (rc > 0)
        refuse_repetition(op, op->n - 1, "that one had more jobs");
    return rc < 0 ? rc : 0;
}

/* ---- Together -------------------------------------------------------------------------------- */

/* Jobs that are handed to the store at once, of one operation or of several. */
#define TOGETHER_MAX 128

struct submit_batch {
    struct job_spec specs[TOGETHER_MAX];
    char ids[TOGETHER_MAX][ID_UUID_LEN + 1];
    struct {
        struct submit_op *op;
        size_t i; /* its number there */
    } items[TOGETHER_MAX];
    size_t n;
};

/* What became of a job of the batch. */
static int batch_note(struct engine *e, struct submit_batch *batch, size_t at,
                      struct submit_result *result, struct redrive_err *err)
{
    struct submit_op *op = batch->items[at].op;
    const size_t i = batch->items[at].i;
    struct submit_answer *a = &op->answers[i];
    /* The answer is read when the transaction's memory is gone. */
    result->id.ptr = arena_dup(&op->result, result->id);
    if (!result->id.ptr)
        return err_nomem(err);
    int rc = note_result(e, &batch->specs[at], op, i, result, err);
    if (rc == 0 && a->existed && op->key.len > 0 && str_eq(a->id, op->key))
        rc = check_repetition(e, op, i, err);
    return rc;
}

static int batch_flush(struct engine *e, struct submit_batch *batch, struct redrive_err *err)
{
    struct submit_result results[TOGETHER_MAX] = {0};
    const size_t n = batch->n;
    int rc = n == 0 ? 0 : e->ops->submit(e->store, batch->specs, n, results, &e->arena, err);
    for (size_t i = 0; i < n && rc >= 0; i++)
        rc = batch_note(e, batch, i, &results[i], err);
    batch->n = 0;
    return rc;
}

static struct job_spec *batch_add(struct engine *e, struct submit_batch *batch,
                                  struct submit_op *op, size_t i)
{
    const size_t at = batch->n++;
    struct job_spec *spec = &batch->specs[at];
    *spec = op->specs[i];
    batch->items[at].op = op;
    batch->items[at].i = i;
    if (spec->delay_ms > 0)
        spec->process_after_ms = store_time_after(engine_time(e), spec->delay_ms);
    if (spec->id.len == 0) {
        id_next(&e->ids, e->now_ms, batch->ids[at]);
        spec->id = str_of(batch->ids[at]);
    }
    if (op->answers[i].experiment)
        choose_arm(e, op->answers[i].experiment, spec);
    return spec;
}

/* A record is put in alone: what it meets there may change it. */
static int submit_record(struct engine *e, struct submit_batch *batch, struct submit_op *op,
                         size_t i, struct redrive_err *err)
{
    struct submit_result result = {0};
    int rc = batch_flush(e, batch, err);
    if (rc < 0)
        return rc;
    struct job_spec *spec = batch_add(e, batch, op, i);
    batch->n = 0;
    rc = put_record(e, op, i, spec, &result, err);
    return rc < 0 ? rc : note_result(e, spec, op, i, &result, err);
}

/* A job that waits for others is put in alone, after those of its parents that come with it. */
static int submit_waiting(struct engine *e, struct submit_batch *batch, struct submit_op *op,
                          struct after_plan *plan, size_t i, struct redrive_err *err)
{
    int rc = batch_flush(e, batch, err);
    if (rc == 0)
        rc = after_resolve(e, op, plan, i, &op->specs[i], err);
    if (rc == 0 && op->answers[i].code < 0 && op->whole && op->answers[i].err) {
        /* Others have been put in by now: the transaction is given up, and with it all of them. */
        *err = *op->answers[i].err;
        return op->answers[i].code;
    }
    if (rc < 0 || op->answers[i].code < 0)
        return rc;
    (void)batch_add(e, batch, op, i);
    rc = batch_flush(e, batch, err);
    return rc == 0 ? after_submitted(e, op, plan, i, err) : rc;
}

/* An array is looked at as a whole, after the one that it may repeat has been put in. */
static int check_array(struct engine *e, struct submit_batch *batch, struct submit_op *op,
                       size_t *refused, struct redrive_err *err)
{
    int rc = batch_flush(e, batch, err);
    if (rc == 0)
        rc = check_repeated_array(e, op, err);
    for (size_t i = 0; i < op->n; i++)
        *refused += op->answers[i].code < 0;
    return rc;
}

/* The jobs that others wait for may be on their way. */
static int plan_waiting(struct engine *e, struct submit_batch *batch, struct submit_op *op,
                        struct after_plan **ret, size_t *refused, struct redrive_err *err)
{
    int rc = batch_flush(e, batch, err);
    if (rc == 0)
        rc = after_plan(e, op, ret, err);
    *refused = 0;
    for (size_t i = 0; i < op->n; i++)
        *refused += op->answers[i].code < 0;
    return rc;
}

static int submit_one(struct engine *e, struct submit_batch *batch, struct submit_op *op,
                      struct redrive_err *err)
{
    struct redrive_err other;
    struct after_plan *plan = NULL;
    int rc = 0;
    (void)err_set(&other, REDRIVE_E_CANCELLED, "another job of the batch was refused");
    arena_release(&op->result);
    arena_init(&op->result);
    for (size_t i = 0; i < op->n && rc == 0; i++)
        rc = fill_in(e, op, i, err);
    size_t refused = rc == 0 ? refuse_some(e, op) : 0;
    if (rc == 0 && refused == 0 && is_array_request(op))
        rc = check_array(e, batch, op, &refused, err);
    if (rc == 0 && op->has_after)
        rc = plan_waiting(e, batch, op, &plan, &refused, err);
    for (size_t i = 0; i < op->n && rc == 0; i++) {
        struct submit_answer *a = &op->answers[i];
        if (a->code == 0 && op->whole && refused > 0)
            (void)submit_refuse_now(op, i, &other);
        if (a->code < 0)
            continue;
        if (op->records) {
            rc = submit_record(e, batch, op, i, err);
            continue;
        }
        if (plan && op->specs[i].n_after > 0) {
            rc = submit_waiting(e, batch, op, plan, i, err);
            continue;
        }
        (void)batch_add(e, batch, op, i);
        if (batch->n == TOGETHER_MAX)
            rc = batch_flush(e, batch, err);
    }
    return rc;
}

static int submit_ops(struct engine *e, struct op *const *ops, size_t n, struct redrive_err *err)
{
    struct submit_batch batch;
    int rc = 0;
    batch.n = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = submit_one(e, &batch, (struct submit_op *)ops[i], err);
    return rc == 0 ? batch_flush(e, &batch, err) : rc;
}

static int apply_submit(struct engine *e, struct op *base, struct redrive_err *err)
{
    return submit_ops(e, &base, 1, err);
}

static const struct op_kind SUBMIT = {.rank = 2, .apply = submit_ops};
static const struct op_route SUBMIT_ROUTE = {.to = ROUTE_SUBMIT};

/* A job alone is known by its unique key, or by its id: two submits of it need the same lock. */
static uint64_t lock_of(const struct engine *e, const struct job_spec *spec)
{
    const struct str name = spec->unique_key.len > 0 ? spec->unique_key : spec->id;
    const uint64_t seed = rng_hash(spec->tenant.ptr, spec->tenant.len, e->map_seed);
    return name.len > 0 ? rng_hash(name.ptr, name.len, seed) : 0;
}

int submit_op_init(struct submit_op *op, const struct engine *e, const struct job_spec *specs,
                   size_t n, struct redrive_err *err)
{
    *op = (struct submit_op){
        .op = {.apply = apply_submit, .kind = &SUBMIT, .route = &SUBMIT_ROUTE, .weight = n},
        .n = n};
    arena_init(&op->arena);
    arena_init(&op->result);
    op->specs = arena_array(&op->arena, n, sizeof *op->specs);
    op->answers = arena_array(&op->arena, n, sizeof *op->answers);
    if (!op->specs || !op->answers) {
        submit_op_release(op);
        return err_nomem(err);
    }
    op->config = engine_config(e);
    for (size_t i = 0; i < n; i++) {
        struct redrive_err why;
        op->specs[i] = specs[i];
        op->has_after |= specs[i].n_after > 0;
        op->op.bytes += specs[i].payload.len;
        if (check_all(e, op, i, &why) < 0)
            (void)submit_refuse(op, i, &why);
    }
    op->op.lock = n == 1 ? lock_of(e, &op->specs[0]) : 0;
    return 0;
}

void submit_op_release(struct submit_op *op)
{
    arena_release(&op->arena);
    arena_release(&op->result);
    config_free(op->config);
    *op = (struct submit_op){0};
}
