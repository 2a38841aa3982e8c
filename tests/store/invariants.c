#include "invariants.h"

#include "base/rng.h"
#include "check.h"
#include "core/state.h"

/* ---- Watching -------------------------------------------------------------------------------- */

static struct invariants *watching(struct store *store)
{
    return (struct invariants *)(void *)store;
}

#define EACH(v, l) for (struct ledger *l = (v)->transaction; l < (v)->transaction + (v)->n; l++)

#define INNER(v, slot, ...) store_ops((v)->wrap.inner)->slot((v)->wrap.inner, __VA_ARGS__)

static int begin(struct store *store, int64_t now_ms, int64_t *ret_now_ms,
                 int64_t *ret_shared_version, struct redrive_err *err)
{
    struct invariants *v = watching(store);
    memcpy(v->transaction, v->committed, sizeof v->transaction);
    return INNER(v, begin, now_ms, ret_now_ms, ret_shared_version, err);
}

static int commit(struct store *store, struct redrive_err *err)
{
    struct invariants *v = watching(store);
    int rc = INNER(v, commit, err);
    if (rc == 0) {
        memcpy(v->committed, v->transaction, sizeof v->committed);
    } else if (rc == REDRIVE_E_IO) {
        /* The tests meet at most one such commit whose effect is in doubt. */
        assert_int_equal(v->n, 1);
        v->committed[1] = v->transaction[0];
        v->n = 2;
    }
    return rc;
}

static int submit(struct store *store, const struct job_spec *specs, size_t n,
                  struct submit_result *ret, struct arena *arena, struct redrive_err *err)
{
    struct invariants *v = watching(store);
    int rc = INNER(v, submit, specs, n, ret, arena, err);
    for (size_t i = 0; rc == 0 && i < n; i++)
        EACH(v, l)
    ledger_submit(l, &specs[i], &ret[i]);
    return rc;
}

static int move(struct store *store, const struct move_list *list, struct move_result *ret,
                struct redrive_err *err)
{
    struct invariants *v = watching(store);
    int rc = INNER(v, move, list, ret, err);
    for (size_t i = 0; rc == 0 && i < list->n; i++) {
        const struct move made = move_at(list, i);
        EACH(v, l)
        ledger_move(l, &made, &ret[i]);
    }
    return rc;
}

void invariants_init(struct invariants *v, struct store *inner)
{
    memset(v, 0, sizeof *v);
    v->n = 1;
    wrap_init(&v->wrap, inner);
    v->wrap.ops.begin = begin;
    v->wrap.ops.commit = commit;
    v->wrap.ops.submit = submit;
    v->wrap.ops.move = move;
}

/* ---- Checking -------------------------------------------------------------------------------- */

static void check_lease(struct ledger *l, const struct job *job)
{
    const struct job_status *s = &job->status;
    bool runs = s->state == REDRIVE_STATE_RUNNING;
    if (runs != (s->token != 0) || runs != (s->lease_until_ms != 0))
        ledger_violated(l, 7, "%.*s is %s, its token is %llu", (int)job->spec.id.len,
                        job->spec.id.ptr, redrive_state_name(s->state),
                        (unsigned long long)s->token);
    if (state_has_ended(s->state) != (s->finished_ms != 0))
        ledger_violated(l, 3, "%.*s is %s, and ended at %lld", (int)job->spec.id.len,
                        job->spec.id.ptr, redrive_state_name(s->state), (long long)s->finished_ms);
}

/* Attempts that count are numbered from 1 in each epoch, without a gap. */
static void check_history(struct ledger *l, struct store *store, const struct job *job)
{
    struct attempt_page page = {0};
    uint32_t epoch = 0, last = 0;
    assert_int_equal(store_ops(store)->history(store, &job->status.seq, 1, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++) {
        const struct job_attempt *a = &page.attempts[i];
        if (a->epoch != epoch)
            last = 0;
        epoch = a->epoch;
        if (a->number != 0 && a->number != last + 1)
            ledger_violated(l, 5, "attempt %u of %.*s follows %u", a->number, (int)job->spec.id.len,
                            job->spec.id.ptr, last);
        if (a->number != 0)
            last = a->number;
    }
    if (epoch != job->status.epoch)
        last = 0;
    if (last != job->status.attempts)
        ledger_violated(l, 5, "%.*s counts %u attempts, its history %u", (int)job->spec.id.len,
                        job->spec.id.ptr, job->status.attempts, last);
    attempt_page_release(&page);
}

static enum redrive_state coarse(enum redrive_state state)
{
    return state == REDRIVE_STATE_SCHEDULED || state == REDRIVE_STATE_RETRYING
               ? REDRIVE_STATE_QUEUED
               : state;
}

/* Which invariant is broken when a job is not in the state that was acknowledged. */
static int invariant_of(enum redrive_state acknowledged, enum redrive_state is)
{
    if ((acknowledged == REDRIVE_STATE_DEAD_LETTER) != (is == REDRIVE_STATE_DEAD_LETTER))
        return state_has_ended(acknowledged) && !state_has_ended(is) ? 3 : 9;
    return state_has_ended(acknowledged) ? 3 : 1;
}

static void check_row(struct ledger *l, const struct job *job)
{
    const struct job_status *s = &job->status;
    const struct ledger_job *known = ledger_find(l, s->seq);
    int id_len = (int)job->spec.id.len;
    const char *id = job->spec.id.ptr;
    if (!known || known->gone || !str_is(job->spec.id, known->id)) {
        ledger_violated(l, 2, "nobody submitted %.*s, or it was removed", id_len, id);
        return;
    }
    if (rng_hash(job->spec.payload.ptr, job->spec.payload.len, 0) != known->payload_hash)
        ledger_violated(l, 2, "%.*s has another payload", id_len, id);
    if (coarse(s->state) != known->state)
        ledger_violated(l, invariant_of(known->state, s->state), "%.*s is %s, but was %s", id_len,
                        id, redrive_state_name(s->state), redrive_state_name(known->state));
    if (s->attempts != known->attempts || s->epoch != known->epoch)
        ledger_violated(l, 5, "%.*s has %u attempts in epoch %u, but had %u in %u", id_len, id,
                        s->attempts, s->epoch, known->attempts, known->epoch);
    if (s->token != known->token)
        ledger_violated(l, 8, "%.*s has another lease", id_len, id);
}

static void check_keys(struct ledger *l, const struct job *jobs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (jobs[i].spec.unique_key.len > 0 && !state_has_ended(jobs[i].status.state) &&
                !state_has_ended(jobs[j].status.state) &&
                str_eq(jobs[i].spec.unique_key, jobs[j].spec.unique_key) &&
                str_eq(jobs[i].spec.tenant, jobs[j].spec.tenant))
                ledger_violated(l, 4, "two live jobs hold the key %.*s",
                                (int)jobs[i].spec.unique_key.len, jobs[i].spec.unique_key.ptr);
}

static void check_nothing_lost(struct ledger *l, const struct job *jobs, size_t n)
{
    for (size_t i = 0; i < l->n; i++) {
        bool found = l->jobs[i].gone;
        for (size_t j = 0; j < n && !found; j++)
            found = jobs[j].status.seq == l->jobs[i].seq;
        if (!found)
            ledger_violated(l, 1, "%s is lost", l->jobs[i].id);
    }
}

/* The dead letters, asked for in three ways. */
static void check_dead_letters(struct ledger *l, struct store *store, const struct job *jobs,
                               size_t n)
{
    const struct job_filter filter = {.states = 1u << REDRIVE_STATE_DEAD_LETTER,
                                      .limit = STORE_PAGE_MAX};
    struct job_page page = {0};
    struct count_page queues = {0};
    size_t dead = 0, counted = 0;
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    assert_int_equal(store_ops(store)->counts(store, COUNT_QUEUES, (struct str){0}, &queues, NULL),
                     0);
    for (size_t i = 0; i < n; i++)
        dead += jobs[i].status.state == REDRIVE_STATE_DEAD_LETTER;
    for (size_t i = 0; i < queues.n; i++)
        counted += queues.counts[i].by_state[REDRIVE_STATE_DEAD_LETTER];
    if (page.n != dead || counted != dead)
        ledger_violated(l, 9, "%zu jobs are dead, %zu are listed, %zu counted", dead, page.n,
                        counted);
    job_page_release(&page);
    count_page_release(&queues);
}

static struct violation check_one(struct ledger l, struct store *store)
{
    const struct job_filter all = {.limit = STORE_PAGE_MAX};
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->list(store, &all, &page, NULL), 0);
    assert_false(page.more);
    check_nothing_lost(&l, page.jobs, page.n);
    check_keys(&l, page.jobs, page.n);
    for (size_t i = 0; i < page.n; i++) {
        check_row(&l, &page.jobs[i]);
        check_lease(&l, &page.jobs[i]);
        check_history(&l, store, &page.jobs[i]);
    }
    check_dead_letters(&l, store, page.jobs, page.n);
    job_page_release(&page);
    return l.violation;
}

struct violation invariants_check(const struct invariants *v, struct store *store)
{
    struct violation first = check_one(v->committed[0], store);
    if (first.invariant == 0 || v->n == 1)
        return first;
    struct violation second = check_one(v->committed[1], store);
    return second.invariant == 0 ? second : first;
}
