/* jobs.c - the jobs and rows of a tenant, from one shard to another. */
#include "engine/copy/tenant/jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "core/state.h"
#include "engine/copy/source.h"

/* Jobs that go over at a time: with payloads of the greatest size they still fit into memory. */
#define AT_ONCE REMADE_MAX

/* Rolls a transaction back that is made again without some of its jobs. */
#define MUST_LEAVE_SOME REDRIVE_E_NOT_FOUND

/* ---- Rows ------------------------------------------------------------------------------------ */

static const enum shared_kind KINDS[] = {SHARED_BREAKER, SHARED_LIMIT, SHARED_PAUSE, SHARED_CRON,
                                         SHARED_CANCEL};
#define N_KINDS (sizeof KINDS / sizeof KINDS[0])

static struct load load_of(const struct tenant_batch *b)
{
    return (struct load){.store = b->to->store,
                         .name = b->to->tenant,
                         .now_ms = b->to->now_ms,
                         .has_own_jobs = true};
}

static int put_rows(void *ctx, struct redrive_err *err)
{
    const struct tenant_batch *b = ctx;
    const struct load load = load_of(b);
    struct store *from = b->from->store;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < N_KINDS; i++) {
        struct shared_page page = {0};
        rc = store_ops(from)->shared_list(from, KINDS[i], b->from->tenant, &page, err);
        const struct record_batch batch = {(enum record_kind)KINDS[i], page.n, {.rows = page.rows}};
        if (rc == 0 && page.n > 0)
            rc = load_in(&load, &batch, NULL, err);
        shared_page_release(&page);
    }
    return rc;
}

int tenant_copy_rows(const struct tenant_batch *b, struct redrive_err *err)
{
    return tenant_shard_move(b->to, put_rows, (void *)b, err);
}

struct key_batch {
    const struct tenant_batch *batch;
    struct record_batch keys;
};

static int put_keys(void *ctx, struct redrive_err *err)
{
    const struct key_batch *k = ctx;
    const struct load load = load_of(k->batch);
    return load_in(&load, &k->keys, NULL, err);
}

int tenant_copy_keys(const struct tenant_batch *b, struct redrive_err *err)
{
    struct key_batch put = {.batch = b};
    struct key_walk walk;
    int rc;
    key_walk_init(&walk, b->from->store, b->from->tenant);
    while ((rc = key_walk_batch(&walk, &put.keys, err)) > 0) {
        rc = tenant_shard_move(b->to, put_keys, &put, err);
        if (rc < 0)
            break;
    }
    key_walk_release(&walk);
    return rc;
}

/* A limit whose slots seem to be in use stays: it does no harm. */
int tenant_drop_rows(void *ctx, struct redrive_err *err)
{
    const struct tenant_shard *shard = ctx;
    const struct store_ops *ops = store_ops(shard->store);
    const struct str held = STR(TENANT_HELD);
    int rc = 0;
    for (size_t k = 0; rc == 0 && k <= N_KINDS; k++) {
        const enum shared_kind kind = k < N_KINDS ? KINDS[k] : SHARED_TENANT;
        struct shared_page page = {0};
        rc = ops->shared_list(shard->store, kind, shard->tenant, &page, err);
        for (size_t i = 0; rc == 0 && i < page.n; i++) {
            const struct shared_row *row = &page.rows[i];
            struct shared_row gone = {.kind = kind,
                                      .tenant = row->tenant,
                                      .key = row->key,
                                      .version = row->version,
                                      .removed = true};
            struct move_result result;
            if (kind != SHARED_TENANT || str_starts_with(row->key, held))
                rc = ops->shared_put(shard->store, &gone, 1, &result, err);
        }
        shared_page_release(&page);
    }
    return rc;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

/* Jobs of one page of the old shard, and what both shards have of them. */
struct going {
    struct job_page page;   /* of the old shard */
    struct job_page copies; /* of the new one, in the same order, those that are there */
    struct job_name names[AT_ONCE];
    const struct job *jobs[AT_ONCE];
    const struct job *copied[AT_ONCE]; /* NULL: not there */
    bool is_lone[AT_ONCE];             /* the one of the old shard waits for a job of the new one */
    bool is_good[AT_ONCE];             /* the copy need not be made again */
    bool is_left[AT_ONCE];             /* it cannot be made again: what is there stays */
    size_t n;
};

static void going_release(struct going *g)
{
    if (!g)
        return;
    job_page_release(&g->page);
    job_page_release(&g->copies);
    free(g);
}

static bool is_paused(const struct shared_page *pauses, struct str queue)
{
    for (size_t i = 0; i < pauses->n; i++)
        if (str_eq(pauses->rows[i].key, queue))
            return true;
    return false;
}

/* Those of a page that can go: they do not run, and the new shard holds their queue. */
static void choose_jobs(struct going *g, const struct shared_page *pauses)
{
    for (size_t i = 0; i < g->page.n; i++) {
        const struct job *job = &g->page.jobs[i];
        if (job->status.state == REDRIVE_STATE_RUNNING || !is_paused(pauses, job->spec.queue))
            continue;
        g->names[g->n] = job_name_of(job);
        g->jobs[g->n++] = job;
    }
}

/* Whether a copy is as good as the job. Both shards move a live job on as time passes: it may be
 * due on one, and not yet on the other. */
static bool is_as_good(const struct job_status *job, const struct job_status *copy)
{
    if (job->state == REDRIVE_STATE_RUNNING || job->attempts != copy->attempts ||
        job->epoch != copy->epoch || state_has_ended(job->state) != state_has_ended(copy->state))
        return false;
    return !state_has_ended(job->state) ||
           (job->state == copy->state && job->finished_ms == copy->finished_ms);
}

/* Whether a job waits for one that is not on its shard, or would if it were redriven. */
static int is_orphan(struct store *store, const struct job_status *child, bool *ret,
                     struct redrive_err *err)
{
    struct edge_page edges = {0};
    *ret = false;
    if (child->open_parents == 0)
        return 0;
    int rc = store_ops(store)->edges(store, EDGES_FROM_PARENTS, &child->seq, 1, &edges, err);
    for (size_t i = 0; rc == 0 && i < edges.n && !*ret; i++) {
        struct job_page parent = {0};
        if (edges.edges[i].outcome == AFTER_OPEN) {
            rc = store_ops(store)->find(store, &edges.edges[i].parent, 1, &parent, err);
            *ret = rc == 0 && parent.n == 0 && parent.n_unreadable == 0;
        }
        job_page_release(&parent);
    }
    edge_page_release(&edges);
    return rc;
}

/* A job of the old shard that waits for one which was taken from there would wait for ever: the one
 * on the new shard is better, since it knows what it waits for. Else, on the way back, each job of
 * the old shard is as it must be. */
static int judge_copies(const struct tenant_batch *b, struct going *g, struct redrive_err *err)
{
    struct store *old = b->is_back ? b->to->store : b->from->store;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < g->n; i++) {
        const struct job_status *job = &g->jobs[i]->status;
        const struct job_status *copy = g->copied[i] ? &g->copied[i]->status : NULL;
        if (!copy)
            continue;
        g->is_good[i] = b->is_back || is_as_good(job, copy);
        if (!g->is_good[i] || b->is_back)
            rc = is_orphan(old, b->is_back ? copy : job, &g->is_lone[i], err);
        if (g->is_lone[i])
            g->is_good[i] = !b->is_back;
    }
    return rc;
}

static int read_going(const struct tenant_batch *b, int64_t after_seq, struct going *g,
                      struct redrive_err *err)
{
    struct store *from = b->from->store, *to = b->to->store;
    const struct job_filter filter = {
        .tenant = b->from->tenant, .after_seq = after_seq, .limit = AT_ONCE};
    struct shared_page pauses = {0};
    size_t at = 0;
    int rc = store_ops(from)->list(from, &filter, &g->page, err);
    if (rc == 0)
        rc = store_ops(to)->shared_list(to, SHARED_PAUSE, b->to->tenant, &pauses, err);
    if (rc == 0)
        choose_jobs(g, &pauses);
    shared_page_release(&pauses);
    if (rc == 0 && g->n > 0)
        rc = store_ops(to)->lookup(to, g->names, g->n, &g->copies, err);
    for (size_t i = 0; rc == 0 && i < g->n && at < g->copies.n; i++)
        if (str_eq(g->copies.jobs[at].spec.id, g->names[i].id))
            g->copied[i] = &g->copies.jobs[at++];
    return rc == 0 ? judge_copies(b, g, err) : rc;
}

/* Takes jobs away from a store, whatever state they are in: those whose copy is as good, or those
 * that are not, on the side of the copies. */
struct taking {
    const struct tenant_batch *batch;
    struct store *store;
    const struct going *going;
    bool takes_copies;
    uint64_t taken;
};

static bool is_taken(const struct taking *t, size_t i, const struct job_status *status)
{
    const struct going *g = t->going;
    if (!g->copied[i] || status->state == REDRIVE_STATE_RUNNING)
        return false;
    if (t->takes_copies)
        return !g->is_good[i] && !g->is_left[i];
    return t->batch->is_back ? g->is_good[i]
                             : g->is_lone[i] || is_as_good(status, &g->copied[i]->status);
}

/* What is read in the transaction is what the moves rely on. */
static size_t list_changes(const struct taking *t, const struct job_page *page,
                           struct change_move *ret)
{
    size_t n = 0, at = 0;
    for (size_t i = 0; i < t->going->n && at < page->n; i++) {
        if (!str_eq(page->jobs[at].spec.id, t->going->names[i].id))
            continue;
        const struct job_status *status = &page->jobs[at++].status;
        if (!is_taken(t, i, status))
            continue;
        if (!state_has_ended(status->state))
            ret[n++] =
                (struct change_move){.seq = status->seq, .kind = MOVE_CANCEL, .seen = status};
        ret[n++] = (struct change_move){.seq = status->seq, .kind = MOVE_REMOVE};
    }
    return n;
}

static int take_away(void *ctx, struct redrive_err *err)
{
    struct taking *t = ctx;
    struct change_move changes[2 * AT_ONCE];
    struct move_result results[2 * AT_ONCE];
    struct job_page page = {0};
    int rc = store_ops(t->store)->lookup(t->store, t->going->names, t->going->n, &page, err);
    const size_t n = rc == 0 ? list_changes(t, &page, changes) : 0;
    t->taken = 0;
    if (n > 0)
        rc = store_ops(t->store)->move(t->store, CHANGES(changes, n), results, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (results[i].code != 0)
            rc = err_set(err, REDRIVE_E_CANCELLED, "a job has changed meanwhile");
        t->taken += changes[i].kind == MOVE_REMOVE;
    }
    job_page_release(&page);
    return rc;
}

/* Puts jobs into the new shard: those that it has not, or not as they are. */
struct putting {
    const struct tenant_batch *batch;
    struct going *going;
    struct job_set *set; /* those jobs, as the old shard has them */
    struct imported_job jobs[AT_ONCE];
    size_t at[AT_ONCE]; /* their places in `going` */
    size_t n;
    struct load_refusals refusals;
};

static int read_set(struct putting *p, struct redrive_err *err)
{
    const struct going *g = p->going;
    struct imported_job jobs[AT_ONCE];
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++)
        if (!g->is_good[i])
            jobs[n++] = (struct imported_job){.job = g->jobs[i]};
    int rc = n > 0 ? job_set_lookup(p->set, p->batch->from->store, jobs, n, err) : 0;
    for (size_t i = 0; rc == 0 && i < g->n && p->n < p->set->n; i++)
        if (str_eq(p->set->jobs[p->n].job->spec.id, g->names[i].id)) {
            p->jobs[p->n] = p->set->jobs[p->n];
            p->at[p->n++] = i;
        }
    return rc;
}

/* The jobs of the new shard that wait for a copy keep waiting for the one that replaces it. */
static int reattach(const struct putting *p, struct redrive_err *err)
{
    struct store *store = p->batch->to->store;
    const struct going *g = p->going;
    struct remade_job remade[AT_ONCE];
    struct job_page page = {0};
    size_t n = 0, at = 0;
    int rc = store_ops(store)->lookup(store, g->names, g->n, &page, err);
    for (size_t i = 0; rc == 0 && i < g->n && at < page.n; i++) {
        if (!str_eq(page.jobs[at].spec.id, g->names[i].id))
            continue;
        const struct job *job = &page.jobs[at++];
        if (g->copied[i] && g->copied[i]->status.children > 0 &&
            g->copied[i]->status.seq != job->status.seq)
            remade[n++] =
                (struct remade_job){g->copied[i]->status.seq, job->status.seq, job->spec.id};
    }
    if (rc == 0)
        rc = tenant_reattach(store, remade, n, err);
    job_page_release(&page);
    return rc;
}

/* The first one is told, rather one that is refused for what it is than one that waits for it. */
static void note_refusal(const struct putting *p, size_t i)
{
    struct tenant_refusals *r = p->batch->refusals;
    const struct job_spec *spec = &p->jobs[i].job->spec;
    const char *shard = p->batch->is_back ? "old" : "new";
    const int code = p->refusals.codes[i];
    const bool is_orphan = code == REDRIVE_E_NOT_FOUND;
    if (!r)
        return;
    const bool is_told = r->n++ == 0 || (!is_orphan && !r->has_cause);
    if (!is_told)
        return;
    r->has_cause = !is_orphan;
    r->first = (struct redrive_err){0};
    err_set(&r->first, REDRIVE_E_STATE, "the %s shard refuses job '%.*s': %s", shard,
            SHOWN(spec->id),
            is_orphan ? "it waits for one that is not there" : redrive_err_text(code));
    if (is_orphan)
        err_detail(&r->first, "%s", p->refusals.orphan.message);
    else if (code == REDRIVE_E_EXISTS && spec->unique_key.len > 0)
        err_detail(&r->first, "unique key %.*s", SHOWN(spec->unique_key));
    err_hint(&r->first, "the tenant is held: the same command goes on when the new shard takes the "
                        "job; --back instead of --to takes the move back");
}

/* A job that waits for one which is not there is taken back, and so is one that has a copy: jobs
 * may wait for that, which was removed for this one. */
static bool is_left_out(const struct putting *p, size_t i)
{
    const int code = p->refusals.codes[i];
    return code == REDRIVE_E_NOT_FOUND || (code != 0 && p->going->copied[p->at[i]]);
}

static bool must_leave_some(const struct putting *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (is_left_out(p, i))
            return true;
    return false;
}

/* One transaction: an interruption must not leave jobs that wait for a copy which is gone. */
static int put_set(void *ctx, struct redrive_err *err)
{
    struct putting *p = ctx;
    const struct load load = load_of(p->batch);
    const struct record_batch batch = {RECORD_JOB, p->n, {.jobs = p->jobs}};
    struct taking drop = {
        .batch = p->batch, .store = p->batch->to->store, .going = p->going, .takes_copies = true};
    p->refusals = (struct load_refusals){0};
    int rc = take_away(&drop, err);
    if (rc == 0 && p->n > 0)
        rc = load_in(&load, &batch, &p->refusals, err);
    if (rc == 0 && must_leave_some(p))
        return MUST_LEAVE_SOME;
    return rc == 0 && drop.taken > 0 ? reattach(p, err) : rc;
}

/* Those that were refused are told, and those that cannot be put are left out. */
static void leave_out(struct putting *p)
{
    size_t n = 0;
    const bool is_again = must_leave_some(p);
    for (size_t i = 0; i < p->n; i++) {
        const int code = p->refusals.codes[i];
        if (is_again ? is_left_out(p, i) : code != 0)
            note_refusal(p, i);
        if (is_left_out(p, i)) {
            p->going->is_left[p->at[i]] = code != REDRIVE_E_NOT_FOUND || !p->batch->drops_orphans;
            continue;
        }
        p->jobs[n] = p->jobs[i];
        p->at[n++] = p->at[i];
    }
    p->n = n;
    p->refusals = (struct load_refusals){0};
}

static int put_all(struct putting *p, struct redrive_err *err)
{
    int rc = read_set(p, err);
    for (bool is_done = p->n == 0; rc == 0 && !is_done;) {
        rc = tenant_shard_move(p->batch->to, put_set, p, err);
        is_done = rc != MUST_LEAVE_SOME || !must_leave_some(p);
        rc = is_done ? rc : 0;
        if (rc == 0)
            leave_out(p);
    }
    return rc;
}

static int copy_going(const struct tenant_batch *b, struct going *g, struct redrive_err *err)
{
    struct putting *p = calloc(1, sizeof *p);
    struct job_set *set = job_set_new();
    int rc;
    if (p && set) {
        p->batch = b;
        p->going = g;
        p->set = set;
        rc = put_all(p, err);
    } else {
        rc = err_nomem(err);
    }
    job_set_free(set);
    free(p);
    return rc;
}

static int take_going(const struct tenant_batch *b, const struct going *g, uint64_t *ret_moved,
                      struct redrive_err *err)
{
    struct taking take = {.batch = b, .store = b->from->store, .going = g};
    int rc = tenant_shard_move(b->from, take_away, &take, err);
    *ret_moved = rc == 0 ? take.taken : 0;
    return rc;
}

int tenant_move_batch(const struct tenant_batch *b, bool takes, int64_t *after_seq,
                      uint64_t *ret_moved, uint64_t *ret_kept, struct redrive_err *err)
{
    struct going *g = calloc(1, sizeof *g);
    if (!g)
        return err_nomem(err);
    int rc = read_going(b, *after_seq, g, err);
    *ret_moved = *ret_kept = 0;
    if (rc == 0 && g->n > 0)
        rc = takes ? take_going(b, g, ret_moved, err) : copy_going(b, g, err);
    if (rc == 0) {
        if (b->refusals)
            b->refusals->skipped += g->page.n - g->n;
        *ret_kept = g->page.n - *ret_moved;
        *after_seq = g->page.more && g->page.n > 0 ? g->page.jobs[g->page.n - 1].status.seq : -1;
    }
    going_release(g);
    return rc;
}
