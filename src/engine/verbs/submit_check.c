/* submit_check.c - what can be said about a new job without a store, and refusals. */
#include "engine/verbs/submit.h"

#include "base/err.h"
#include "base/json/json.h"
#include "core/check.h"
#include "core/retry/policy.h"

#define PRIORITY_MAX 100

static int check_name(const char *what, struct str s, bool required, struct redrive_err *err)
{
    if (s.len == 0)
        return required ? err_set(err, REDRIVE_E_INVALID, "a job needs a %s", what) : 0;
    return name_check(what, s, err);
}

int submit_check_names(const struct job_spec *spec, struct redrive_err *err)
{
    const struct {
        const char *what;
        struct str s;
        bool required;
    } names[] = {
        {"task", spec->task, true},
        {"id", spec->id, false},
        {"tenant", spec->tenant, false},
        {"user", spec->user, false},
        {"project", spec->project, false},
        {"service", spec->service, false},
        {"unique key", spec->unique_key, false},
    };
    int rc = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && rc == 0; i++)
        rc = check_name(names[i].what, names[i].s, names[i].required, err);
    return rc < 0 || spec->queue.len == 0 ? rc : name_check_queue(spec->queue, err);
}

static int check_size(size_t max_bytes, struct str payload, struct redrive_err *err)
{
    if (payload.len <= max_bytes)
        return 0;
    int rc = err_set(err, REDRIVE_E_TOO_BIG, "the payload is over %zu bytes", max_bytes);
    err_detail(err, "it has %zu bytes", payload.len);
    err_hint(err, "keep large data elsewhere and submit where it is");
    return rc;
}

int submit_check_payload(size_t max_bytes, struct str payload, struct redrive_err *err)
{
    const struct json_limits limits = {.max_bytes = max_bytes};
    struct redrive_err why;
    int rc = check_size(max_bytes, payload, err);
    if (rc < 0 || payload.len == 0)
        return rc;
    rc = json_check(payload, &limits, &why);
    if (rc < 0) {
        (void)err_set(err, rc, "the payload is not JSON");
        err_detail(err, "%s", why.message);
        err_hint(err, "%s", why.hint);
    }
    return rc;
}

int submit_check_there(const struct config_task *task, struct str payload, struct redrive_err *err)
{
    bool absent = payload.len == 0 || str_is(str_trim(payload), "null");
    if (!absent || task->payload != CONFIG_PAYLOAD_REQUIRED)
        return 0;
    int rc = err_set(err, REDRIVE_E_INVALID, "the payload is missing");
    err_detail(err, "task '%s' says payload: required", task->name);
    return rc;
}

static int check_numbers(const struct job_spec *spec, struct redrive_err *err)
{
    if (spec->priority < -PRIORITY_MAX || spec->priority > PRIORITY_MAX)
        return err_set(err, REDRIVE_E_RANGE, "priority %d is not between -%d and %d",
                       spec->priority, PRIORITY_MAX, PRIORITY_MAX);
    if (spec->process_after_ms < 0 || spec->delay_ms < 0 || spec->deadline_ms < 0)
        return err_set(err, REDRIVE_E_RANGE, "a time is before 1970");
    return 0;
}

int submit_read_policy(const struct config_task *task, struct job_spec *spec,
                       struct redrive_err *err)
{
    struct config_part *box = NULL;
    struct redrive_err why = {0};
    const struct redrive_policy *policy = &task->retry;
    if (trace_has_policy(spec->policy)) {
        int rc = policy_parse_json(spec->policy, &task->retry, &box, &why);
        if (rc < 0) {
            (void)err_set(err, rc, "the job's retry policy: %s", why.message);
            err_detail(err, "%s", why.detail);
            err_hint(err, "%s", why.hint);
            return rc;
        }
        policy = &box->policy;
    }
    spec->max_attempts = (int32_t)policy_max_attempts(policy);
    config_part_free(box);
    return 0;
}

static int refuse_unknown(const struct config *config, struct str name, struct redrive_err *err)
{
    (void)err_set(err, REDRIVE_E_UNKNOWN, "there is no task '%.*s'", (int)name.len, name.ptr);
    err_detail(err, "strict_tasks allows declared tasks only");
    err_suggest(err, config_task_nearest(config, name));
    return REDRIVE_E_UNKNOWN;
}

int submit_check_form(const struct config *config, size_t payload_max_bytes,
                      const struct job_spec *spec, struct redrive_err *err)
{
    int rc = 0;
    if (config && config->strict_tasks && !*config_task(config, spec->task)->name)
        rc = refuse_unknown(config, spec->task, err);
    if (rc == 0)
        rc = spec->payload_is_json ? check_size(payload_max_bytes, spec->payload, err)
                                   : submit_check_payload(payload_max_bytes, spec->payload, err);
    if (rc == 0)
        rc = check_numbers(spec, err);
    return rc;
}

int submit_check(const struct config *config, const struct config_task *task,
                 size_t payload_max_bytes, struct job_spec *spec, struct redrive_err *err)
{
    int rc = submit_check_names(spec, err);
    if (rc == 0)
        rc = submit_check_form(config, payload_max_bytes, spec, err);
    if (rc == 0)
        rc = submit_read_policy(task, spec, err);
    return rc == 0 ? submit_check_there(task, spec->payload, err) : rc;
}

/* ---- Refusals -------------------------------------------------------------------------------- */

/* Few jobs are refused, so an answer has no error of its own until it needs one: it is a kilobyte.
 */
static int refuse_in(struct arena *arena, struct submit_answer *a, const struct redrive_err *why)
{
    static const struct redrive_err NO_MEMORY = {REDRIVE_E_NOMEM, "out of memory", "", ""};
    struct redrive_err *err = arena_alloc(arena, sizeof *err);
    if (err)
        *err = *why;
    a->err = err ? err : &NO_MEMORY;
    a->code = a->err->code;
    return a->code;
}

int submit_refuse(struct submit_op *op, size_t i, const struct redrive_err *why)
{
    op->answers[i].invalid = true;
    return refuse_in(&op->arena, &op->answers[i], why);
}

int submit_refuse_now(struct submit_op *op, size_t i, const struct redrive_err *why)
{
    return refuse_in(&op->result, &op->answers[i], why);
}

size_t submit_first_refused(const struct submit_op *op)
{
    size_t i = 0;
    while (i < op->n && (op->answers[i].code == 0 || op->answers[i].code == REDRIVE_E_CANCELLED))
        i++;
    return i;
}
