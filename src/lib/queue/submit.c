/* submit.c - jobs from outside: submitted, looked at, cancelled. */
#include "lib/queue/private.h"

#include <stdlib.h>

#include "base/err.h"
#include "engine/engine.h"
#include "engine/verbs/change.h"
#include "engine/verbs/submit.h"
#include "lib/copies.h"

static struct str tenant_of(const struct redrive_queue *q)
{
    return q->tenant ? str_of(q->tenant) : STR(ENGINE_TENANT_DEFAULT);
}

/* ---- Submit ---------------------------------------------------------------------------------- */

/* What only this side can know to be wrong; the rest is the engine's to say. */
static int check(const struct redrive_job_spec *job, int64_t now_ms, struct redrive_err *err)
{
    if (job->delay_ms < 0 || job->deadline_ms < 0)
        return err_set(err, REDRIVE_E_RANGE, "a delay or a deadline is negative");
    if (job->delay_ms > INT64_MAX - now_ms || job->deadline_ms > INT64_MAX - now_ms)
        return err_set(err, REDRIVE_E_RANGE, "a delay or a deadline is too far away");
    if (job->delay_ms > 0 && job->process_after_ms != 0)
        return err_set(err, REDRIVE_E_INVALID, "delay_ms and process_after_ms exclude each other");
    if (!job->payload && job->payload_len > 0)
        return err_set(err, REDRIVE_E_INVALID, "payload is NULL, but payload_len is not 0");
    if (job->n_after > 0 && !job->after)
        return err_set(err, REDRIVE_E_INVALID, "after is NULL, but n_after is not 0");
    for (size_t i = 0; i < job->n_after; i++)
        if ((unsigned)job->after[i].on > REDRIVE_AFTER_FAILURE ||
            (unsigned)job->after[i].on_dead > REDRIVE_ON_DEAD_RUN)
            return err_set(err, REDRIVE_E_INVALID,
                           "after: on or on_dead is none of those there are");
    if (job->unique_forever && (!job->unique_key || !*job->unique_key))
        return err_set(err, REDRIVE_E_INVALID, "unique_forever needs a unique_key");
    return 0;
}

static struct job_spec spec_of(const struct redrive_queue *q, const struct redrive_job_spec *job,
                               int64_t now_ms)
{
    struct job_spec spec = {
        .tenant = tenant_of(q),
        .id = str_of(job->id),
        .task = str_of(job->task),
        .queue = str_of(job->queue),
        .payload = {job->payload, job->payload ? job->payload_len : 0},
        .user = str_of(job->user),
        .project = str_of(job->project),
        .service = str_of(job->service),
        .unique_key = str_of(job->unique_key),
        .unique_forever = job->unique_forever,
        .policy = str_of(job->retry),
        .priority = job->priority,
        .process_after_ms = job->process_after_ms,
    };
    if (job->payload && job->payload_len == 0)
        spec.payload = str_of(job->payload);
    if (check(job, now_ms, NULL) < 0)
        return spec;
    spec.delay_ms = job->delay_ms;
    if (job->deadline_ms > 0)
        spec.deadline_ms = now_ms + job->deadline_ms;
    return spec;
}

_Static_assert((int)REDRIVE_AFTER_FAILURE == AFTER_FAILURE &&
                   (int)REDRIVE_ON_DEAD_RUN == AFTER_DEAD_RUN,
               "the public numbers are those of the core");

static void fill_after(const struct redrive_job_spec *job, struct arena *arena,
                       struct job_spec *spec)
{
    struct job_after *after = arena_array(arena, job->n_after, sizeof *after);
    for (size_t i = 0; after && job->after && i < job->n_after; i++)
        after[i] = (struct job_after){
            .id = str_of(job->after[i].id),
            .rule = {(enum after_on)job->after[i].on, (enum after_dead)job->after[i].on_dead},
        };
    spec->after = after;
    spec->n_after = after && job->after ? job->n_after : 0;
}

/* A job whose time was over before it ran has no class of its own. */
static void fill_failed(const struct redrive_dead_letter *letter, struct arena *arena,
                        struct job_spec *spec)
{
    struct job_failed *failed = letter ? arena_alloc(arena, sizeof *failed) : NULL;
    if (!failed)
        return;
    *failed = (struct job_failed){
        .reason = letter->reason,
        .error = {.class_ = letter->class_ == REDRIVE_CLASS_SUCCESS ? REDRIVE_CLASS_PERMANENT
                                                                    : letter->class_,
                  .type = str_of(letter->error_type),
                  .message = str_of(letter->message),
                  .stacktrace = str_of(letter->stacktrace)},
    };
    spec->failed = failed;
}

/* What the arena has must be there until the operation is answered. */
static int prepare(const struct redrive_queue *q, const struct redrive_job_spec *jobs, size_t n,
                   struct arena *arena, struct submit_op *op, struct redrive_err *err)
{
    const int64_t now_ms = engine_now_ms(committer_engine(q->committer));
    struct job_spec *specs = calloc(n, sizeof *specs);
    if (!specs)
        return err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        specs[i] = spec_of(q, &jobs[i], now_ms);
        fill_after(&jobs[i], arena, &specs[i]);
        fill_failed(jobs[i].failed, arena, &specs[i]);
        specs[i].policy = trace_keep(str_of(jobs[i].traceparent), specs[i].policy, arena);
    }
    int rc = REDRIVE_E_NOMEM;
    if (arena->failed)
        (void)err_nomem(err);
    else
        rc = submit_op_init(op, committer_engine(q->committer), specs, n, err);
    free(specs);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct redrive_err why;
        if (op->answers[i].code == 0 && check(&jobs[i], now_ms, &why) < 0)
            (void)submit_refuse(op, i, &why);
    }
    return rc;
}

/* The first refusal, with its position where there are several jobs. */
static int first_refusal(const struct submit_op *op, struct redrive_err *err)
{
    for (size_t i = 0; i < op->n; i++) {
        const struct submit_answer *a = &op->answers[i];
        if (a->code == 0 || a->code == REDRIVE_E_CANCELLED)
            continue;
        if (op->n == 1) {
            if (err)
                *err = *a->err;
            return a->code;
        }
        (void)err_set(err, a->code, "job %zu of %zu: %s", i + 1, op->n, a->err->message);
        err_detail(err, "%s", a->err->detail);
        err_hint(err, "%s", a->err->hint);
        return a->code;
    }
    return 0;
}

static void give_answers(const struct submit_op *op, struct redrive_submitted *ret)
{
    for (size_t i = 0; i < op->n; i++) {
        const struct submit_answer *a = &op->answers[i];
        ret[i] = (struct redrive_submitted){.code = a->code};
        if (a->code < 0)
            continue;
        ret[i].existed = a->existed;
        ret[i].state = a->state;
        (void)str_copy(ret[i].id, sizeof ret[i].id, a->id);
    }
}

int redrive_queue_submit(struct redrive_queue *q, const struct redrive_job_spec *jobs, size_t n,
                         unsigned flags, struct redrive_submitted *ret, struct redrive_err *err)
{
    RELEASED_BY(submit_op_release) struct submit_op op = {0};
    if (!q)
        return queue_is_missing(err);
    if (!jobs && n > 0)
        return err_set(err, REDRIVE_E_INVALID, "there are no jobs");
    if (n == 0)
        return 0;
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = prepare(q, jobs, n, &arena, &op, err);
    if (rc == 0) {
        op.whole = flags & REDRIVE_SUBMIT_WHOLE;
        rc = committer_run(q->committer, &op.op, err);
    }
    if (rc == 0) {
        if (ret)
            give_answers(&op, ret);
        rc = first_refusal(&op, err);
    } else {
        for (size_t i = 0; ret && i < n; i++)
            ret[i] = (struct redrive_submitted){.code = rc};
    }
    return rc;
}

/* ---- A look ---------------------------------------------------------------------------------- */

struct look_op {
    struct op op;
    struct job_filter filter;
    struct job_page page; /* the answer */
};

static int apply_look(struct engine *e, struct op *base, struct redrive_err *err)
{
    struct look_op *op = (struct look_op *)base;
    struct store *store = engine_store(e);
    return store_ops(store)->list(store, &op->filter, &op->page, err);
}

static const struct op_route LOOK_ROUTE = {.to = ROUTE_TENANT,
                                           .tenant_at = offsetof(struct look_op, filter.tenant)};

static const char *pack_text(struct pack *p, struct str s)
{
    if (s.len == 0)
        return NULL;
    char *at = pack_bytes(p, s.ptr, s.len, 1);
    (void)pack_bytes(p, "", 1, 1);
    return at;
}

static void lay_out(const struct job *job, struct pack *p, struct redrive_job_status *ret)
{
    const struct job_spec *spec = &job->spec;
    const struct job_status *status = &job->status;
    *ret = (struct redrive_job_status){
        .state = status->state,
        .reason = status->reason,
        .attempts = status->attempts,
        .max_attempts = job_max_attempts(job),
        .epoch = status->epoch,
        .class_ = status->error.class_,
        .task = pack_text(p, spec->task),
        .queue = pack_text(p, spec->queue),
        .error_type = pack_text(p, status->error.type),
        .message = pack_text(p, status->error.message),
        .worker = pack_text(p, status->worker),
        .payload = pack_text(p, spec->payload),
        .payload_len = spec->payload.len,
        .result = pack_text(p, status->result),
        .result_len = status->result.len,
        .created_ms = status->created_ms,
        .process_after_ms = status->process_after_ms,
        .started_ms = status->started_ms,
        .finished_ms = status->finished_ms,
    };
}

static int copy_job(const struct job *job, struct redrive_job_status *ret, struct redrive_err *err)
{
    struct pack measure = {0};
    lay_out(job, &measure, ret);
    struct pack whole = {.base = malloc(measure.size + 1)};
    if (!whole.base) {
        *ret = (struct redrive_job_status){0};
        return err_nomem(err);
    }
    lay_out(job, &whole, ret);
    ret->memory = whole.base;
    return 0;
}

static int not_found(const char *id, struct redrive_err *err)
{
    return err_set(err, REDRIVE_E_NOT_FOUND, "there is no job '%s'", id ? id : "");
}

int redrive_queue_job(struct redrive_queue *q, const char *id, struct redrive_job_status *ret,
                      struct redrive_err *err)
{
    if (!ret)
        return err_set(err, REDRIVE_E_INVALID, "there is no memory for the answer");
    *ret = (struct redrive_job_status){0};
    if (!q)
        return queue_is_missing(err);
    if (!id || !*id)
        return not_found(id, err);
    struct look_op op = {
        .op = {.apply = apply_look, .route = &LOOK_ROUTE, .weight = 1},
        .filter = {.tenant = tenant_of(q), .id = str_of(id), .limit = 1},
    };
    int rc = committer_run(q->committer, &op.op, err);
    if (rc == 0)
        rc = op.page.n > 0 ? copy_job(&op.page.jobs[0], ret, err) : not_found(id, err);
    job_page_release(&op.page);
    return rc;
}

void redrive_queue_job_release(struct redrive_job_status *status)
{
    if (!status)
        return;
    free(status->memory);
    *status = (struct redrive_job_status){0};
}

/* ---- By hand --------------------------------------------------------------------------------- */

int redrive_queue_cancel(struct redrive_queue *q, const char *id, struct redrive_err *err)
{
    if (!q)
        return queue_is_missing(err);
    struct change_item item = {.tenant = tenant_of(q), .id = str_of(id)};
    struct change_op op;
    if (!id || !*id)
        return not_found(id, err);
    change_op_init(&op, MOVE_CANCEL, &item, 1);
    int rc = committer_run(q->committer, &op.op, err);
    if (rc < 0 || item.ret.code == 0)
        return rc;
    if (item.ret.code == REDRIVE_E_NOT_FOUND)
        return not_found(id, err);
    return err_set(err, item.ret.code, "job '%s' is %s already", id,
                   redrive_state_name(item.ret.state));
}
