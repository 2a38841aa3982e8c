#include <stdlib.h>

#include "base/err.h"
#include "store/sqlite/private.h"

/* A claim is a merge. Each line with ready jobs has a cursor on its part of the index jobs_by_rank,
 * which stands on the line's best job; the best of these goes next. So the cost depends on the
 * number of lines that have work and on the number of jobs that are taken, and on nothing else.
 * Whatever SQLite does with an index it asks of every open cursor on it, so that this is the best
 * way for a few lines only; turns.c is for many. */
#define CURSORS_MAX ((size_t)8)

struct runner {
    struct line *line;
    size_t rank; /* of its queue in the filter */
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
    size_t passed_over;
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

static bool is_among(struct str s, const struct str *list, size_t n, size_t *ret_rank)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(s, list[i])) {
            *ret_rank = i;
            return true;
        }
    return false;
}

bool claim_wants(struct store *store, const struct claim_filter *filter, const struct line *line,
                 size_t *ret_rank)
{
    size_t ignored;
    struct str key;
    *ret_rank = 0;
    if (filter->tenant.len && !str_eq(filter->tenant, line->tenant))
        return false;
    if (filter->n_queues && !is_among(line->queue, filter->queues, filter->n_queues, ret_rank))
        return false;
    if (filter->n_tasks && !is_among(line->task, filter->tasks, filter->n_tasks, &ignored))
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
    (void)claim_wants(race->store, race->filter, line, &runner->rank);
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
        size_t rank;
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
        if (looks < LINES_MAX && claim_wants(store, filter, line, &rank))
            ret->lines[ret->n++] = line;
    }
    return 0;
}

static bool precedes(const struct runner *a, const struct runner *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->seq < b->seq;
}

/* Whose turn it is: the tenant after the last one, with all of them in a circle. */
static struct runner *best_of_next_tenant(struct race *race)
{
    const int64_t last = race->store->last_tenant;
    int64_t next = INT64_MAX, first = INT64_MAX;
    for (size_t i = 0; i < race->n; i++) {
        int64_t tenant = race->runners[i].line->tenant_id;
        if (!race->runners[i].has_row)
            continue;
        if (tenant < first)
            first = tenant;
        if (tenant > last && tenant < next)
            next = tenant;
    }
    next = next == INT64_MAX ? first : next;
    struct runner *best = NULL;
    for (size_t i = 0; i < race->n; i++) {
        struct runner *runner = &race->runners[i];
        if (runner->has_row && runner->line->tenant_id == next && (!best || precedes(runner, best)))
            best = runner;
    }
    return best;
}

bool claim_skips(const struct claim_filter *filter, struct str breaker, struct str limit)
{
    size_t ignored;
    return (breaker.len && is_among(breaker, filter->skip_lanes, filter->n_skip_lanes, &ignored)) ||
           (limit.len && is_among(limit, filter->skip_lanes, filter->n_skip_lanes, &ignored));
}

static bool is_blocked(const struct race *race, const struct runner *runner)
{
    return race->filter->n_skip_lanes > 0 &&
           claim_skips(race->filter, column_str(runner->cursor, COLUMN_BREAKER_KEY),
                       column_str(runner->cursor, COLUMN_LIMIT_KEY));
}

/* Puts a job on the page. A fresh one is all there, and will be asked for again when it starts. */
static int take(struct race *race, const struct runner *runner, struct redrive_err *err)
{
    const struct job_page *page = race->maker->page;
    const bool is_fresh = sqlite3_column_int64(runner->cursor, COLUMN_EPOCH) == 0 &&
                          sqlite3_column_type(runner->cursor, COLUMN_REST) == SQLITE_NULL;
    if (!is_fresh)
        return page_add_numbered(race->maker, runner->seq, err);
    int rc = page_add(race->maker, runner->cursor, err);
    if (rc == 0)
        kept_put_job(race->store, runner->line, &page->jobs[page->n - 1]);
    return rc;
}

static int run_race(struct race *race, size_t limit, struct redrive_err *err)
{
    struct job_page *page = race->maker->page;
    while (page->n < limit && race->passed_over < 4 * limit) {
        struct runner *best = best_of_next_tenant(race);
        if (!best)
            return 0;
        if (!race->filter->tenant.len)
            race->store->last_tenant = best->line->tenant_id;
        int rc = 0;
        if (is_blocked(race, best))
            race->passed_over++;
        else
            rc = take(race, best, err);
        if (rc == 0)
            rc = advance(race, best, err);
        if (rc != 0)
            return rc;
    }
    for (size_t i = 0; i < race->n; i++)
        page->more |= race->runners[i].has_row;
    return 0;
}

static int race(struct page_maker *maker, const struct claim_filter *filter, size_t limit,
                const struct lined_up *lined_up, struct redrive_err *err)
{
    struct race race = {.store = maker->store, .filter = filter, .maker = maker};
    int rc = 0;
    for (size_t i = 0; i < lined_up->n && rc == 0; i++)
        rc = enter(&race, lined_up->lines[i], err);
    if (rc == 0)
        rc = run_race(&race, limit, err);
    for (size_t i = 0; i < race.n; i++)
        sqlite3_reset(race.runners[i].cursor);
    return rc;
}

int sqlite_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                 struct redrive_err *err)
{
    size_t limit = filter->limit < CLAIM_MAX ? filter->limit : CLAIM_MAX;
    struct page_maker maker;
    struct lined_up lined_up;
    job_page_release(ret);
    int rc = unit_needed(store, err);
    if (rc == 0)
        rc = read_pauses(store, err);
    if (rc == 0)
        rc = page_start(&maker, store, ret, limit, err);
    if (rc == 0)
        rc = line_up(store, filter, &lined_up, err);
    if (rc == 0 && lined_up.are_all && lined_up.n <= CURSORS_MAX)
        rc = race(&maker, filter, limit, &lined_up, err);
    else if (rc == 0)
        rc = turns_take(&maker, filter, limit, lined_up.are_all ? lined_up.lines : NULL, lined_up.n,
                        err);
    if (rc != 0)
        job_page_release(ret);
    return rc;
}
