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
#include "store/shards/tenants.h"

#define LOOK_MS 100

/* ---- Rows of the tenant ---------------------------------------------------------------------- */

struct place_row {
    bool is_there;
    struct tenant_place place;
};

static int read_place(struct store *store, struct str tenant, struct place_row *ret,
                      struct redrive_err *err)
{
    struct shared_page page = {0};
    *ret = (struct place_row){0};
    int rc = store_ops(store)->shared_list(store, SHARED_TENANT, tenant, &page, err);
    for (size_t i = 0; rc == 0 && i < page.n; i++)
        if (tenant_place_read(&page.rows[i], &ret->place))
            ret->is_there = true;
    shared_page_release(&page);
    return rc;
}

struct place_put {
    const struct tenant_move *move;
    struct store *store;
    struct tenant_place place;
    bool removed;
};

static int put_place_row(void *ctx, struct redrive_err *err)
{
    const struct place_put *put = ctx;
    char text[64];
    struct str value = {0};
    tenant_place_write(&put->place, text);
    if (!put->removed)
        value = str_of(text);
    return tenant_row_put(put->store, SHARED_TENANT, put->move->tenant, TENANT_PLACE, value, err);
}

static int put_place(const struct tenant_move *m, size_t shard, enum tenant_phase phase,
                     size_t other, struct redrive_err *err)
{
    struct place_put put = {
        .move = m, .store = m->stores[shard], .place = {.phase = phase, .shard = other}};
    return load_transaction(put.store, m->now_ms, put_place_row, &put, err);
}

/* ---- Holding --------------------------------------------------------------------------------- */

struct hold {
    const struct tenant_move *move;
    struct store *store;
    struct store *held_by;     /* whose rows say what was held */
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
    struct place_put put = {.move = h->move, .store = h->store, .place = h->place};
    int rc = hold_queues(h, err);
    return rc < 0 ? rc : put_place_row(&put, err);
}

/* Lets go of what is held here, as the rows of `held_by` say, and says where the tenant is. */
static int let_go_moves(void *ctx, struct redrive_err *err)
{
    const struct hold *h = ctx;
    const struct str prefix = STR(TENANT_HELD), tenant = h->move->tenant;
    struct place_put put = {
        .move = h->move, .store = h->store, .place = h->place, .removed = h->takes_place_away};
    struct shared_page rows = {0};
    int rc = store_ops(h->held_by)->shared_list(h->held_by, SHARED_TENANT, tenant, &rows, err);
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
    return rc < 0 ? rc : put_place_row(&put, err);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static int step(const struct tenant_move *m, const char *name, struct redrive_err *err)
{
    if (!m->progress || m->progress(m->ctx, name, m->moved))
        return 0;
    err_set(err, REDRIVE_E_CANCELLED, "interrupted");
    err_hint(err, "the tenant is held: the same command goes on with the rest");
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
    struct hold hold; /* on the old shard */
};

/* Takes the first steps back: nothing has been moved. */
static int give_up(struct pass *p, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    const size_t home = shard_of_tenant(m->tenant, m->n_hashed);
    const uint64_t running = p->hold.running;
    struct hold h = {.move = m, .store = m->stores[m->from], .held_by = m->stores[m->from]};
    h.place = (struct tenant_place){TENANT_HERE, m->from};
    h.takes_place_away = m->from == home;
    int rc = put_place(m, m->to, TENANT_LEFT, m->from, err);
    if (rc == 0)
        rc = load_transaction(h.store, m->now_ms, let_go_moves, &h, err);
    if (rc < 0)
        return rc;
    err_set(err, REDRIVE_E_STATE, "jobs of the tenant still run: %" PRIu64, running);
    err_hint(err, "nothing was moved; wait longer (--wait), or move it when they have ended");
    return REDRIVE_E_STATE;
}

static int hold_again(struct pass *p, struct redrive_err *err)
{
    p->hold.store = p->move->stores[p->move->from];
    p->hold.place = (struct tenant_place){TENANT_LEAVING, p->move->to};
    return load_transaction(p->hold.store, p->move->now_ms, hold_moves, &p->hold, err);
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
        if (rc == 0 && waited_ms > p->move->wait_ms + known_ms(p->move) && can_give_up)
            return give_up(p, err);
    } while (rc == 0);
    return rc;
}

/* What a move from the new shard may have left there does not concern this one. */
static int begin_move(struct pass *p, bool is_begun, struct redrive_err *err)
{
    struct tenant_move *m = p->move;
    const struct tenant_batch there = {
        .from = m->stores[m->to], .tenant = m->tenant, .now_ms = m->now_ms};
    int rc = is_begun ? 0 : tenant_drop_rows(&there, err);
    if (rc == 0)
        rc = step(m, "leave", err);
    if (rc == 0)
        rc = hold_again(p, err);
    if (rc == 0)
        rc = step(m, "arrive", err);
    if (rc == 0)
        rc = put_place(m, m->to, TENANT_ARRIVING, m->from, err);
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

/* Until none is left. One that was not as it had been read is moved in the next round; one that the
 * new shard refuses ends the move when a round has moved nothing else. */
static int move_jobs(struct pass *p, struct tenant_batch *batch, struct redrive_err *err)
{
    int rc = 0;
    for (uint64_t left = 1; rc == 0 && left > 0;) {
        struct redrive_err refusal = {0};
        const uint64_t moved = p->move->moved;
        batch->refusal = &refusal;
        rc = hold_again(p, err);
        if (rc == 0)
            rc = tenant_copy_rows(batch, err);
        if (rc == 0)
            rc = move_all(p, batch, false, &left, err);
        if (rc == 0)
            rc = move_all(p, batch, true, &left, err);
        batch->refusal = NULL;
        if (rc == 0 && left > 0 && p->move->moved == moved && refusal.code < 0) {
            rc = refusal.code;
            if (err)
                *err = refusal;
        }
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
    if (rc == 0)
        rc = put_place(m, m->from, TENANT_LEFT, m->to, err);
    if (rc == 0 && home != m->from && home != m->to)
        rc = put_place(m, home, TENANT_LEFT, m->to, err);
    return rc;
}

static int move_over(struct pass *p, bool is_begun, struct redrive_err *err)
{
    const struct tenant_move *m = p->move;
    struct tenant_batch batch = {.from = m->stores[m->from],
                                 .to = m->stores[m->to],
                                 .tenant = m->tenant,
                                 .now_ms = m->now_ms};
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

enum stage {
    STAGE_NEW,
    STAGE_BEGUN,
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
    if (rows[at].is_there && rows[at].place.phase == TENANT_LEAVING) {
        begun = rows[at].place.shard;
        *ret = STAGE_BEGUN;
    }
    m->from = at;
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

int tenant_move_run(struct tenant_move *m, struct redrive_err *err)
{
    struct place_row rows[SHARDS_MAX];
    struct pass pass = {.move = m, .hold = {.move = m}};
    enum stage stage = STAGE_NEW;
    int rc = 0;
    m->moved = 0;
    for (size_t i = 0; i < m->n && rc == 0; i++)
        rc = read_place(m->stores[i], m->tenant, &rows[i], err);
    if (rc == 0)
        rc = find_stage(m, rows, &stage, err);
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
