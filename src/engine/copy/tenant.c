/* tenant.c - moves one tenant from one shard to another. */
#include "engine/copy/tenant.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "engine/copy/load.h"
#include "engine/copy/tenant_jobs.h"

#define LOOK_MS 100

/* ---- Rows of the tenant ---------------------------------------------------------------------- */

struct place_put {
    const struct tenant_move *move;
    struct store *store;
    struct place_row before; /* what the row says */
    struct tenant_place place;
    bool removed;
};

static int put_place_row(void *ctx, struct redrive_err *err)
{
    const struct place_put *put = ctx;
    const struct str tenant = put->move->tenant;
    char text[64];
    struct str value = {0};
    tenant_place_write(&put->place, text);
    if (!put->removed)
        value = str_of(text);
    int rc = tenant_place_expect(put->store, tenant, &put->before, err);
    return rc < 0 ? rc
                  : tenant_row_put(put->store, SHARED_TENANT, tenant, TENANT_PLACE, value, err);
}

static int put_place(const struct tenant_move *m, size_t shard, struct place_row before,
                     struct tenant_place place, struct redrive_err *err)
{
    struct place_put put = {.move = m, .store = m->stores[shard], .before = before, .place = place};
    return load_transaction(put.store, m->now_ms, put_place_row, &put, err);
}

/* ---- Holding --------------------------------------------------------------------------------- */

struct hold {
    const struct tenant_move *move;
    struct store *store;
    struct store *held_by;     /* whose rows say what was held */
    struct place_row before;   /* what the row of the tenant says */
    struct tenant_place place; /* that the tenant gets in the same transaction */
    bool takes_place_away;
    uint64_t running;
};

static bool has_row(const struct shared_page *page, struct str key)
{
    for (size_t i = 0; i < page->n; i++)
        if (str_eq(page->rows[i].key, key))
            return true;
    return false;
}

static int hold_queue(const struct hold *h, struct str queue, struct redrive_err *err)
{
    char held[512], since[48];
    const int n = snprintf(held, sizeof held, TENANT_HELD "%.*s", (int)queue.len, queue.ptr);
    if (n < 0 || (size_t)n >= sizeof held)
        return err_set(err, REDRIVE_E_TOO_BIG, "the name of a queue is too long");
    (void)snprintf(since, sizeof since, "{\"since_ms\":%" PRId64 "}", clock_wall_ms());
    int rc = tenant_row_put(h->store, SHARED_PAUSE, h->move->tenant, queue, str_of(since), err);
    return rc < 0 ? rc
                  : tenant_row_put(h->store, SHARED_TENANT, h->move->tenant, str_of(held),
                                   STR("{}"), err);
}

/* Pauses all queues of the tenant that are not paused, and notes which. */
static int hold_queues(struct hold *h, struct redrive_err *err)
{
    struct count_page queues = {0};
    struct shared_page pauses = {0};
    int rc = store_ops(h->store)->counts(h->store, COUNT_QUEUES, h->move->tenant, &queues, err);
    if (rc == 0)
        rc =
            store_ops(h->store)->shared_list(h->store, SHARED_PAUSE, h->move->tenant, &pauses, err);
    h->running = 0;
    for (size_t i = 0; rc == 0 && i < queues.n; i++) {
        h->running += queues.counts[i].by_state[REDRIVE_STATE_RUNNING];
        if (!has_row(&pauses, queues.counts[i].queue))
            rc = hold_queue(h, queues.counts[i].queue, err);
    }
    shared_page_release(&pauses);
    count_page_release(&queues);
    return rc;
}

static int hold_moves(void *ctx, struct redrive_err *err)
{
    struct hold *h = ctx;
    struct place_put put = {
        .move = h->move, .store = h->store, .before = h->before, .place = h->place};
    int rc = put_place_row(&put, err);
    return rc < 0 ? rc : hold_queues(h, err);
}

/* Lets go of what is held here, as the rows of `held_by` say, and says where the tenant is. */
static int let_go_moves(void *ctx, struct redrive_err *err)
{
    const struct hold *h = ctx;
    const struct str prefix = STR(TENANT_HELD), tenant = h->move->tenant;
    struct place_put put = {.move = h->move,
                            .store = h->store,
                            .before = h->before,
                            .place = h->place,
                            .removed = h->takes_place_away};
    struct shared_page rows = {0};
    int rc = put_place_row(&put, err);
    if (rc == 0)
        rc = store_ops(h->held_by)->shared_list(h->held_by, SHARED_TENANT, tenant, &rows, err);
    for (size_t i = 0; rc == 0 && i < rows.n; i++) {
        const struct str key = rows.rows[i].key;
        if (!str_starts_with(key, prefix))
            continue;
        const struct str queue = {key.ptr + prefix.len, key.len - prefix.len};
        rc = tenant_row_put(h->store, SHARED_PAUSE, tenant, queue, (struct str){0}, err);
        if (rc == 0 && h->store == h->held_by)
            rc = tenant_row_put(h->store, SHARED_TENANT, tenant, key, (struct str){0}, err);
    }
    shared_page_release(&rows);
    return rc;
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

struct pass {
    struct tenant_move *move;
    const struct place_row *rows; /* of all shards, as they were when the call began */
    struct hold hold;             /* on the old shard */
    bool is_held;                 /* by this pass, or by an earlier one that was interrupted */
};

/* The tenant goes on where it was: the new shard says so already. */
static int release_on_old(const struct tenant_move *m, enum tenant_phase before,
                          struct redrive_err *err)
{
    const size_t home = shard_of_tenant(m->tenant, m->n_hashed);
    struct hold h = {.move = m,
                     .store = m->stores[m->from],
                     .held_by = m->stores[m->from],
                     .before = place_said(before, m->to),
                     .place = {TENANT_HERE, m->from},
                     .takes_place_away = m->from == home};
    return load_transaction(h.store, m->now_ms, let_go_moves, &h, err);
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
    const uint64_t running = p->hold.running;
    int rc = 0;
    if (can_give_up)
        rc = put_place(m, m->to, place_said(TENANT_ARRIVING, m->from),
                       (struct tenant_place){TENANT_LEFT, m->from}, err);
    if (rc == 0 && can_give_up)
        rc = release_on_old(m, TENANT_LEAVING, err);
    if (rc < 0)
        return rc;
    err_set(err, REDRIVE_E_STATE, "jobs of the tenant still run: %" PRIu64, running);
    name_running(m, err);
    err_hint(err, can_give_up
                      ? "nothing was moved; wait longer (--wait), or move it when they have ended"
                      : "the tenant is held: the same command waits again (--wait); --back instead "
                        "of --to takes the move back");
    return REDRIVE_E_STATE;
}

/* Unless another process has begun to move it meanwhile, or has taken the move back. */
static int hold_again(struct pass *p, struct redrive_err *err)
{
    p->hold.store = p->move->stores[p->move->from];
    p->hold.before = p->is_held ? place_said(TENANT_LEAVING, p->move->to) : p->rows[p->move->from];
    p->hold.place = (struct tenant_place){TENANT_LEAVING, p->move->to};
    int rc = load_transaction(p->hold.store, p->move->now_ms, hold_moves, &p->hold, err);
    p->is_held |= rc == 0;
    p->move->running = p->hold.running;
    return rc;
}

/* Engines that have not looked yet may still let jobs in, and start some. */
static int wait_for_running(struct pass *p, bool can_give_up, struct redrive_err *err)
{
    const int64_t begun_ms = clock_monotonic_ms();
    int rc = 0;
    do {
        rest_ms(LOOK_MS);
        rc = step(p->move, "wait", err);
        if (rc == 0)
            rc = hold_again(p, err);
        const int64_t waited_ms = clock_monotonic_ms() - begun_ms;
        if (rc == 0 && p->hold.running == 0 && waited_ms >= known_ms(p->move))
            return 0;
        if (rc == 0 && waited_ms > p->move->wait_ms + known_ms(p->move))
            return stop_waiting(p, can_give_up, err);
    } while (rc == 0);
    return rc;
}

/* What a move from the new shard may have left there does not concern this one. */
static int arrive_moves(void *ctx, struct redrive_err *err)
{
    struct place_put *put = ctx;
    const struct tenant_batch there = {.from = put->store, .tenant = put->move->tenant};
    int rc = put_place_row(put, err);
    return rc < 0 ? rc : tenant_drop_rows_in(&there, err);
}

/* The row of the new shard must be as it was when the call began: a process that has slept since
 * then, while the move was taken back, must not say again that the tenant arrives. */
static int arrive(const struct pass *p, bool is_begun, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    struct place_put put = {.move = m,
                            .store = m->stores[m->to],
                            .before = p->rows[m->to],
                            .place = {TENANT_ARRIVING, m->from}};
    if (is_begun && put.before.is_there && put.before.place.phase == TENANT_ARRIVING &&
        put.before.place.shard == m->from)
        return 0;
    return load_transaction(put.store, m->now_ms, arrive_moves, &put, err);
}

static int begin_move(struct pass *p, bool is_begun, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    int rc = step(m, "leave", err);
    if (rc == 0)
        rc = hold_again(p, err);
    if (rc == 0)
        rc = step(m, "arrive", err);
    if (rc == 0)
        rc = arrive(p, is_begun, err);
    return rc < 0 ? rc : wait_for_running(p, !is_begun, err);
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
 * are tried twice, and as long as fewer are refused. */
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
    } while (rc == 0 && ret->n > 0 && (tries++ == 0 || ret->n < before));
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
        rc = hold_again(p, err);
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
    struct tenant_move *m = p->move;
    const size_t home = shard_of_tenant(m->tenant, m->n_hashed);
    int rc = step(m, "keys", err);
    if (rc == 0)
        rc = tenant_copy_rows(batch, err);
    if (rc == 0)
        rc = tenant_copy_keys(batch, err);
    if (rc == 0)
        rc = step(m, "left", err);
    const struct tenant_place gone = {TENANT_LEFT, m->to};
    if (rc == 0)
        rc = put_place(m, m->from, place_said(TENANT_LEAVING, m->to), gone, err);
    if (rc == 0 && home != m->from && home != m->to)
        rc = put_place(m, home, p->rows[home], gone, err);
    return rc;
}

static int move_over(struct pass *p, bool is_begun, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    struct tenant_batch batch = {.from = m->stores[m->from],
                                 .to = m->stores[m->to],
                                 .from_shard = m->from,
                                 .to_shard = m->to,
                                 .tenant = m->tenant,
                                 .now_ms = m->now_ms};
    p->is_held = is_begun;
    int rc = begin_move(p, is_begun, err);
    if (rc == 0)
        rc = move_jobs(p, &batch, err);
    return rc < 0 ? rc : leave(p, &batch, err);
}

static int settle_in(struct pass *p, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    struct hold h = {.move = m,
                     .store = m->stores[m->to],
                     .held_by = m->stores[m->from],
                     .before = place_said(TENANT_ARRIVING, m->from),
                     .place = {TENANT_HERE, m->to}};
    rest_ms(known_ms(m));
    int rc = step(m, "here", err);
    return rc < 0 ? rc : load_transaction(h.store, m->now_ms, let_go_moves, &h, err);
}

static int clean(const struct tenant_move *m, size_t shard, struct redrive_err *err)
{
    const struct tenant_batch batch = {
        .from = m->stores[shard], .tenant = m->tenant, .now_ms = m->now_ms};
    int rc = step(m, "clean", err);
    return rc < 0 ? rc : tenant_drop_rows(&batch, err);
}

/* ---- Where it is ----------------------------------------------------------------------------- */

static size_t next_by_rows(void *ctx, size_t shard, struct str tenant)
{
    const struct place_row *row = &((const struct place_row *)ctx)[shard];
    (void)tenant;
    return row->is_there && row->place.phase == TENANT_LEFT ? row->place.shard + 1 : 0;
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
static int find_stage(struct tenant_move *m, struct place_row rows[], enum stage *ret,
                      struct redrive_err *err)
{
    size_t at = tenant_follow(m->tenant, m->n_hashed, m->n, next_by_rows, rows), begun = SIZE_MAX;
    *ret = STAGE_NEW;
    if (rows[at].is_there && rows[at].place.phase == TENANT_ARRIVING) {
        begun = at;
        at = rows[at].place.shard < m->n ? rows[at].place.shard : at;
        *ret = rows[at].is_there && rows[at].place.phase == TENANT_LEFT ? STAGE_LEFT : STAGE_NEW;
    }
    if (rows[at].is_there &&
        (rows[at].place.phase == TENANT_LEAVING || rows[at].place.phase == TENANT_RETURNING)) {
        begun = rows[at].place.shard;
        *ret = rows[at].place.phase == TENANT_LEAVING ? STAGE_BEGUN : STAGE_RETURNING;
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
static int clean_all(const struct tenant_move *m, const struct place_row rows[],
                     struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < m->n; i++)
        if (rows[i].is_there && rows[i].place.phase == TENANT_LEFT && i != m->to)
            rc = clean(m, i, err);
    return rc;
}

static int learn_stage(struct tenant_move *m, struct place_row rows[], enum stage *ret,
                       struct redrive_err *err)
{
    int rc = 0;
    m->moved = m->kept = 0;
    for (size_t i = 0; i < m->n && rc == 0; i++)
        rc = tenant_place_find(m->stores[i], m->tenant, &rows[i], err);
    return rc < 0 ? rc : find_stage(m, rows, ret, err);
}

int tenant_move_run(struct tenant_move *m, struct redrive_err *err)
{
    struct place_row rows[SHARDS_MAX];
    struct pass pass = {.move = m, .rows = rows, .hold = {.move = m}};
    enum stage stage = STAGE_NEW;
    m->is_back = false;
    int rc = learn_stage(m, rows, &stage, err);
    const int64_t begun_ms = clock_monotonic_ms();
    if (rc == 0 && (stage == STAGE_NEW || stage == STAGE_BEGUN))
        rc = move_over(&pass, stage == STAGE_BEGUN, err);
    if (rc == 0 && stage != STAGE_THERE)
        rc = settle_in(&pass, err);
    m->held_ms = stage == STAGE_THERE ? 0 : clock_monotonic_ms() - begun_ms;
    if (rc == 0 && stage != STAGE_THERE)
        rc = clean(m, m->from, err);
    return rc == 0 && stage == STAGE_THERE ? clean_all(m, rows, err) : rc;
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
 * the new shard, was not copied by this move: it stays there. */
static int bring_back(struct pass *p, struct redrive_err *err)
{
    struct tenant_move *m = p->move;
    struct tenant_refusals refusals;
    struct tenant_batch batch = {.from = m->stores[m->to],
                                 .to = m->stores[m->from],
                                 .from_shard = m->to,
                                 .to_shard = m->from,
                                 .tenant = m->tenant,
                                 .now_ms = m->now_ms,
                                 .is_back = true};
    int rc = copy_jobs(p, &batch, &refusals, err);
    m->refusal = refusals.first;
    if (rc == 0)
        rc = move_all(p, &batch, true, &m->kept, err);
    return rc < 0 ? rc : clean(m, m->to, err);
}

/* No other process goes on with the move from here on, once its transaction has ended. */
static int turn_back(struct pass *p, enum stage stage, struct redrive_err *err)
{
    struct tenant_move *m = p->move;
    p->hold.store = m->stores[m->from];
    p->hold.before = place_said(stage == STAGE_BEGUN ? TENANT_LEAVING : TENANT_RETURNING, m->to);
    p->hold.place = (struct tenant_place){TENANT_RETURNING, m->to};
    int rc = step(m, "return", err);
    if (rc == 0)
        rc = load_transaction(p->hold.store, m->now_ms, hold_moves, &p->hold, err);
    if (rc == 0)
        rc = step(m, "close", err);
    if (rc == 0)
        rc = tenant_place_close(m->stores[m->to], m->tenant, m->from, m->now_ms, err);
    if (rc == 0)
        rest_ms(known_ms(m));
    return rc;
}

int tenant_move_back(struct tenant_move *m, struct redrive_err *err)
{
    struct place_row rows[SHARDS_MAX];
    struct pass pass = {.move = m, .rows = rows, .hold = {.move = m}};
    enum stage stage = STAGE_NEW;
    const int64_t begun_ms = clock_monotonic_ms();
    m->is_back = true;
    m->to = SIZE_MAX;
    m->refusal = (struct redrive_err){0};
    int rc = learn_stage(m, rows, &stage, err);
    if (rc == 0 && stage != STAGE_BEGUN && stage != STAGE_RETURNING)
        return refuse_back(m, stage, err);
    if (rc == 0)
        rc = turn_back(&pass, stage, err);
    if (rc == 0)
        rc = bring_back(&pass, err);
    if (rc == 0)
        rc = step(m, "release", err);
    if (rc == 0)
        rc = release_on_old(m, TENANT_RETURNING, err);
    m->held_ms = clock_monotonic_ms() - begun_ms;
    return rc;
}
