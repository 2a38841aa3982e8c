/* judge.c - the account of each job, and its comparison with the rows of the store. */
#include "judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

const char *const TASK_NAMES[TASK_COUNT + CRON_COUNT] = {"plain", "call",  "slow",
                                                         "every", "skips", "queues"};
const char *const QUEUE_NAMES[2] = {"default", "bulk"};

void judge_init(struct judge *judge)
{
    *judge = (struct judge){.jobs = calloc(JUDGE_JOBS_MAX, sizeof *judge->jobs),
                            .breaker = {.counts = true}};
    if (!judge->jobs)
        abort();
}

void judge_release(struct judge *judge)
{
    free(judge->jobs);
}

void judge_complain(struct judge *judge, int invariant, const char *format, ...)
{
    if (judge->complaint[0] != '\0')
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(judge->complaint, sizeof judge->complaint, format, args);
    va_end(args);
    judge->invariant = invariant;
}

/* Not core/state.h: the judge shares nothing with what it judges. */
static bool has_ended(enum redrive_state state)
{
    return state == REDRIVE_STATE_COMPLETED || state == REDRIVE_STATE_FAILED ||
           state == REDRIVE_STATE_DEAD_LETTER || state == REDRIVE_STATE_CANCELLED;
}

struct known *judge_find(struct judge *judge, struct str id)
{
    for (size_t i = 0; i < judge->n; i++)
        if (str_is(id, judge->jobs[i].id))
            return &judge->jobs[i];
    return NULL;
}

struct known *judge_find_seq(struct judge *judge, int64_t seq)
{
    for (size_t i = 0; i < judge->n; i++)
        if (seq != 0 && judge->jobs[i].seq == seq)
            return &judge->jobs[i];
    return NULL;
}

static void forget(struct judge *judge, struct known *known)
{
    *known = judge->jobs[--judge->n];
}

enum belief judge_happened(int op_code, int code)
{
    if (op_code == 0)
        return code == 0 ? IS_SURELY : IS_NOT;
    return op_code == REDRIVE_E_IO ? MAYBE : IS_NOT;
}

static uint64_t hash(struct str s)
{
    return rng_hash(s.ptr, s.len, 0);
}

/* ---- Clients --------------------------------------------------------------------------------- */

struct known *judge_submits(struct judge *judge, const struct job_spec *spec, int task, int queue)
{
    struct known *known = judge_find(judge, spec->id);
    if (known)
        return known;
    if (judge->n == JUDGE_JOBS_MAX)
        abort();
    known = &judge->jobs[judge->n++];
    *known = (struct known){.task = task,
                            .queue = queue,
                            .priority = spec->priority,
                            .payload_hash = hash(spec->payload),
                            .not_before_ms = spec->process_after_ms,
                            .state = REDRIVE_STATE_QUEUED,
                            .was = REDRIVE_STATE_COUNT,
                            .expected = REDRIVE_STATE_COUNT};
    (void)snprintf(known->id, sizeof known->id, "%.*s", (int)spec->id.len, spec->id.ptr);
    (void)snprintf(known->key, sizeof known->key, "%.*s", (int)spec->unique_key.len,
                   spec->unique_key.len ? spec->unique_key.ptr : "");
    for (size_t i = 0; i < spec->n_after && i < JUDGE_AFTER; i++) {
        struct known_edge *edge = &known->after[known->n_after++];
        edge->rule = spec->after[i].rule;
        (void)snprintf(edge->parent, sizeof edge->parent, "%.*s", (int)spec->after[i].id.len,
                       spec->after[i].id.ptr);
    }
    return known;
}

void judge_submitted(struct judge *judge, struct known *known, int op_code, int code, bool existed)
{
    const enum belief is_new = existed ? IS_NOT : judge_happened(op_code, code);
    if (op_code == 0 && code == 0 && !existed && known->was_there)
        judge_complain(judge, 2, "%s was taken in twice", known->id);
    if (is_new > known->submitted)
        known->submitted = is_new;
}

void judge_changed(struct known *known, enum move_kind kind, int op_code, int code)
{
    const enum belief done = judge_happened(op_code, code);
    if (!known || done == IS_NOT)
        return;
    known->expected = REDRIVE_STATE_COUNT;
    switch (kind) {
    case MOVE_CANCEL:
        known->ends |= 1u << REDRIVE_STATE_CANCELLED;
        if (done > known->run_ended)
            known->run_ended = done;
        break;
    case MOVE_END:
        known->ends |= 1u << REDRIVE_STATE_DEAD_LETTER | 1u << REDRIVE_STATE_FAILED;
        break;
    case MOVE_REMOVE: known->removed = done; break;
    case MOVE_REDRIVE:
        known->redriven = done;
        known->not_before_ms = 0;
        break;
    case MOVE_RUN_NOW: known->not_before_ms = 0; break;
    default: break;
    }
}

void judge_time(struct judge *judge, int64_t now_ms)
{
    if (now_ms > judge->latest_ms)
        judge->latest_ms = now_ms;
    for (size_t i = 0; i < judge->n; i++) {
        struct known *known = &judge->jobs[i];
        known->was_due |= known->due_ms <= now_ms;
        if (known->not_before_ms <= now_ms)
            known->not_before_ms = 0;
    }
    judge_breaker_time(judge, now_ms);
}

/* ---- Workers --------------------------------------------------------------------------------- */

static void check_start(struct judge *judge, const struct known *known, const struct job *job,
                        int64_t start_ms, int64_t now_ms)
{
    const char *id = known->id;
    if (known->submitted == IS_NOT && !known->was_there)
        judge_complain(judge, 2, "%s runs, but was refused", id);
    if (hash(job->spec.payload) != known->payload_hash)
        judge_complain(judge, 2, "%s runs with another payload", id);
    if (!str_is(job->spec.task, TASK_NAMES[known->task]) ||
        !str_is(job->spec.queue, QUEUE_NAMES[known->queue]))
        judge_complain(judge, 2, "%s runs as another task or in another queue", id);
    if (known->was_there && has_ended(known->state) && known->redriven == IS_NOT)
        judge_complain(judge, 3, "%s runs, but was %s", id, redrive_state_name(known->state));
    if (job->status.attempts < 1 || job->status.attempts > MAX_ATTEMPTS)
        judge_complain(judge, 5, "%s runs for the %uth time", id, job->status.attempts);
    if (start_ms < known->not_before_ms)
        judge_complain(judge, 6, "%s runs %lld ms early", id,
                       (long long)(known->not_before_ms - start_ms));
    if (known->token != 0 && known->run_ended == IS_NOT && known->lease_until_ms > start_ms)
        judge_complain(judge, 7, "%s is given out while a lease lasts for %lld ms", id,
                       (long long)(known->lease_until_ms - start_ms));
    if (job->status.token == 0 || job->status.token == known->token)
        judge_complain(judge, 7, "%s is given out without a new token", id);
    if (job->status.lease_until_ms <= now_ms)
        judge_complain(judge, 7, "%s is given out with a lease that is over", id);
    if (known->task == TASK_CALL && judge->tripped == IS_SURELY)
        judge_complain(judge, 10, "%s runs though its breaker was tripped", id);
    if (judge->paused[known->queue] == IS_SURELY)
        judge_complain(judge, 10, "%s runs though its queue is paused", id);
}

void judge_started(struct judge *judge, const struct job *job, int64_t start_ms, int64_t now_ms)
{
    struct known *known = judge_find(judge, job->spec.id);
    if (!known)
        known = judge_adopt(judge, job);
    if (!known) {
        judge_complain(judge, 2, "%.*s runs, but was never submitted", (int)job->spec.id.len,
                       job->spec.id.ptr);
        return;
    }
    check_start(judge, known, job, start_ms, now_ms);
    if (known->task == TASK_CALL)
        judge_breaker_started(judge, job, start_ms);
    known->seq = job->status.seq;
    known->permit = job->status.permit;
    known->token = job->status.token;
    known->lease_until_ms = job->status.lease_until_ms;
    known->run_ended = IS_NOT;
}

void judge_order(struct judge *judge, struct store *eye, const struct job *given, size_t n)
{
    const struct job_filter queued = {.states = 1u << REDRIVE_STATE_QUEUED,
                                      .limit = STORE_PAGE_MAX};
    struct job_page page = {0};
    if (n == 0 || store_ops(eye)->list(eye, &queued, &page, NULL) != 0)
        return;
    for (size_t i = 0; i < page.n; i++) {
        const struct job *left = &page.jobs[i];
        const struct known *known = judge_find(judge, left->spec.id);
        /* The claim itself has ended a job, which was late, and so released this one. */
        if (known && known->was_there && known->state == REDRIVE_STATE_WAITING)
            continue;
        for (size_t k = 0; k < n; k++)
            if (str_eq(left->spec.queue, given[k].spec.queue) &&
                (left->spec.priority > given[k].spec.priority ||
                 (left->spec.priority == given[k].spec.priority &&
                  left->status.seq < given[k].status.seq)))
                judge_complain(judge, 11, "%.*s was given out before %.*s",
                               (int)given[k].spec.id.len, given[k].spec.id.ptr,
                               (int)left->spec.id.len, left->spec.id.ptr);
    }
    job_page_release(&page);
}

void judge_settled(struct judge *judge, int64_t seq, uint64_t token, int op_code, int code,
                   const struct decision *decision, int64_t at_ms)
{
    struct known *known = judge_find_seq(judge, seq);
    const enum belief done = judge_happened(op_code, code);
    const bool is_current = known && known->token == token && known->run_ended == IS_NOT;
    if (done == IS_SURELY && (!known || known->token != token || known->run_ended == IS_SURELY))
        judge_complain(judge, 8, "a stale token has settled job %lld", (long long)seq);
    if (op_code == 0 && code != 0 && is_current && known->lease_until_ms > at_ms)
        judge_complain(judge, 8, "%s: its holder was refused: %s", known->id,
                       redrive_err_name(code));
    if (!known || done == IS_NOT || known->token != token)
        return;
    if (known->task == TASK_CALL)
        judge_breaker_ended(judge, known, done, decision->breaker, at_ms);
    if (done > known->run_ended)
        known->run_ended = done;
    if (has_ended(decision->state))
        known->ends |= 1u << decision->state;
    if (done != IS_SURELY)
        return;
    known->expected = decision->state;
    known->not_before_ms =
        decision->state == REDRIVE_STATE_RETRYING || decision->state == REDRIVE_STATE_SCHEDULED
            ? at_ms + decision->delay_ms
            : 0;
}

void judge_extended(struct judge *judge, int64_t seq, uint64_t token, int op_code, int code,
                    int64_t until_ms, int64_t at_ms)
{
    struct known *known = judge_find_seq(judge, seq);
    const enum belief done = judge_happened(op_code, code);
    if (done == IS_SURELY && (!known || known->token != token || known->run_ended == IS_SURELY))
        judge_complain(judge, 8, "a stale token has extended job %lld", (long long)seq);
    if (op_code == 0 && code != 0 && known && known->token == token && known->run_ended == IS_NOT &&
        known->lease_until_ms > at_ms)
        judge_complain(judge, 8, "%s: its holder was refused: %s", known->id,
                       redrive_err_name(code));
    if (known && done == IS_SURELY && known->lease_until_ms < until_ms)
        known->lease_until_ms = until_ms;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* What is counted over all rows. */
struct tally {
    size_t by_state[2][REDRIVE_STATE_COUNT]; /* of each queue */
    size_t slow_running;
    size_t probes; /* of the newest generation, with a lease that lasts */
    uint64_t generation;
};

static void check_moves(struct judge *judge, const struct known *known, const struct job *job)
{
    const struct job_status *s = &job->status;
    if (!known->was_there)
        return;
    if (s->epoch != known->epoch && (s->epoch != known->epoch + 1 || known->redriven == IS_NOT))
        judge_complain(judge, 3, "%s is in epoch %u, was in %u", known->id, s->epoch, known->epoch);
    if (has_ended(known->state) && s->epoch == known->epoch && s->state != known->state)
        judge_complain(judge, 3, "%s is %s, was %s", known->id, redrive_state_name(s->state),
                       redrive_state_name(known->state));
    if (s->epoch == known->epoch && s->attempts > known->attempts + 2)
        judge_complain(judge, 5, "%s has %u attempts, had %u", known->id, s->attempts,
                       known->attempts);
}

/* Whether a job may have gone on since a worker was told what has become of it: one that is queued
 * may have been started or parked, one whose delay has passed too, and a deadline ends those that
 * wait. */
static bool may_have_gone_on(const struct known *known, const struct job *job)
{
    const int64_t deadline_ms = job->spec.deadline_ms;
    const bool waited =
        known->expected == REDRIVE_STATE_SCHEDULED || known->expected == REDRIVE_STATE_RETRYING;
    const bool is_overdue = deadline_ms != 0 && job->status.updated_ms >= deadline_ms;
    return known->expected == REDRIVE_STATE_QUEUED ||
           (waited && (known->not_before_ms == 0 || is_overdue));
}

static void check_expected(struct judge *judge, const struct known *known, const struct job *job)
{
    const enum redrive_state state = job->status.state;
    if (known->expected == REDRIVE_STATE_COUNT || known->expected == state ||
        may_have_gone_on(known, job))
        return;
    judge_complain(judge, known->expected == REDRIVE_STATE_DEAD_LETTER ? 9 : 1,
                   "%s is %s, but was acknowledged as %s", known->id, redrive_state_name(state),
                   redrive_state_name(known->expected));
}

static void check_row(struct judge *judge, const struct known *known, const struct job *job)
{
    const struct job_status *s = &job->status;
    const bool runs = s->state == REDRIVE_STATE_RUNNING;
    check_moves(judge, known, job);
    check_expected(judge, known, job);
    if (known->submitted == IS_NOT && !known->was_there)
        judge_complain(judge, 2, "%s is there, but was refused", known->id);
    if (hash(job->spec.payload) != known->payload_hash)
        judge_complain(judge, 2, "%s has another payload", known->id);
    if (s->attempts > MAX_ATTEMPTS)
        judge_complain(judge, 5, "%s has %u attempts", known->id, s->attempts);
    const bool was_due = (known->was_due && known->due_ms == s->process_after_ms) ||
                         s->process_after_ms <= judge->latest_ms;
    if (runs && s->started_ms < s->process_after_ms && !was_due)
        judge_complain(judge, 6, "%s was started early", known->id);
    if (runs != (s->token != 0) || runs != (s->lease_until_ms != 0))
        judge_complain(judge, 7, "%s is %s, its token %llu", known->id,
                       redrive_state_name(s->state), (unsigned long long)s->token);
    if (runs && s->token == known->token && known->run_ended == IS_SURELY)
        judge_complain(judge, 1, "%s still runs, but its end was acknowledged", known->id);
    if (!runs && known->token != 0 && known->run_ended == IS_NOT && known->was_there &&
        known->state == REDRIVE_STATE_RUNNING && s->updated_ms < known->lease_until_ms)
        judge_complain(judge, 7, "%s was taken from its holder", known->id);
    if (has_ended(s->state) != (s->finished_ms != 0))
        judge_complain(judge, 3, "%s is %s, and ended at %lld", known->id,
                       redrive_state_name(s->state), (long long)s->finished_ms);
}

static void remember_row(struct known *known, const struct job *job, int64_t latest_ms)
{
    const struct job_status *s = &job->status;
    known->was_due = s->process_after_ms <= latest_ms ||
                     (known->was_due && known->due_ms == s->process_after_ms);
    known->due_ms = s->process_after_ms;
    known->was = known->was_there ? known->state : REDRIVE_STATE_COUNT;
    known->was_in = known->epoch;
    known->is_redriven_now = known->redriven != IS_NOT;
    known->open = s->open_parents;
    if (s->state == REDRIVE_STATE_RUNNING) {
        known->token = s->token;
        known->lease_until_ms = s->lease_until_ms;
        known->permit = s->permit;
        known->run_ended = IS_NOT;
    } else if (known->token != 0) {
        known->run_ended = IS_SURELY;
    }
    known->was_there = true;
    known->submitted = IS_SURELY;
    known->removed = known->redriven = IS_NOT;
    known->expected = REDRIVE_STATE_COUNT;
    known->seq = s->seq;
    known->state = s->state;
    known->epoch = s->epoch;
    known->attempts = s->attempts;
    known->finished_ms = s->finished_ms;
}

static void count_row(struct tally *tally, const struct known *known, const struct job *job,
                      int64_t now_ms)
{
    const struct job_status *s = &job->status;
    tally->by_state[known->queue][s->state]++;
    if (s->state != REDRIVE_STATE_RUNNING)
        return;
    tally->slow_running += known->task == TASK_SLOW;
    if (s->permit.probe == 0 || s->lease_until_ms <= now_ms)
        return;
    if (s->permit.generation > tally->generation) {
        tally->generation = s->permit.generation;
        tally->probes = 0;
    }
    tally->probes += s->permit.generation == tally->generation;
}

static void check_keys(struct judge *judge)
{
    for (size_t i = 0; i < judge->n; i++)
        for (size_t k = i + 1; k < judge->n && judge->jobs[i].key[0] != '\0'; k++) {
            const struct known *a = &judge->jobs[i], *b = &judge->jobs[k];
            if (a->was_there && b->was_there && !has_ended(a->state) && !has_ended(b->state) &&
                strcmp(a->key, b->key) == 0)
                judge_complain(judge, 4, "%s and %s both hold the key %s", a->id, b->id, a->key);
        }
}

static bool may_be_gone(const struct known *known, int64_t now_ms)
{
    if (known->removed != IS_NOT)
        return true;
    if (!known->was_there)
        return known->submitted != IS_SURELY;
    const bool is_dead =
        known->state == REDRIVE_STATE_DEAD_LETTER || known->state == REDRIVE_STATE_FAILED;
    return has_ended(known->state) &&
           known->finished_ms + (is_dead ? DEAD_DAYS * DAY_MS : COMPLETED_MS) <= now_ms;
}

/* The jobs that have no row; those that may have none are forgotten. */
static void check_gone(struct judge *judge, const bool *seen, size_t n, int64_t now_ms)
{
    for (size_t i = n; i-- > 0;) {
        struct known *known = &judge->jobs[i];
        if (seen[i])
            continue;
        if (!may_be_gone(known, now_ms))
            judge_complain(judge, 1, "%s is lost; it was %s", known->id,
                           redrive_state_name(known->state));
        if (known->was_there && known->removed == IS_NOT && judge_is_needed(judge, known))
            judge_complain(judge, 15, "%s was removed by retention, but a live job needs it",
                           known->id);
        forget(judge, known);
    }
}

static void check_counts(struct judge *judge, struct store *eye, const struct tally *tally)
{
    struct count_page page = {0};
    size_t sums[2][REDRIVE_STATE_COUNT] = {0};
    if (store_ops(eye)->counts(eye, COUNT_QUEUES, (struct str){0}, &page, NULL) != 0)
        return;
    for (size_t i = 0; i < page.n; i++)
        for (int q = 0; q < 2; q++)
            for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
                if (str_is(page.counts[i].queue, QUEUE_NAMES[q]))
                    sums[q][s] += page.counts[i].by_state[s];
    count_page_release(&page);
    for (int q = 0; q < 2; q++)
        for (int s = 0; s < REDRIVE_STATE_COUNT; s++)
            if (sums[q][s] != tally->by_state[q][s])
                judge_complain(judge, s == REDRIVE_STATE_DEAD_LETTER ? 9 : 12,
                               "%zu jobs of %s are counted as %s, %zu are", sums[q][s],
                               QUEUE_NAMES[q], redrive_state_name((enum redrive_state)s),
                               tally->by_state[q][s]);
    if (store_ops(eye)->counts(eye, COUNT_RUNNING, (struct str){0}, &page, NULL) != 0)
        return;
    for (size_t i = 0; i < page.n; i++)
        if (page.counts[i].used != page.counts[i].jobs)
            judge_complain(judge, 12, "the limit %.*s counts %llu slots, %llu jobs run",
                           (int)page.counts[i].gate.len, page.counts[i].gate.ptr,
                           (unsigned long long)page.counts[i].used,
                           (unsigned long long)page.counts[i].jobs);
    count_page_release(&page);
}

/* Attempts that count are numbered from 1 in each epoch, without a gap, up to those of the row. */
static void check_history(struct judge *judge, struct store *eye, const struct known *known)
{
    struct attempt_page page = {0};
    uint32_t epoch = 0, last = 0;
    if (store_ops(eye)->history(eye, &known->seq, 1, &page, NULL) != 0)
        return;
    for (size_t i = 0; i < page.n; i++) {
        const struct job_attempt *a = &page.attempts[i];
        if (a->epoch != epoch)
            last = 0;
        epoch = a->epoch;
        if (a->number != 0 && a->number != last + 1)
            judge_complain(judge, 5, "attempt %u of %s follows %u", a->number, known->id, last);
        if (a->number != 0)
            last = a->number;
    }
    if (epoch != known->epoch)
        last = 0;
    if (last != known->attempts)
        judge_complain(judge, 5, "%s counts %u attempts, its history %u", known->id,
                       known->attempts, last);
    attempt_page_release(&page);
}

/* By its number first: names are long. */
static struct known *known_of(struct judge *judge, const struct job *job)
{
    struct known *known = judge_find_seq(judge, job->status.seq);
    return known && str_is(job->spec.id, known->id) ? known : judge_find(judge, job->spec.id);
}

void judge_look(struct judge *judge, struct store *eye, int64_t now_ms, bool thorough)
{
    static bool seen[JUDGE_JOBS_MAX];
    const struct job_filter all = {.limit = STORE_PAGE_MAX};
    const size_t n = judge->n;
    struct job_page page = {0};
    struct tally tally = {0};
    judge_time(judge, judge->latest_ms); /* it may have passed before the answers of this step */
    memset(seen, 0, n * sizeof *seen);
    if (store_ops(eye)->list(eye, &all, &page, NULL) != 0 || page.more) {
        judge_complain(judge, 1, "the rows cannot be read, or are too many");
        return;
    }
    for (size_t i = 0; i < page.n; i++) {
        struct known *known = known_of(judge, &page.jobs[i]);
        if (!known)
            known = judge_adopt(judge, &page.jobs[i]);
        if (!known) {
            judge_complain(judge, 2, "%.*s is there, but was never submitted",
                           (int)page.jobs[i].spec.id.len, page.jobs[i].spec.id.ptr);
            continue;
        }
        seen[known - judge->jobs] = true;
        check_row(judge, known, &page.jobs[i]);
        remember_row(known, &page.jobs[i], judge->latest_ms);
        count_row(&tally, known, &page.jobs[i], now_ms);
    }
    judge_edges(judge, eye, page.jobs, page.n);
    judge->latest_ms = now_ms;
    job_page_release(&page);
    check_gone(judge, seen, n, now_ms);
    for (size_t i = 0; i < judge->n; i++)
        judge->jobs[i].ends = 0;
    check_keys(judge);
    judge_crons(judge, eye, now_ms);
    if (tally.slow_running > SLOW_LIMIT)
        judge_complain(judge, 10, "%zu jobs run under a limit of %d", tally.slow_running,
                       SLOW_LIMIT);
    if (tally.probes > CALL_PROBES)
        judge_complain(judge, 10, "%zu probes run, %d may", tally.probes, CALL_PROBES);
    if (!thorough)
        return;
    check_counts(judge, eye, &tally);
    for (size_t i = 0; i < judge->n; i++)
        if (judge->jobs[i].was_there)
            check_history(judge, eye, &judge->jobs[i]);
}
