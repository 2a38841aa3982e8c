/* requests.c - what clients, workers and operators ask an engine for, and what they make of the
 * answer. */
#include "requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#define ROWS_WANTED 40 /* no more are submitted while there are so many */
#define LEASE_MS    30000

static uint64_t below(struct world *w, uint64_t limit)
{
    return rng_below(&w->rng, limit);
}

static bool chance(struct world *w, unsigned percent)
{
    return below(w, 100) < percent;
}

/* ---- Submit ---------------------------------------------------------------------------------- */

/* A new one or, where no other request can have removed the job meanwhile, one that is there. */
static void choose_id(struct world *w, bool is_alone, char ret[JUDGE_ID_MAX])
{
    const struct known *known = w->judge.n > 0 ? &w->judge.jobs[below(w, w->judge.n)] : NULL;
    if (chance(w, 6) && is_alone && known && known->was_there)
        (void)snprintf(ret, JUDGE_ID_MAX, "%s", known->id);
    else
        (void)snprintf(ret, JUDGE_ID_MAX, "j%lu", ++w->judge.ids);
}

/* A job that is there, one of the same request or, now and then, what must be refused: an earlier
 * choice once more, itself, a job that comes later, one that was never there. */
static void choose_parent(struct world *w, struct submission *s, size_t i, size_t k)
{
    char *id = s->parents[i][k];
    const struct known *known = w->judge.n > 0 ? &w->judge.jobs[below(w, w->judge.n)] : NULL;
    if (chance(w, 3)) {
        const uint64_t luck = below(w, k > 0 ? 3 : 2);
        (void)snprintf(id, JUDGE_ID_MAX, "never");
        if (luck > 0)
            memcpy(id, luck == 1 ? s->ids[i] : s->parents[i][0], JUDGE_ID_MAX);
        s->is_wrong[i] = true;
    } else if (i > 0 && chance(w, 40)) {
        memcpy(id, s->ids[below(w, i)], JUDGE_ID_MAX);
    } else if (known && known->was_there) {
        memcpy(id, known->id, JUDGE_ID_MAX);
    } else {
        id[0] = '\0';
    }
}

static void choose_after(struct world *w, struct submission *s, size_t i)
{
    struct job_spec *spec = &s->specs[i];
    s->is_wrong[i] = false;
    if (!chance(w, 45))
        return;
    for (size_t k = 0, want = 1 + below(w, JUDGE_AFTER); k < want; k++) {
        choose_parent(w, s, i, spec->n_after);
        const char *id = s->parents[i][spec->n_after];
        bool is_there = id[0] == '\0';
        for (size_t m = 0; m < spec->n_after; m++)
            is_there |= strcmp(s->parents[i][m], id) == 0;
        if (is_there && !s->is_wrong[i])
            continue;
        s->is_wrong[i] |= strcmp(id, s->ids[i]) == 0;
        s->after[i][spec->n_after++] = (struct job_after){
            str_of(id), {(enum after_on)below(w, AFTER_FAILURE + 1), (enum after_dead)below(w, 3)}};
        /* The usual rule as often as all others. */
        if (chance(w, 50))
            s->after[i][spec->n_after - 1].rule =
                (struct after_rule){AFTER_SUCCESS, AFTER_DEAD_WAIT};
    }
    spec->after = s->after[i];
}

static void choose_spec(struct world *w, struct submission *s, size_t i)
{
    const int task = (int)below(w, TASK_COUNT), queue = (int)below(w, 2);
    choose_id(w, s->is_alone, s->ids[i]);
    (void)snprintf(s->payloads[i], sizeof s->payloads[i], "{\"id\": \"%s\", \"n\": %llu}",
                   s->ids[i], (unsigned long long)below(w, 1000));
    s->keys[i][0] = '\0';
    if (chance(w, 20))
        (void)snprintf(s->keys[i], JUDGE_ID_MAX, "k%llu", (unsigned long long)below(w, 4));
    s->specs[i] = (struct job_spec){
        .id = str_of(s->ids[i]),
        .task = str_of(TASK_NAMES[task]),
        .queue = str_of(QUEUE_NAMES[queue]),
        .payload = str_of(s->payloads[i]),
        .unique_key = str_of(s->keys[i]),
        .priority = (int32_t)below(w, 3) - 1,
        .process_after_ms = chance(w, 20) ? w->now_ms + (int64_t)below(w, 60000) : 0,
        .deadline_ms = chance(w, 5) ? w->now_ms + 1 + (int64_t)below(w, 100000) : 0,
    };
    choose_after(w, s, i);
    (void)judge_submits(&w->judge, &s->specs[i], task, queue);
}

/* The judge hears of a job only when it is new: a second job of the same request may be the same.
 */
static bool submit_init(struct world *w, const struct process *p, struct submission *s)
{
    if (w->judge.n >= ROWS_WANTED)
        return false;
    s->is_alone = w->depth == 0 && p->plan.kind != FAULT_OTHER_FIRST && !w->may_remove;
    s->n = 1 + below(w, ITEMS_MAX);
    for (size_t i = 0; i < s->n; i++)
        choose_spec(w, s, i);
    return submit_op_init(&s->op, p->engine, s->specs, s->n, NULL) == 0;
}

/* Whether the answer to a job that waits for others is the right one. */
static void check_after(struct world *w, struct submission *s, size_t i)
{
    const struct submit_answer *answer = &s->op.answers[i];
    struct known *known = judge_find(&w->judge, s->specs[i].id);
    bool can_be_refused = s->is_wrong[i] || !s->is_alone;
    if (s->op.op.code != 0 || s->specs[i].n_after == 0 || answer->existed)
        return;
    for (size_t m = 0; m < s->n; m++)
        for (size_t k = 0; k < s->specs[i].n_after; k++) {
            const struct submit_answer *parent = &s->op.answers[m];
            if (strcmp(s->parents[i][k], s->ids[m]) != 0)
                continue;
            can_be_refused |= m > i || parent->code != 0 || parent->existed;
            if (answer->code == 0 && parent->code == 0 && parent->existed)
                judge_stands_for(&w->judge, known, s->ids[m], parent->id);
        }
    if (answer->code == 0 && s->is_wrong[i])
        judge_complain(&w->judge, 13, "%s was taken in with parents that must be refused",
                       known->id);
    if (answer->code != 0 && !can_be_refused)
        judge_complain(&w->judge, 15, "%s was refused (%s), its parents are there", known->id,
                       redrive_err_name(answer->code));
}

static void say_after(const struct world *w, const struct submission *s, size_t i)
{
    for (size_t k = 0; k < s->specs[i].n_after; k++)
        world_say(w, "    after %s, on %s, %s on dead", s->parents[i][k],
                  after_on_name(s->after[i][k].rule.on),
                  after_dead_name(s->after[i][k].rule.on_dead));
}

static void submit_end(struct world *w, struct submission *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct submit_answer *answer = &s->op.answers[i];
        struct known *known = judge_find(&w->judge, s->specs[i].id);
        judge_submitted(&w->judge, known, s->op.op.code, answer->code, answer->existed);
        check_after(w, s, i);
        world_say(w, "  submit %s (%.*s, %.*s, priority %d, key '%s'): %s", s->ids[i],
                  (int)s->specs[i].task.len, s->specs[i].task.ptr, (int)s->specs[i].queue.len,
                  s->specs[i].queue.ptr, s->specs[i].priority, s->keys[i],
                  s->op.op.code     ? redrive_err_name(s->op.op.code)
                  : answer->code    ? redrive_err_name(answer->code)
                  : answer->existed ? "was there"
                                    : "taken");
        say_after(w, s, i);
        w->submitted += s->op.op.code == 0 && answer->code == 0 && !answer->existed;
        w->waiting +=
            s->op.op.code == 0 && answer->code == 0 && !answer->existed && s->specs[i].n_after > 0;
    }
    submit_op_release(&s->op);
}

/* ---- Claim ----------------------------------------------------------------------------------- */

static void hold(struct world *w, const struct job *job)
{
    /* A worker with too many runs forgets one: its lease ends. */
    const size_t at = w->n_runs < RUNS_MAX ? w->n_runs++ : below(w, RUNS_MAX);
    w->runs[at] = (struct run){job->status.seq, job->status.token};
}

void request_claim(struct request *r, size_t n)
{
    const struct claim_filter filter = {.limit = n};
    r->kind = REQUEST_CLAIM;
    claim_op_init(&r->as.claim, &filter, STR("worker"), LEASE_MS);
}

static void claim_end(struct world *w, const struct process *p, struct claim_op *op, bool alone)
{
    if (op->op.code != 0)
        world_say(w, "  claim: %s", redrive_err_name(op->op.code));
    for (size_t i = 0; op->op.code == 0 && i < op->n; i++) {
        world_say(w, "  claim: %.*s, attempt %u", (int)op->jobs[i].spec.id.len,
                  op->jobs[i].spec.id.ptr, op->jobs[i].status.attempts);
        judge_started(&w->judge, &op->jobs[i], p->transaction_ms, w->now_ms);
        hold(w, &op->jobs[i]);
        w->started++;
    }
    if (op->op.code == 0 && alone)
        judge_order(&w->judge, w->eye, op->jobs, op->n);
    claim_op_release(op);
}

/* ---- Settle ---------------------------------------------------------------------------------- */

static struct outcome choose_outcome(struct world *w)
{
    const uint64_t luck = below(w, 100);
    if (luck < 50)
        return (struct outcome){.ending = ENDING_RAN};
    if (luck < 80)
        return (struct outcome){.ending = ENDING_RAN, .failure = {.status = "TRANSIENT_FAIL"}};
    if (luck < 86)
        return (struct outcome){.ending = ENDING_RAN, .failure = {.status = "PERMANENT_FAIL"}};
    if (luck < 92)
        return (struct outcome){.ending = ENDING_RELEASED};
    return (struct outcome){.ending = ENDING_SNOOZED, .snooze_ms = 10000};
}

static bool settle_init(struct world *w, struct settling *s, bool succeed)
{
    s->n = 0;
    s->is_stale = false;
    for (size_t want = 1 + below(w, ITEMS_MAX); s->n < want && w->n_runs > 0; s->n++) {
        const size_t at = below(w, w->n_runs);
        s->runs[s->n] = w->runs[at];
        w->runs[at] = w->runs[--w->n_runs];
        s->items[s->n] = (struct settlement){
            .seq = s->runs[s->n].seq,
            .token = s->runs[s->n].token,
            .outcome = succeed ? (struct outcome){.ending = ENDING_RAN} : choose_outcome(w)};
    }
    settle_op_init(&s->op, s->items, s->n);
    return s->n > 0;
}

void request_success(struct request *r, struct world *w)
{
    r->kind = REQUEST_SETTLE;
    (void)settle_init(w, &r->as.settling, true);
}

/* Whether the job of a run that is over runs under another token. */
static bool runs_again(struct world *w, struct run run)
{
    const struct known *known = judge_find_seq(&w->judge, run.seq);
    return known && known->state == REDRIVE_STATE_RUNNING && known->token != run.token;
}

static bool settle_again_init(struct world *w, struct settling *s)
{
    if (w->n_stale == 0)
        return false;
    struct run run = w->stale[below(w, w->n_stale)];
    for (int i = 0; i < 8 && !runs_again(w, run); i++)
        run = w->stale[below(w, w->n_stale)];
    s->n = 1;
    s->is_stale = true;
    s->items[0] =
        (struct settlement){.seq = run.seq, .token = run.token, .outcome = choose_outcome(w)};
    settle_op_init(&s->op, s->items, s->n);
    return true;
}

static void settle_end(struct world *w, const struct process *p, struct settling *s)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct settlement *item = &s->items[i];
        world_say(w, "  settle job %lld%s: %s", (long long)item->seq, s->is_stale ? " again" : "",
                  s->op.op.code    ? redrive_err_name(s->op.op.code)
                  : item->ret.code ? redrive_err_name(item->ret.code)
                                   : redrive_state_name(item->decision.state));
        judge_settled(&w->judge, item->seq, item->token, s->op.op.code, item->ret.code,
                      &item->decision, p->transaction_ms);
        if (s->is_stale)
            continue;
        /* A worker that has no answer tries again. */
        if (s->op.op.code != 0 && w->n_runs < RUNS_MAX)
            w->runs[w->n_runs++] = s->runs[i];
        else if (s->op.op.code == 0)
            w->stale[w->n_stale < RUNS_MAX ? w->n_stale++ : below(w, RUNS_MAX)] = s->runs[i];
        w->settled += s->op.op.code == 0 && item->ret.code == 0;
    }
}

/* ---- Extend ---------------------------------------------------------------------------------- */

static bool extend_init(struct world *w, struct extending *x)
{
    if (w->n_runs == 0)
        return false;
    const struct run run = w->runs[below(w, w->n_runs)];
    x->item = (struct extension){.seq = run.seq, .token = run.token, .lease_ms = LEASE_MS};
    extend_op_init(&x->op, &x->item, 1);
    return true;
}

static void extend_end(struct world *w, const struct process *p, struct extending *x)
{
    const int rc = x->op.op.code;
    world_say(w, "  extend job %lld: %s", (long long)x->item.seq,
              redrive_err_name(rc ? rc : x->item.ret.code));
    judge_extended(&w->judge, x->item.seq, x->item.token, rc, x->item.ret.code,
                   p->transaction_ms + LEASE_MS, p->transaction_ms);
}

/* ---- Changes by hand ------------------------------------------------------------------------- */

static const enum move_kind CHANGES_BY_HAND[] = {
    MOVE_CANCEL, MOVE_END, MOVE_RUN_NOW, MOVE_REDRIVE, MOVE_REDRIVE, MOVE_REMOVE, MOVE_REMOVE};
static const char *const CHANGE_NAMES[] = {"cancel",  "end",    "run now", "redrive",
                                           "redrive", "remove", "remove"};

/* Any job or, half of the time, one that another job waits for. */
static int64_t choose_job(struct world *w)
{
    const struct known *known = w->judge.n > 0 ? &w->judge.jobs[below(w, w->judge.n)] : NULL;
    if (known && known->n_after > 0 && chance(w, 50))
        known = judge_find(&w->judge, str_of(known->after[below(w, known->n_after)].parent));
    return known ? known->seq : 0;
}

static unsigned long faults_met(const struct world *w)
{
    unsigned long n = 0;
    for (int i = 0; i < FAULT_COUNT; i++)
        n += i != FAULT_OTHER_FIRST ? w->met[i] : 0;
    return n;
}

/* `submission` (may be NULL) is of the same transaction: one of its jobs may be cancelled or ended.
 * False: there is no job to be changed. */
static bool change_init(struct world *w, struct changing *c, const struct submission *submission)
{
    const bool is_new = submission && chance(w, 50);
    *c = (struct changing){.faults = faults_met(w)};
    c->kind = below(w, is_new ? 2 : sizeof CHANGES_BY_HAND / sizeof CHANGES_BY_HAND[0]);
    if (is_new)
        c->item = (struct change_item){.tenant = STR(ENGINE_TENANT_DEFAULT),
                                       .id = submission->specs[below(w, submission->n)].id};
    else
        c->item.seq = choose_job(w);
    change_op_init(&c->op, CHANGES_BY_HAND[c->kind], &c->item, 1);
    return is_new || c->item.seq != 0;
}

static void change_end(struct world *w, const struct process *p, struct changing *c)
{
    const int rc = c->op.op.code;
    world_say(w, "  %s job %lld %.*s: %s", CHANGE_NAMES[c->kind], (long long)c->item.seq,
              (int)c->item.id.len, c->item.id.len > 0 ? c->item.id.ptr : "",
              redrive_err_name(rc ? rc : c->item.ret.code));
    if (rc != 0 && c->faults == faults_met(w) && !p->is_dead)
        judge_complain(&w->judge, 12, "%s of job %lld fails though nothing else does: %s",
                       CHANGE_NAMES[c->kind], (long long)c->item.seq, redrive_err_name(rc));
    struct known *known = c->item.seq != 0 ? judge_find_seq(&w->judge, c->item.seq)
                                           : judge_find(&w->judge, c->item.id);
    judge_changed(known, CHANGES_BY_HAND[c->kind], rc, c->item.ret.code);
}

/* ---- Breakers and queues --------------------------------------------------------------------- */

/* What was believed, or `wanted`, after a request that wanted it to become so. */
static enum belief after_request(enum belief before, bool wanted, int rc)
{
    if (rc == 0)
        return wanted ? IS_SURELY : IS_NOT;
    return rc == REDRIVE_E_IO ? MAYBE : before;
}

void request_breaker(struct request *r, bool trip)
{
    r->kind = REQUEST_BREAKER;
    breaker_op_init(&r->as.breaker, (struct str){0}, str_of(TASK_NAMES[TASK_CALL]),
                    trip ? BREAKER_TRIP : BREAKER_RESET);
}

static void breaker_end(struct world *w, const struct breaker_op *op)
{
    const bool trip = op->verb == BREAKER_TRIP;
    world_say(w, "  %s the breaker: %s", trip ? "trip" : "reset", redrive_err_name(op->op.code));
    judge_controlled(&w->judge, trip, op->op.code);
}

void request_pause(struct request *r, int queue, bool pause)
{
    r->kind = REQUEST_PAUSE;
    pause_op_init(&r->as.pause, STR(ENGINE_TENANT_DEFAULT), str_of(QUEUE_NAMES[queue]), pause);
}

static void pause_end(struct world *w, const struct process *p, struct pause_op *op)
{
    const int queue = str_is(op->queue, QUEUE_NAMES[0]) ? 0 : 1;
    while (op->op.code == 0 && pause_op_goes_on(op))
        (void)engine_apply_one(p->engine, &op->op, NULL);
    world_say(w, "  %s %s: %s", op->pause ? "pause" : "resume", QUEUE_NAMES[queue],
              redrive_err_name(op->op.code));
    w->judge.paused[queue] = after_request(w->judge.paused[queue], op->pause, op->op.code);
}

/* ---- Any ------------------------------------------------------------------------------------- */

bool request_init(struct request *r, enum request_kind kind, struct world *w,
                  const struct process *p, const struct request *earlier)
{
    const bool follows = earlier && earlier->kind == REQUEST_SUBMIT;
    r->kind = kind;
    switch (kind) {
    case REQUEST_SUBMIT: return submit_init(w, p, &r->as.submission);
    case REQUEST_CLAIM: request_claim(r, 1 + below(w, 4)); return true;
    case REQUEST_SETTLE: return settle_init(w, &r->as.settling, false);
    case REQUEST_SETTLE_AGAIN: return settle_again_init(w, &r->as.settling);
    case REQUEST_EXTEND: return extend_init(w, &r->as.extending);
    case REQUEST_CHANGE:
        return change_init(w, &r->as.changing, follows ? &earlier->as.submission : NULL);
    case REQUEST_BREAKER: request_breaker(r, chance(w, 50)); return true;
    case REQUEST_PAUSE: request_pause(r, (int)below(w, 2), chance(w, 50)); return true;
    case REQUEST_KINDS:
    default: abort();
    }
}

struct op *request_op(struct request *r)
{
    switch (r->kind) {
    case REQUEST_SUBMIT: return &r->as.submission.op.op;
    case REQUEST_CLAIM: return &r->as.claim.op;
    case REQUEST_SETTLE:
    case REQUEST_SETTLE_AGAIN: return &r->as.settling.op.op;
    case REQUEST_EXTEND: return &r->as.extending.op.op;
    case REQUEST_CHANGE: return &r->as.changing.op.op;
    case REQUEST_BREAKER: return &r->as.breaker.op;
    case REQUEST_PAUSE: return &r->as.pause.op;
    case REQUEST_KINDS:
    default: abort();
    }
}

void request_end(struct request *r, struct world *w, const struct process *p, bool is_alone)
{
    switch (r->kind) {
    case REQUEST_SUBMIT: submit_end(w, &r->as.submission); break;
    case REQUEST_CLAIM: claim_end(w, p, &r->as.claim, is_alone); break;
    case REQUEST_SETTLE:
    case REQUEST_SETTLE_AGAIN: settle_end(w, p, &r->as.settling); break;
    case REQUEST_EXTEND: extend_end(w, p, &r->as.extending); break;
    case REQUEST_CHANGE: change_end(w, p, &r->as.changing); break;
    case REQUEST_BREAKER: breaker_end(w, &r->as.breaker); break;
    case REQUEST_PAUSE: pause_end(w, p, &r->as.pause); break;
    case REQUEST_KINDS:
    default: abort();
    }
}
