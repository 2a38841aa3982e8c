/* move.c - moves one tenant from one shard to another. */
#include "engine/copy/tenant/move.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/rng.h"
#include "base/time/clock.h"
#include "engine/copy/load.h"
#include "engine/copy/tenant/jobs.h"

#define LOOK_MS 100

/* ---- Holding --------------------------------------------------------------------------------- */

/* One call. */
struct pass {
    struct tenant_move *move;
    bool is_begun; /* by a call before this one, which may have copied jobs */
    struct tenant_shard shards[SHARDS_MAX];
};

static struct tenant_shard *old_shard(struct pass *p)
{
    return &p->shards[p->move->from];
}

static struct tenant_shard *new_shard(struct pass *p)
{
    return &p->shards[p->move->to];
}

static bool has_row(const struct shared_page *page, struct str key)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->rows[i].key, key))
            return true;
    return false;
}

static int hold_queue(const struct tenant_shard *shard, struct str queue, struct redrive_err *err)
{
    char held[512], since[48];
    const int n = snprintf(held, sizeof held, TENANT_HELD "%.*s", (int)queue.len, queue.ptr);
    if (n < 0 || (size_t)n >= sizeof held)
        return err_set(err, REDRIVE_E_TOO_BIG, "the name of a queue is too long");
    (void)snprintf(since, sizeof since, "{\"since_ms\":%" PRId64 "}", clock_wall_ms());
    int rc = tenant_row_put(shard->store, SHARED_PAUSE, shard->tenant, queue, str_of(since), err);
    return rc < 0 ? rc
                  : tenant_row_put(shard->store, SHARED_TENANT, shard->tenant, str_of(held),
                                   STR("{}"), err);
}

/* Pauses all queues of the tenant on the old shard that are not paused, and notes which. */
static int hold_queues(void *ctx, struct redrive_err *err)
{
    struct pass *p = ctx;
    const struct tenant_shard *shard = old_shard(p);
    const struct store_ops *ops = store_ops(shard->store);
    struct count_page queues = {0};
    struct shared_page pauses = {0};
    int rc = ops->counts(shard->store, COUNT_QUEUES, shard->tenant, &queues, err);
    if (rc == 0)
        rc = ops->shared_list(shard->store, SHARED_PAUSE, shard->tenant, &pauses, err);
    p->move->running = 0;
    for (size_t i = 0; rc == 0 && i < queues.n; i++) {
        p->move->running += queues.counts[i].by_state[REDRIVE_STATE_RUNNING];
        if (!has_row(&pauses, queues.counts[i].queue))
            rc = hold_queue(shard, queues.counts[i].queue, err);
    }
    shared_page_release(&pauses);
    count_page_release(&queues);
    return rc;
}

/* Lets go on one shard of what is held, as the rows of the old one say. */
static int let_go(struct pass *p, const struct tenant_shard *shard, struct redrive_err *err)
{
    const struct str prefix = STR(TENANT_HELD), tenant = shard->tenant;
    struct store *held_by = old_shard(p)->store;
    struct shared_page rows = {0};
    int rc = store_ops(held_by)->shared_list(held_by, SHARED_TENANT, tenant, &rows, err);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct str key = rows.rows[i].key;
        if (!str_starts_with(key, prefix))
            continue;
        const struct str queue = {key.ptr + prefix.len, key.len - prefix.len};
        rc = tenant_row_put(shard->store, SHARED_PAUSE, tenant, queue, (struct str){0}, err);
        if (rc == 0 && shard->store == held_by)
            rc = tenant_row_put(held_by, SHARED_TENANT, tenant, key, (struct str){0}, err);
    }
    shared_page_release(&rows);
    return rc;
}

static int let_go_on_old(void *ctx, struct redrive_err *err)
{
    return let_go(ctx, old_shard(ctx), err);
}

static int let_go_on_new(void *ctx, struct redrive_err *err)
{
    return let_go(ctx, new_shard(ctx), err);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static int step(const struct tenant_move *m, const char *name, struct redrive_err *err)
{
    if (!m->progress || m->progress(m->ctx, name, m->moved))
        return 0;
    err_set(err, REDRIVE_E_CANCELLED, "interrupted");
    err_hint(err, "the tenant is held: the same command goes on with the rest; --back instead of "
                  "--to takes the move back");
    return REDRIVE_E_CANCELLED;
}

static void rest_ms(int64_t ms)
{
    (void)poll(NULL, 0, (int)ms);
}

static int64_t known_ms(const struct tenant_move *m)
{
    return m->known_ms > 0 ? m->known_ms : TENANT_KNOWN_MS;
}

/* The new shard lets go of the tenant. */
static int close_new(struct pass *p, struct redrive_err *err)
{
    const struct tenant_place left = {.phase = TENANT_LEFT, .shard = p->move->from};
    return tenant_shard_put(new_shard(p), &left, NULL, NULL, err);
}

/* The tenant goes on where it was: the new shard says so already. The row stays, also on the shard
 * of the name: a call that has found none there before, and was frozen since, is refused. */
static int release_on_old(struct pass *p, struct redrive_err *err)
{
    const struct tenant_place here = {.phase = TENANT_HERE, .shard = p->move->from};
    return tenant_shard_put(old_shard(p), &here, let_go_on_old, p, err);
}

/* One of the jobs that run, for people. */
static void name_running(const struct tenant_move *m, struct redrive_err *err)
{
    struct store *store = m->stores[m->from];
    const struct job_filter filter = {
        .tenant = m->tenant, .states = 1u << REDRIVE_STATE_RUNNING, .limit = 1};
    struct job_page page = {0};
    if (store_ops(store)->list(store, &filter, &page, NULL) == 0 && page.n > 0)
        err_detail(err, "job '%.*s' on worker '%.*s' is one of them", SHOWN(page.jobs[0].spec.id),
                   SHOWN(page.jobs[0].status.worker));
    job_page_release(&page);
}

/* The time for jobs that run is over. In a move that has only begun its first steps are taken back;
 * in one that goes on, jobs may be on the new shard. */
static int stop_waiting(struct pass *p, bool can_give_up, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    int rc = can_give_up ? close_new(p, err) : 0;
    if (rc == 0 && can_give_up)
        rc = release_on_old(p, err);
    if (rc < 0)
        return rc;
    err_set(err, REDRIVE_E_STATE, "jobs of the tenant still run: %" PRIu64, m->running);
    name_running(m, err);
    err_hint(err, can_give_up
                      ? "nothing was moved; wait longer (--wait), or move it when they have ended"
                      : "the tenant is held: the same command waits again (--wait); --back instead "
                        "of --to takes the move back");
    return REDRIVE_E_STATE;
}

static int hold_on_old(struct pass *p, enum tenant_phase phase, struct redrive_err *err)
{
    const struct tenant_place place = {.phase = phase, .shard = p->move->to};
    return tenant_shard_put(old_shard(p), &place, hold_queues, p, err);
}

/* Engines that have not looked yet may still let jobs in, and start some. */
static int wait_for_running(struct pass *p, bool can_give_up, struct redrive_err *err)
{
    const int64_t begun_ms = clock_monotonic_ms();
    int rc = 0;
    do {
        rest_ms(known_ms(p->move) < LOOK_MS ? known_ms(p->move) : LOOK_MS);
        rc = step(p->move, "wait", err);
        if (rc == 0)
            rc = hold_on_old(p, TENANT_LEAVING, err);
        const int64_t waited_ms = clock_monotonic_ms() - begun_ms;
        if (rc == 0 && p->move->running == 0 && waited_ms >= known_ms(p->move))
            return 0;
        if (rc == 0 && waited_ms > p->move->wait_ms + known_ms(p->move))
            return stop_waiting(p, can_give_up, err);
    } while (rc == 0);
    return rc;
}

/* What a move from the new shard may have left there does not concern this one. Copies that an
 * interrupted call has made stay held. */
static int arrive(struct pass *p, struct redrive_err *err)
{
    struct tenant_shard *shard = new_shard(p);
    const struct tenant_place place = {.phase = TENANT_ARRIVING, .shard = p->move->from};
    const bool goes_on =
        tenant_shard_says(shard, TENANT_ARRIVING) && shard->place.shard == p->move->from;
    p->is_begun |= goes_on;
    return tenant_shard_put(shard, &place, goes_on ? NULL : tenant_drop_rows, shard, err);
}

/* Holds the tenant on the old shard and puts the row of the new one. That row was read before: if
 * another call has put it since, it is read again, and counts if this call holds the tenant still.
 * For a call that takes over puts both rows, so that none has gone on with the tenant or has ended
 * the move before the row was read. */
static int hold_on_both(struct pass *p, enum tenant_phase phase, const char *name,
                        int (*put_new)(struct pass *p, struct redrive_err *err),
                        struct redrive_err *err)
{
    int rc = hold_on_old(p, phase, err);
    while (rc == 0) {
        rc = step(p->move, name, err);
        if (rc == 0)
            rc = put_new(p, err);
        if (rc != REDRIVE_E_STATE)
            return rc;
        if (err)
            *err = (struct redrive_err){0};
        rc = tenant_shard_read(new_shard(p), err);
        if (rc == 0)
            rc = hold_on_old(p, phase, err);
    }
    return rc;
}

static int begin_move(struct pass *p, struct redrive_err *err)
{
    int rc = step(p->move, "leave", err);
    if (rc == 0)
        rc = hold_on_both(p, TENANT_LEAVING, "arrive", arrive, err);
    return rc < 0 ? rc : wait_for_running(p, !p->is_begun, err);
}

static int move_all(struct pass *p, const struct tenant_batch *batch, bool takes,
                    uint64_t *ret_kept, struct redrive_err *err)
{
    int rc = 0;
    *ret_kept = 0;
    for (int64_t after_seq = 0; rc == 0 && after_seq >= 0;) {
        uint64_t moved = 0, kept = 0;
        rc = step(p->move, takes ? "take" : "copy", err);
        if (rc == 0)
            rc = tenant_move_batch(batch, takes, &after_seq, &moved, &kept, err);
        p->move->moved += moved;
        *ret_kept += kept;
    }
    return rc;
}

/* Puts all jobs into the new shard. A job may be refused because of a copy that is not as good any
 * more, and is made again after it, or of a job that it waits for, and that comes after it: so all
 * are tried twice, and until as many are refused as before. */
static int copy_jobs(struct pass *p, struct tenant_batch *batch, struct tenant_refusals *ret,
                     struct redrive_err *err)
{
    uint64_t before, left;
    int rc, tries = 0;
    *ret = (struct tenant_refusals){0};
    batch->refusals = ret;
    do {
        before = ret->n;
        *ret = (struct tenant_refusals){0};
        rc = move_all(p, batch, false, &left, err);
    } while (rc == 0 && ret->n > 0 && (tries++ == 0 || ret->n != before));
    batch->refusals = NULL;
    return rc;
}

/* Nothing is taken from the old shard while a job is refused, which may be one that waits for
 * others. A job that waits for one which runs again is tried in the next round. */
static int copy_and_take(struct pass *p, struct tenant_batch *batch, uint64_t *ret_left,
                         struct redrive_err *err)
{
    struct tenant_refusals refusals;
    int rc = copy_jobs(p, batch, &refusals, err);
    *ret_left = refusals.n;
    if (rc < 0)
        return rc;
    if (refusals.n == 0)
        return move_all(p, batch, true, ret_left, err);
    if (!refusals.has_cause && refusals.skipped > 0)
        return 0;
    if (err)
        *err = refusals.first;
    return refusals.first.code;
}

/* Until none is left. One that was not as it had been read is moved in the next round. */
static int move_jobs(struct pass *p, struct tenant_batch *batch, struct redrive_err *err)
{
    int rc = 0;
    for (uint64_t left = 1; rc == 0 && left > 0;) {
        rc = hold_on_old(p, TENANT_LEAVING, err);
        if (rc == 0)
            rc = tenant_copy_rows(batch, err);
        if (rc == 0)
            rc = copy_and_take(p, batch, &left, err);
        if (rc == 0 && left > 0)
            rc = wait_for_running(p, false, err);
    }
    return rc;
}

static int leave(struct pass *p, const struct tenant_batch *batch, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    const size_t home = shard_of_tenant(m->tenant, m->n_hashed);
    const struct tenant_place gone = {.phase = TENANT_LEFT, .shard = m->to};
    int rc = step(m, "keys", err);
    if (rc == 0)
        rc = tenant_copy_rows(batch, err);
    if (rc == 0)
        rc = tenant_copy_keys(batch, err);
    if (rc == 0)
        rc = step(m, "left", err);
    if (rc == 0)
        rc = tenant_shard_put(old_shard(p), &gone, NULL, NULL, err);
    if (rc == 0 && home != m->from && home != m->to)
        rc = tenant_shard_put(&p->shards[home], &gone, NULL, NULL, err);
    return rc;
}

static int move_over(struct pass *p, struct redrive_err *err)
{
    struct tenant_batch batch = {.from = old_shard(p), .to = new_shard(p)};
    int rc = begin_move(p, err);
    if (rc == 0)
        rc = move_jobs(p, &batch, err);
    return rc < 0 ? rc : leave(p, &batch, err);
}

static int settle_in(struct pass *p, struct redrive_err *err)
{
    const struct tenant_place here = {.phase = TENANT_HERE, .shard = p->move->to};
    rest_ms(known_ms(p->move));
    int rc = step(p->move, "here", err);
    return rc < 0 ? rc : tenant_shard_put(new_shard(p), &here, let_go_on_new, p, err);
}

static int clean(struct pass *p, struct tenant_shard *shard, struct redrive_err *err)
{
    int rc = step(p->move, "clean", err);
    return rc < 0 ? rc : tenant_shard_move(shard, tenant_drop_rows, shard, err);
}

/* ---- Where it is ----------------------------------------------------------------------------- */

static size_t next_by_rows(void *ctx, size_t shard, struct str tenant)
{
    const struct tenant_shard *at = &((const struct tenant_shard *)ctx)[shard];
    (void)tenant;
    return tenant_shard_says(at, TENANT_LEFT) ? at->place.shard + 1 : 0;
}

static int refuse_other(size_t to, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "the tenant is being moved to shard %zu", to + 1);
    err_hint(err, "finish that first: --to %zu", to + 1);
    return REDRIVE_E_STATE;
}

static int refuse_returning(size_t from, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE, "a move of the tenant is being taken back to shard %zu",
            from + 1);
    err_hint(err, "finish that first: --back");
    return REDRIVE_E_STATE;
}

enum stage {
    STAGE_NEW,
    STAGE_BEGUN,
    STAGE_RETURNING,
    STAGE_LEFT,
    STAGE_THERE
};

/* Finds out where the tenant is, and how far a move of it has come. A shard where it arrives may be
 * that of its name: then the other one says how far. */
static int find_stage(struct pass *p, enum stage *ret, struct redrive_err *err)
{
    struct tenant_move *m = p->move;
    const struct tenant_shard *shards = p->shards;
    size_t at = tenant_follow(m->tenant, m->n_hashed, m->n, next_by_rows, p->shards);
    size_t begun = SIZE_MAX;
    *ret = STAGE_NEW;
    if (tenant_shard_says(&shards[at], TENANT_ARRIVING)) {
        begun = at;
        at = shards[at].place.shard < m->n ? shards[at].place.shard : at;
        *ret = tenant_shard_says(&shards[at], TENANT_LEFT) ? STAGE_LEFT : STAGE_NEW;
    }
    if (tenant_shard_says(&shards[at], TENANT_LEAVING) ||
        tenant_shard_says(&shards[at], TENANT_RETURNING)) {
        begun = shards[at].place.shard;
        *ret = shards[at].place.phase == TENANT_LEAVING ? STAGE_BEGUN : STAGE_RETURNING;
    }
    m->from = at;
    if (*ret == STAGE_RETURNING && !m->is_back)
        return refuse_returning(at, err);
    if (*ret != STAGE_NEW && m->to != SIZE_MAX && m->to != begun)
        return refuse_other(begun, err);
    if (*ret != STAGE_NEW)
        m->to = begun;
    if (m->to == SIZE_MAX)
        m->to = at;
    if (m->to >= m->n)
        return err_set(err, REDRIVE_E_RANGE, "there is no shard %zu", m->to + 1);
    if (m->from == m->to)
        *ret = STAGE_THERE;
    return 0;
}

/* What an interrupted move has left on shards that the tenant has left. */
static int clean_all(struct pass *p, struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < p->move->n; i++)
        if (tenant_shard_says(&p->shards[i], TENANT_LEFT) && i != p->move->to)
            rc = clean(p, &p->shards[i], err);
    return rc;
}

static int begin_pass(struct pass *p, struct tenant_move *m, enum stage *ret,
                      struct redrive_err *err)
{
    const int64_t by = (int64_t)(rng_system_seed() >> 1);
    int rc = 0;
    p->move = m;
    m->moved = m->kept = 0;
    for (size_t i = 0; i < m->n && rc == 0; i++) {
        p->shards[i] = (struct tenant_shard){
            .store = m->stores[i], .tenant = m->tenant, .now_ms = m->now_ms, .by = by};
        rc = tenant_shard_read(&p->shards[i], err);
    }
    return rc < 0 ? rc : find_stage(p, ret, err);
}

int tenant_move_run(struct tenant_move *m, struct redrive_err *err)
{
    struct pass pass;
    enum stage stage = STAGE_NEW;
    m->is_back = false;
    int rc = begin_pass(&pass, m, &stage, err);
    const int64_t begun_ms = clock_monotonic_ms();
    pass.is_begun = stage == STAGE_BEGUN;
    if (rc == 0 && (stage == STAGE_NEW || stage == STAGE_BEGUN))
        rc = move_over(&pass, err);
    if (rc == 0 && stage != STAGE_THERE)
        rc = settle_in(&pass, err);
    m->held_ms = stage == STAGE_THERE ? 0 : clock_monotonic_ms() - begun_ms;
    if (rc == 0 && stage != STAGE_THERE)
        rc = clean(&pass, old_shard(&pass), err);
    return rc == 0 && stage == STAGE_THERE ? clean_all(&pass, err) : rc;
}

/* ---- Back ------------------------------------------------------------------------------------ */

static int refuse_back(const struct tenant_move *m, enum stage stage, struct redrive_err *err)
{
    if (stage == STAGE_LEFT) {
        err_set(err, REDRIVE_E_STATE, "shard %zu has taken over: the move cannot be taken back",
                m->to + 1);
        err_hint(err, "finish it without --back; then it may be moved to shard %zu", m->from + 1);
    } else {
        err_set(err, REDRIVE_E_STATE, "no move of the tenant is under way");
        err_hint(err, "it is on shard %zu", m->from + 1);
    }
    return REDRIVE_E_STATE;
}

/* Of what the new shard has, the old one gets what it has not. What it refuses, and what runs on
 * the new shard, was not copied by this move: it stays there, with all that wait for it. */
static int bring_back(struct pass *p, struct redrive_err *err)
{
    struct tenant_move *m = p->move;
    struct tenant_refusals refusals;
    struct tenant_batch batch = {.from = new_shard(p), .to = old_shard(p), .is_back = true};
    int rc = copy_jobs(p, &batch, &refusals, err);
    if (rc == 0 && refusals.n > 0) {
        batch.drops_orphans = true;
        rc = copy_jobs(p, &batch, &refusals, err);
    }
    m->refusal = refusals.first;
    if (rc == 0)
        rc = move_all(p, &batch, true, &m->kept, err);
    return rc < 0 ? rc : clean(p, new_shard(p), err);
}

/* No other call goes on with the move from here on. One that held the tenant before may still say
 * that it arrives, until it is refused. */
static int turn_back(struct pass *p, struct redrive_err *err)
{
    int rc = step(p->move, "return", err);
    if (rc == 0)
        rc = hold_on_both(p, TENANT_RETURNING, "close", close_new, err);
    if (rc == 0)
        rest_ms(known_ms(p->move));
    return rc;
}

int tenant_move_back(struct tenant_move *m, struct redrive_err *err)
{
    struct pass pass;
    enum stage stage = STAGE_NEW;
    const int64_t begun_ms = clock_monotonic_ms();
    m->is_back = true;
    m->to = SIZE_MAX;
    m->refusal = (struct redrive_err){0};
    int rc = begin_pass(&pass, m, &stage, err);
    if (rc == 0 && stage != STAGE_BEGUN && stage != STAGE_RETURNING)
        return refuse_back(m, stage, err);
    if (rc == 0)
        rc = turn_back(&pass, err);
    if (rc == 0)
        rc = bring_back(&pass, err);
    if (rc == 0)
        rc = step(m, "release", err);
    if (rc == 0)
        rc = release_on_old(&pass, err);
    m->held_ms = clock_monotonic_ms() - begun_ms;
    return rc;
}
