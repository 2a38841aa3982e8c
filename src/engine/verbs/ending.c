/* ending.c - how a job ends: from its row to what decide() says, and how that is kept. */
#include "engine/verbs/ending.h"

#include <stdio.h>

#include "base/text/buf.h"
#include "base/time/duration.h"
#include "core/classify/classify.h"
#include "core/classify/fingerprint.h"
#include "core/retry/backoff.h"
#include "core/vocabulary.h"
#include "engine/state.h"
#include "engine/tasks.h"
#include "engine/verbs/after.h"

static int64_t elapsed_ms(const struct engine *e, const struct job_status *s)
{
    if (s->first_started_ms == 0)
        return 0;
    int64_t paused_now = s->paused_since_ms != 0 ? e->now_ms - s->paused_since_ms : 0;
    int64_t elapsed = e->now_ms - s->first_started_ms - s->paused_ms - paused_now;
    return elapsed > 0 ? elapsed : 0;
}

struct decision ending_decide(struct engine *e, const struct job *job,
                              const struct outcome *outcome)
{
    const struct job_spec *spec = &job->spec;
    const struct config_task *task = task_in_force(e, spec->task);
    struct config_part *box = NULL;
    const struct job_facts facts = {
        .attempts = job->status.attempts,
        .crashes = job->status.crashes,
        .elapsed_ms = elapsed_ms(e, &job->status),
        .deadline_in_ms = spec->deadline_ms != 0 ? spec->deadline_ms - e->now_ms : INT64_MAX,
        .seed = backoff_seed(spec->id, job->status.epoch),
        .is_probe = job->status.permit.probe != 0,
        .names = {.task = arena_dup(&e->arena, spec->task),
                  .queue = arena_dup(&e->arena, spec->queue),
                  .service = spec->service.len ? arena_dup(&e->arena, spec->service) : NULL,
                  .user = spec->user.len ? arena_dup(&e->arena, spec->user) : NULL},
    };
    struct decision decision = decide(&facts, outcome, &task->retry, e->classifier);
    /* Beside a policy the text may have a traceparent, or that alone. A success is one under any
     * policy, and most runs are. */
    if (!trace_has_policy(spec->policy) || decision.state == REDRIVE_STATE_COMPLETED)
        return decision;
    /* It was checked when the job came in; if it is not valid any more, the task's policy holds. */
    const int rc = policy_parse_kept(spec->policy, &task->retry, &box, NULL);
    if (rc == 0)
        decision = decide(&facts, outcome, &box->policy, e->classifier);
    else if (rc == REDRIVE_E_NOMEM)
        e->arena.failed = true; /* the transaction fails: this decision is not the job's own */
    config_part_free(box);
    return decision;
}

struct str ending_message(struct engine *e, struct str message, const struct decision *decision)
{
    char why[256], delay[DURATION_TEXT_MAX], timeout[DURATION_TEXT_MAX];
    const struct too_late *late = &decision->too_late;
    struct buf text;
    if (decision->why != DELAY_TOO_LATE)
        return message;
    duration_format(late->delay_ms, delay);
    if (late->total_timeout_ms > 0)
        (void)snprintf(why, sizeof why,
                       "not tried again: %s of %s goes beyond total_timeout: %s; a larger one, or "
                       "0, allows it",
                       late->was_asked ? "the delay asked for" : "the next delay", delay,
                       duration_format(late->total_timeout_ms, timeout));
    else
        (void)snprintf(why, sizeof why, "not tried again: %s of %s goes beyond the job's deadline",
                       late->was_asked ? "the delay asked for" : "the next delay", delay);
    buf_init(&text, message.len + sizeof why + 2);
    (void)buf_add_str(&text, message);
    if (message.len > 0)
        (void)buf_puts(&text, "; ");
    (void)buf_puts(&text, why);
    struct str all = buf_str(&text);
    all.ptr = buf_failed(&text) ? NULL : arena_dup(&e->arena, all);
    buf_release(&text);
    return all.ptr ? all : message;
}

static int32_t code_of(const struct redrive_failure *f)
{
    const int codes[] = {f->http_status, f->curl_code, f->errnum, f->signal, f->exit_code};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (codes[i] != 0)
            return codes[i];
    return 0;
}

/* Endings that are no failure of a handler. */
static const struct {
    const char *type;
    const char *message;
} WITHOUT_RUN[] = {
    [ENDING_LEASE_LOST] = {"LeaseExpired", "the worker was not heard of before its lease ended"},
    [ENDING_INVALID] = {"MissingPayload", "the payload is missing, and the task requires one"},
    [ENDING_DAMAGED] = {"DamagedJob", "the store does not have what was submitted any more"},
};
#define N_WITHOUT_RUN (sizeof WITHOUT_RUN / sizeof WITHOUT_RUN[0])

struct job_error ending_error(const struct outcome *outcome, const struct decision *decision)
{
    const struct redrive_failure *f = &outcome->failure;
    const size_t ending = (size_t)outcome->ending;
    if (decision->class_ == REDRIVE_CLASS_SUCCESS)
        return (struct job_error){.class_ = REDRIVE_CLASS_SUCCESS};
    if (ending < N_WITHOUT_RUN && WITHOUT_RUN[ending].type)
        return (struct job_error){
            .class_ = decision->class_,
            .type = str_of(WITHOUT_RUN[ending].type),
            .message = str_of(WITHOUT_RUN[ending].message),
        };
    return (struct job_error){
        .class_ = decision->class_,
        .type = str_of(failure_type(f)),
        .message = str_of(f->message),
        .stacktrace = str_of(f->stacktrace),
        .code = code_of(f),
    };
}

uint64_t ending_group(const struct job_error *error)
{
    return error->class_ == REDRIVE_CLASS_SUCCESS
               ? 0
               : fingerprint(error->type, error->class_, error->message);
}

/* Ends a job that waits, as the decision says. */
static int end_by(struct engine *e, const struct job *job, const struct decision *d,
                  const struct job_error *error, enum redrive_state *ret_state,
                  struct redrive_err *err)
{
    const struct change_move move = {
        .seq = job->status.seq,
        .kind = MOVE_END,
        .to = d->state,
        .reason = d->reason,
        .error = *error,
        .fingerprint = ending_group(error),
    };
    struct move_result result = {0};
    int rc = e->ops->move(e->store, CHANGES(&move, 1), &result, err);
    if (rc < 0 || result.code < 0)
        return rc;
    if (ret_state)
        *ret_state = result.state;
    struct engine_event event = event_of(
        e, d->state == REDRIVE_STATE_FAILED ? ENGINE_EVENT_FAILED : ENGINE_EVENT_DEAD, job);
    event.reason = d->reason;
    event.class_ = d->class_;
    event.severity = d->severity;
    event.message = error->message;
    event_add(e, &event);
    struct ended_job parent = {.seq = job->status.seq, .state = d->state, .id = job->spec.id};
    return result.children > 0 ? after_ended(e, &parent, 1, err) : 0;
}

int end_waiting(struct engine *e, const struct job *job, enum ending ending,
                enum redrive_state *ret_state, struct redrive_err *err)
{
    const struct outcome outcome = {.ending = ending};
    const struct decision d = ending_decide(e, job, &outcome);
    const struct job_error error = ending_error(&outcome, &d);
    return end_by(e, job, &d, &error, ret_state, err);
}

int end_failed_elsewhere(struct engine *e, const struct job *job, enum redrive_state *ret_state,
                         struct redrive_err *err)
{
    const struct job_failed *failed = job->spec.failed;
    const struct decision d = {
        .state = REDRIVE_STATE_DEAD_LETTER,
        .reason = failed->reason,
        .class_ = failed->error.class_,
        .severity = class_severity(failed->error.class_),
    };
    return end_by(e, job, &d, &failed->error, ret_state, err);
}
