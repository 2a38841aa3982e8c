#include <stdlib.h>

#include "base/err.h"
#include "store/claim_tally.h"
#include "store/sqlite/private.h"

/* A claim is a merge. Each line with ready jobs has a cursor on its part of the index jobs_by_rank,
 * which stands on the line's best job; the best of these goes next. So the cost depends on the
 * number of lines that have work and on the number of jobs that are taken, and on nothing else.
 * Whatever SQLite does with an index it asks of every open cursor on it, so that this is the best
 * way for a few lines only; turns.c is for many. */
#define CURSORS_MAX ((size_t)8)

struct runner {
    struct line *line;
    struct line_place place;
    sqlite3_stmt *cursor;
    bool has_row;
    int32_t priority;
    int64_t seq;
};

struct race {
    struct store *store;
    const struct claim_filter *filter;
    struct runner runners[CURSORS_MAX];
    size_t n;
    struct page_maker *maker;
    struct claim_tally *tally;
    bool is_cut; /* the next job does not fit any more */

    int64_t last_tenant; /* whose turn was the last */
    bool has_left_out;   /* a tenant had its turn, but only jobs of tasks that are full */
    int64_t turn_ends;   /* with this tenant then: the next claim begins with the one left out */
};

/* Any number of jobs may be asked for; a page has its bounds. */
#define CLAIM_MAX ((size_t)65536)

/* The lines that have ready jobs and are wanted, as long as they are few. */
#define LINES_MAX 32
struct lined_up {
    struct line *lines[LINES_MAX];
    size_t n;
    bool are_all;
};

static int pause_key(struct store *store, struct str tenant, struct str queue, struct str *ret)
{
    buf_reset(&store->scratch);
    buf_add(&store->scratch, &tenant.len, sizeof tenant.len);
    buf_add_str(&store->scratch, tenant);
    int rc = buf_add_str(&store->scratch, queue);
    *ret = buf_str(&store->scratch);
    return rc;
}

static int read_pauses(struct store *store, struct redrive_err *err)
{
    if (store->pauses_version == store->shared_version)
        return 0;
    sqlite3_stmt *st = sql_use(store, STATEMENT_PAUSES, err);
    if (!st)
        return store->last_error;
    uint64_t seed = store->pauses.seed;
    map_release(&store->pauses);
    map_init(&store->pauses, seed);
    int rc;
    while ((rc = sql_step(store, st, err)) > 0) {
        struct str key;
        if (pause_key(store, column_str(st, 0), column_str(st, 1), &key) != 0 ||
            map_put(&store->pauses, key, store) != 0) {
            sqlite3_reset(st);
            return err_nomem(err);
        }
    }
    if (rc == 0)
        store->pauses_version = store->shared_version;
    return rc;
}

bool claim_wants(struct store *store, const struct claim_filter *filter, const struct line *line,
                 struct line_place *ret)
{
    struct str key;
    *ret = (struct line_place){claim_find(filter->queues, filter->n_queues, line->queue),
                               claim_find(filter->tasks, filter->n_tasks, line->task)};
    if (filter->tenant.len && !str_eq(filter->tenant, line->tenant))
        return false;
    if ((filter->n_queues && ret->queue == filter->n_queues) ||
        (filter->n_tasks && ret->task == filter->n_tasks))
        return false;
    return store->pauses.count == 0 || pause_key(store, line->tenant, line->queue, &key) != 0 ||
           !map_get(&store->pauses, key);
}

static sqlite3_stmt *cursor_numbered(struct store *store, size_t i, struct redrive_err *err)
{
    if (i < store->n_cursors)
        return store->cursors[i];
    sqlite3_stmt **grown = realloc(store->cursors, (i + 1) * sizeof(sqlite3_stmt *));
    if (!grown) {
        store->last_error = err_nomem(err);
        return NULL;
    }
    store->cursors = grown;
    int rc =
        sqlite3_prepare_v3(store->db, SQL_READY, -1, SQLITE_PREPARE_PERSISTENT, &grown[i], NULL);
    if (rc != SQLITE_OK) {
        store->last_error = sql_error(store, rc, err);
        return NULL;
    }
    store->n_cursors = i + 1;
    return grown[i];
}

/* Moves a runner to its next job. */
static int advance(struct race *race, struct runner *runner, struct redrive_err *err)
{
    int rc = sql_step(race->store, runner->cursor, err);
    runner->has_row = rc > 0;
    if (rc <= 0)
        return rc;
    runner->seq = sqlite3_column_int64(runner->cursor, COLUMN_SEQ);
    runner->priority = sqlite3_column_int(runner->cursor, COLUMN_PRIORITY);
    if (sqlite3_column_int(runner->cursor, COLUMN_STATE) != REDRIVE_STATE_QUEUED ||
        sqlite3_column_int64(runner->cursor, COLUMN_RANK) !=
            rank_ready(runner->line, runner->priority))
        return sql_damaged(race->store, runner->seq, "the index of ready jobs is wrong", err);
    return 0;
}

static int enter(struct race *race, struct line *line, struct redrive_err *err)
{
    struct runner *runner = &race->runners[race->n];
    *runner = (struct runner){.line = line};
    (void)claim_wants(race->store, race->filter, line, &runner->place);
    runner->cursor = cursor_numbered(race->store, race->n, err);
    if (!runner->cursor)
        return race->store->last_error;
    race->n++;
    bind_int(runner->cursor, 1, rank_ready(line, INT32_MAX));
    bind_int(runner->cursor, 2, rank_ready(line, INT32_MIN));
    return advance(race, runner, err);
}

/* Finds the lines that have ready jobs, by one look into the index for each. */
static int line_up(struct store *store, const struct claim_filter *filter, struct lined_up *ret,
                   struct redrive_err *err)
{
    int64_t line_id = 0;
    ret->n = 0;
    ret->are_all = false;
    sqlite3_stmt *st = sql_use(store, STATEMENT_READY_LINES, err);
    if (!st)
        return store->last_error;
    for (int looks = 0; looks <= LINES_MAX; looks++) {
        struct line *line;
        struct line_place place;
        bind_int(st, 1, line_id << 32);
        int rc = line_id <= INT32_MAX ? sql_step(store, st, err) : 0;
        ret->are_all = rc == 0;
        if (rc <= 0)
            return rc;
        line_id = sqlite3_column_int64(st, 0);
        sqlite3_reset(st);
        rc = line_numbered(store, line_id++, &line, err);
        if (rc != 0)
            return rc;
        if (looks < LINES_MAX && claim_wants(store, filter, line, &place))
            ret->lines[ret->n++] = line;
    }
    return 0;
}

static bool precedes(const struct runner *a, const struct runner *b)
{
    if (a->place.queue != b->place.queue)
        return a->place.queue < b->place.queue;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->seq < b->seq;
}

/* The tenant with ready jobs after the last one, with all of them in a circle; 0: there is none. */
static int64_t next_tenant(const struct race *race)
{
    int64_t next = INT64_MAX, first = INT64_MAX;
    for (size_t i = 0; i < race->n; i++) {
        int64_t tenant = race->runners[i].line->tenant_id;
        if (!race->runners[i].has_row)
            continue;
        if (tenant < first)
            first = tenant;
        if (tenant > race->last_tenant && tenant < next)
            next = tenant;
    }
    return next != INT64_MAX ? next : first != INT64_MAX ? first : 0;
}

static bool may_run(const struct race *race, const struct runner *runner)
{
    return runner->has_row && !claim_tally_is_full(race->tally, runner->place.task);
}

static struct runner *best_of_tenant(struct race *race, int64_t tenant_id)
{
    struct runner *best = NULL;
    for (size_t i = 0; i < race->n; i++) {
        struct runner *runner = &race->runners[i];
        if (runner->line->tenant_id == tenant_id && may_run(race, runner) &&
            (!best || precedes(runner, best)))
            best = runner;
    }
    return best;
}

/* Whose turn it is. Of the tenants that are left out because their tasks are full, the first is the
 * first of the next claim: else it could be left out every time. */
static struct runner *best_of_next_tenant(struct race *race)
{
    for (size_t i = 0; i < race->n; i++) {
        const int64_t tenant_id = next_tenant(race);
        struct runner *best = best_of_tenant(race, tenant_id);
        if (best || tenant_id == 0)
            return best;
        if (!race->has_left_out) {
            race->has_left_out = true;
            race->turn_ends = race->last_tenant;
        }
        race->last_tenant = tenant_id;
    }
    return NULL;
}

/* Puts a job on the page, if it fits. A fresh one is all there, and will be asked for again when it
 * starts. */
static int take(struct race *race, const struct runner *runner, struct redrive_err *err)
{
    struct job_page *page = race->maker->page;
    const bool is_fresh = sqlite3_column_int64(runner->cursor, COLUMN_EPOCH) == 0 &&
                          sqlite3_column_type(runner->cursor, COLUMN_REST) == SQLITE_NULL;
    int rc = is_fresh ? page_add(race->maker, runner->cursor, err)
                      : page_add_numbered(race->maker, runner->seq, err);
    if (rc != 0)
        return rc;
    const struct job *job = &page->jobs[page->n - 1];
    race->is_cut = !claim_tally_fits(race->tally, job->spec.payload.len);
    if (race->is_cut) {
        page->n--;
        return 0;
    }
    claim_tally_add(race->tally, runner->place.task, job->spec.payload.len);
    if (is_fresh)
        row_keep_job(race->store, runner->line, job);
    return 0;
}

static int run_race(struct race *race, size_t limit, struct redrive_err *err)
{
    struct job_page *page = race->maker->page;
    while (page->n < limit) {
        struct runner *best = best_of_next_tenant(race);
        if (!best)
            break;
        int rc = take(race, best, err);
        if (rc != 0)
            return rc;
        if (race->is_cut)
            break;
        race->last_tenant = best->line->tenant_id;
        rc = advance(race, best, err);
        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; i < race->n; i++)
        page->more |= may_run(race, &race->runners[i]);
    return 0;
}

static int race(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
                const struct lined_up *lined_up, struct claim_tally *tally, struct redrive_err *err)
{
    struct store *store = maker->store;
    struct race race = {.store = store,
                        .filter = filter,
                        .maker = maker,
                        .tally = tally,
                        .last_tenant = store->last_tenant};
    int rc = 0;
    for (size_t i = 0; i < lined_up->n && rc == 0; i++)
        rc = enter(&race, lined_up->lines[i], err);
    if (rc == 0)
        rc = run_race(&race, limit, err);
    for (size_t i = 0; i < race.n; i++)
        sqlite3_reset(race.runners[i].cursor);
    if (!filter->tenant.len)
        store->last_tenant = race.has_left_out ? race.turn_ends : race.last_tenant;
    return rc;
}

int sqlite_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    size_t limit = filter->limit < CLAIM_MAX ? filter->limit : CLAIM_MAX;
    struct page_maker maker;
    struct lined_up lined_up;
    struct claim_tally tally;
    job_page_release(ret);
    if (!claim_tally_init(&tally, filter))
        return err_nomem(err);
    int rc = unit_needed(store, err);
    if (rc == 0)
        rc = read_pauses(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, limit, err);
    if (rc == 0)
        rc = line_up(store, filter, &lined_up, err);
    if (rc == 0 && lined_up.are_all && lined_up.n <= CURSORS_MAX)
        rc = race(&maker, filter, limit, &lined_up, &tally, err);
    else if (rc == 0)
        rc = turns_take(&maker, filter, limit, lined_up.are_all ? lined_up.lines : NULL, lined_up.n,
                        &tally, err);
    claim_tally_release(&tally);
    if (rc == 0)
        rc = sqlite_page_add_limits(store, ret, err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
