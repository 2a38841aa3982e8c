/* claim.c - ready jobs: of the one partition that has any, or merged from several. */
#include <stdlib.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "store/page.h"
#include "store/postgres/private.h"

/* A claim looks at the best jobs of each partition that it wants, merges these, and locks as many
 * as were asked for. Jobs that another transaction has locked are skipped, and count as looked at:
 * when too few are left, more are looked at, up to LOOK_MAX. The next CROWDED_FOR claims then look
 * at more from the start. */
#define LOOK_MAX      ((int64_t)65536)
#define CROWDED_FOR   32
#define CROWDED_LOOKS 4

/* While one partition has all ready jobs, a claim is a single scan. After a claim that found others
 * this many claims do not try it. */
#define SEVERAL_FOR 64

/* Beside the columns of a job, in the result of a scan of one partition. */
enum {
    PARTITION_COLUMN_ALONE =
        JOB_COLUMN_COUNT,    /* it is the only one that has jobs, and not paused */
    PARTITION_COLUMN_MORE,   /* it has more than were asked for */
    PARTITION_COLUMN_ANSWER, /* shared version and time */
    PARTITION_COLUMN_WAY_US = PARTITION_COLUMN_ANSWER + 2,
    PARTITION_COLUMN_LIMIT_SUMS,
};

/* Beside the columns of a job, in the result of a claim among partitions. */
enum {
    COLUMN_TENANT_ID = JOB_COLUMN_COUNT,
    COLUMN_LOOKED,
    COLUMN_TURNS,
    COLUMN_TURN,
    COLUMN_ANSWER, /* shared version and time */
    COLUMN_LIMIT_SUMS = COLUMN_ANSWER + 2,
};

static void add_names(struct args *args, const struct str *names, size_t n)
{
    pg_args_array(args, ARG_TEXT);
    for (size_t i = 0; i < n; i++)
        pg_item_name(args, names[i]);
    pg_args_array_end(args);
}

/* How many more are looked at than are given, in place of jobs that other transactions have locked.
 */
static int64_t beyond(int64_t look, int64_t limit)
{
    return look - 1 > limit ? look - 1 - limit : 0;
}

static void add_task_limits(struct args *args, const struct claim_filter *filter, int64_t more)
{
    pg_args_array(args, ARG_INT8);
    for (size_t i = 0; i < filter->n_tasks; i++) {
        const size_t limit = filter->task_limits[i];
        pg_item_int8(args, limit < (size_t)LOOK_MAX ? (int64_t)limit : LOOK_MAX);
    }
    pg_args_array_end(args);
    pg_args_int8(args, more);
}

/* Builds the arguments of a claim that looks at `look` jobs of up to `turns` tenants. With limits
 * of tasks the result may have jobs beyond them. Jobs that cannot be read are among those that a
 * task is given: as many more are asked for. */
static enum statement ask_for(struct store *store, const struct claim_filter *filter, int64_t limit,
                              int64_t look, int64_t turns)
{
    static const enum statement STATEMENTS[2][2] = {
        {STATEMENT_READY_IN_TURN, STATEMENT_READY_IN_TURN_LIMITED},
        {STATEMENT_READY_OF_TENANT, STATEMENT_READY_OF_TENANT_LIMITED},
    };
    struct args *args = &store->args;
    const bool of_tenant = filter->tenant.len > 0, is_limited = filter->task_limits != NULL;
    const int64_t more = beyond(look, limit) + store->n_unreadable;
    if (of_tenant)
        pg_args_name(args, filter->tenant);
    else
        pg_args_int4(args, (int32_t)store->last_tenant);
    add_names(args, filter->queues, filter->n_queues);
    add_names(args, filter->tasks, filter->n_tasks);
    pg_args_int8(args, look);
    pg_args_int8(args, is_limited ? limit + more : limit);
    pg_args_int8(args, turns);
    if (is_limited)
        add_task_limits(args, filter, more);
    return STATEMENTS[of_tenant][is_limited];
}

static int claim(struct store *store, const struct claim_filter *filter, int64_t limit,
                 int64_t look, int64_t turns, const PGresult **ret, struct redrive_err *err)
{
    int rc = pg_rows_flush_seen(store, err);
    if (rc == 0)
        rc = pg_run(store, ask_for(store, filter, limit, look, turns), ret, err);
    return rc == 0 ? pg_answer_check(store, *ret, COLUMN_ANSWER, err) : rc;
}

/* ---- What is given of what was found --------------------------------------------------------- */

/* After a claim that read big jobs in vain fewer are asked for, until they fit again. */
static void note_size(struct store *store, size_t n, bool is_too_big)
{
    if (is_too_big)
        store->fits = (int64_t)n;
    else if (store->fits > 0)
        store->fits = store->fits * 2 < LOOK_MAX ? store->fits * 2 : 0;
}

/* Leaves those jobs in the page that the limits of the filter allow. True: there are more jobs that
 * the limits of their tasks would allow. */
static bool choose(struct store *store, struct claim_totals *totals, size_t limit,
                   struct job_page *page)
{
    const struct claim_filter *filter = totals->filter;
    bool is_too_big = false, is_cut = false;
    for (size_t i = 0; i < page->n; i++) {
        const struct job *job = &page->jobs[i];
        const size_t task = claim_find(filter->tasks, filter->n_tasks, job->spec.task);
        const bool is_asked_for = task < filter->n_tasks || !filter->task_limits;
        if (!is_asked_for || claim_totals_is_full(totals, task) ||
            pg_row_is_moved(store, job->status.seq))
            continue;
        is_too_big = !claim_totals_fits(totals, job->spec.payload.len);
        is_cut = is_too_big || totals->n == limit;
        if (is_cut)
            break;
        page->jobs[totals->n] = *job;
        claim_totals_add(totals, task, job->spec.payload.len);
    }
    page->n = totals->n;
    note_size(store, totals->n, is_too_big);
    return is_cut;
}

/* The row of a job that the result has, from a row on: the jobs of a page are in its order. */
static int row_of(const PGresult *result, int from, const struct job *job)
{
    while (pg_get_int(result, from, COLUMN_SEQ) != job->status.seq)
        from++;
    return from;
}

/* The next claim starts after the last tenant whose first job was given, unless a tenant before it
 * was left out. */
static void pass_turn(struct store *store, const PGresult *result,
                      const struct claim_filter *filter, const struct job_page *given)
{
    const bool is_limited = filter->task_limits != NULL;
    if (given->n == 0)
        return;
    int row = row_of(result, 0, &given->jobs[0]);
    const int64_t first = pg_get_int(result, row, COLUMN_TENANT_ID);
    int64_t last = first, turn = pg_get_int(result, row, COLUMN_TURN);
    for (size_t i = 1; i < given->n; i++) {
        row = row_of(result, row, &given->jobs[i]);
        const int64_t tenant_id = pg_get_int(result, row, COLUMN_TENANT_ID);
        if (tenant_id == first || (is_limited && pg_get_int(result, row, COLUMN_TURN) != ++turn))
            break;
        last = tenant_id;
    }
    store->last_tenant = last;
}

/* How many to look at: more than are given while other transactions lock many. */
static int64_t first_look(struct store *store, int64_t limit)
{
    if (store->crowded == 0)
        return limit;
    store->crowded--;
    return CROWDED_LOOKS * limit;
}

/* ---- A single partition ---------------------------------------------------------------------- */

/* A claim while one partition has all ready jobs: a single scan.
 *
 * Jobs that were started leave dead entries in the index, which a scan has to pass until they are
 * vacuumed. While another session holds an old snapshot they cannot be vacuumed, and every claim
 * would pass all of them. If the first job took long to find twice in a row, the next claims begin
 * where it was found, for BEGIN_THERE_FOR times as long as it took, at most a second. So a job of
 * the same priority that comes back before that place waits for up to that time. */
#define LONG_WAY_US     2000
#define LONG_WAY_TWICE  2
#define BEGIN_THERE_FOR 20
#define BEGIN_THERE_MAX INT64_C(1000000)

/* How many jobs the result of a claim has. Without any it is one row of NULLs, which has what was
 * looked at. */
static int64_t count_given(const PGresult *result)
{
    return PQgetisnull(result, 0, COLUMN_SEQ) ? 0 : PQntuples(result);
}

/* Whether a claim may begin where the last one found its first job. */
static bool begins_there(const struct store *store, const struct partition *partition)
{
    return store->head.partition_id == partition->id && store->head.long_ways >= LONG_WAY_TWICE &&
           clock_monotonic_ns() < store->head.until_ns;
}

static void add_partition(struct args *args, const struct partition *partition, int64_t limit)
{
    pg_args_int4(args, (int32_t)partition->id);
    pg_args_name(args, partition->tenant);
    pg_args_name(args, partition->queue);
    pg_args_int8(args, limit);
}

static int scan_partition(struct store *store, const struct partition *partition, int64_t limit,
                          bool there, const PGresult **ret, struct redrive_err *err)
{
    struct args *args = &store->args;
    int rc = pg_rows_flush_seen(store, err);
    if (rc != 0)
        return rc;
    add_partition(args, partition, limit);
    if (there) {
        pg_args_int4(args, store->head.priority);
        pg_args_int8(args, store->head.seq);
    }
    rc = pg_run(store, there ? STATEMENT_READY_ALONE_FROM : STATEMENT_READY_ALONE, ret, err);
    return rc == 0 ? pg_answer_check(store, *ret, PARTITION_COLUMN_ANSWER, err) : rc;
}

/* Notes where the first job was found, and how long that took if it was from the beginning of the
 * partition. */
static void note_head(struct store *store, const PGresult *result,
                      const struct partition *partition, bool there)
{
    struct head *head = &store->head;
    const int64_t way_us = pg_get_int(result, 0, PARTITION_COLUMN_WAY_US);
    if (!there) {
        const bool is_long = way_us >= LONG_WAY_US;
        const int64_t trust_us =
            way_us * BEGIN_THERE_FOR < BEGIN_THERE_MAX ? way_us * BEGIN_THERE_FOR : BEGIN_THERE_MAX;
        head->long_ways = !is_long                              ? 0
                          : head->partition_id == partition->id ? head->long_ways + 1
                                                                : 1;
        head->until_ns = clock_monotonic_ns() + trust_us * 1000;
    }
    head->partition_id = partition->id;
    head->priority = (int32_t)pg_get_int(result, 0, COLUMN_PRIORITY);
    head->seq = pg_get_int(result, 0, COLUMN_SEQ);
}

/* Locks the best jobs of a partition, if it is the only one that has any. It scans from where the
 * first job was found last, or from the beginning if that is not known or gave too few. */
static int scan_best(struct store *store, const struct partition *partition, int64_t limit,
                     const PGresult **ret, struct redrive_err *err)
{
    for (bool there = begins_there(store, partition);; there = false) {
        int rc = scan_partition(store, partition, limit, there, ret, err);
        if (rc != 0)
            return rc;
        const int64_t given = count_given(*ret);
        if (there && given < limit)
            continue;
        if (given > 0)
            note_head(store, *ret, partition, there);
        return 0;
    }
}

/* ---- The only partition that has jobs ----------------------------------------------------------
 */

static bool is_among(const struct str *names, size_t n, struct str name)
{
    return n == 0 || claim_find(names, n, name) < n;
}

/* The partition that had all jobs of the last claim, if the filter wants it. */
static const struct partition *partition_to_try(struct store *store,
                                                const struct claim_filter *filter)
{
    if (store->several > 0) {
        store->several--;
        return NULL;
    }
    const struct partition *partition = partitions_at(&store->partitions, store->one_partition);
    const bool is_wanted = partition &&
                           (filter->tenant.len == 0 || str_eq(filter->tenant, partition->tenant)) &&
                           is_among(filter->queues, filter->n_queues, partition->queue) &&
                           is_among(filter->tasks, filter->n_tasks, partition->task);
    return is_wanted ? partition : NULL;
}

static void note_partition(struct store *store, const PGresult *result, int64_t given)
{
    store->one_partition = given > 0 ? pg_get_int(result, 0, COLUMN_PARTITION_ID) : 0;
    for (int64_t i = 1; i < given && store->one_partition != 0; i++)
        if (pg_get_int(result, (int)i, COLUMN_PARTITION_ID) != store->one_partition)
            store->one_partition = 0;
}

static int best_first(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    if (x->spec.priority != y->spec.priority)
        return x->spec.priority > y->spec.priority ? -1 : 1;
    return x->status.seq < y->status.seq ? -1 : x->status.seq > y->status.seq;
}

/* The scan gives jobs in order, and the joins keep it. SQL does not guarantee that, and an ORDER BY
 * would cost more than this check. */
static void put_in_order(struct job_page *page)
{
    for (size_t i = 1; i < page->n; i++) {
        if (best_first(&page->jobs[i - 1], &page->jobs[i]) > 0) {
            qsort(page->jobs, page->n, sizeof *page->jobs, best_first);
            return;
        }
    }
}

/* The sums of the limits of a page's jobs, which are rows of the result. */
static int add_limits(const PGresult *result, int column, struct job_page *page,
                      struct redrive_err *err)
{
    int row = 0;
    for (size_t i = 0; i < page->n; i++, row++) {
        const struct job_spec *spec = &page->jobs[i].spec;
        row = row_of(result, row, &page->jobs[i]);
        const int64_t sums = pg_get_int(result, row, column);
        const struct limit_sums limit = {
            spec->tenant, spec->limit_key, {sums >> 32, (int64_t)(uint32_t)sums}};
        if (!PQgetisnull(result, row, column))
            job_page_add_limit(page, &limit);
    }
    return page->arena.failed ? err_nomem(err) : 0;
}

/* Fills the page with the jobs of a result that the filter allows. */
static int give(struct store *store, const struct claim_filter *filter, const PGresult *result,
                int64_t limit, bool takes_turns, struct job_page *ret, bool *ret_cut,
                struct redrive_err *err)
{
    struct claim_totals totals;
    int rc = pg_page_fill_readable(store, result, SIZE_MAX, ret, err);
    if (rc == 0)
        rc = add_limits(result, takes_turns ? COLUMN_LIMIT_SUMS : PARTITION_COLUMN_LIMIT_SUMS, ret,
                        err);
    if (rc == 0)
        rc = pg_rows_keep(store, result, err);
    if (rc != 0)
        return rc;
    if (!claim_totals_init(&totals, filter))
        return err_nomem(err);
    if (!takes_turns)
        put_in_order(ret);
    *ret_cut =
        choose(store, &totals, filter->limit < (size_t)limit ? filter->limit : (size_t)limit, ret);
    if (takes_turns && filter->tenant.len == 0)
        pass_turn(store, result, filter, ret);
    claim_totals_release(&totals);
    return 0;
}

/* How many of the partition a claim may have, with those that cannot be read. */
static int64_t limit_of_partition(const struct store *store, const struct claim_filter *filter,
                                  const struct partition *partition, int64_t limit)
{
    if (!filter->task_limits)
        return limit;
    const size_t own =
        filter->task_limits[claim_find(filter->tasks, filter->n_tasks, partition->task)];
    const int64_t most = own < (size_t)limit ? (int64_t)own + store->n_unreadable : limit;
    return most < limit ? most : limit;
}

/* Fills the page from a scan of the partition. 1: it was the only one with jobs, the page is done.
 */
static int give_partition(struct store *store, const struct partition *partition,
                          const struct claim_filter *filter, int64_t all, const PGresult *result,
                          struct job_page *ret, struct redrive_err *err)
{
    bool is_cut = false;
    int rc = 0;
    if (!pg_get_bool(result, 0, PARTITION_COLUMN_ALONE)) {
        store->one_partition = 0;
        store->several = SEVERAL_FOR;
        return 0;
    }
    const int64_t given = count_given(result);
    const bool more = given == all && pg_get_bool(result, 0, PARTITION_COLUMN_MORE);
    store->last_tenant = partition->tenant_id;
    if (given > 0)
        rc = give(store, filter, result, limit_of_partition(store, filter, partition, all), false,
                  ret, &is_cut, err);
    ret->more = rc == 0 && (more || is_cut);
    return rc == 0 ? 1 : rc;
}

static int claim_alone(struct store *store, const struct partition *partition,
                       const struct claim_filter *filter, int64_t all, struct job_page *ret,
                       struct redrive_err *err)
{
    const PGresult *result = NULL;
    int rc = scan_best(store, partition, limit_of_partition(store, filter, partition, all), &result,
                       err);
    return rc == 0 ? give_partition(store, partition, filter, all, result, ret, err) : rc;
}

/* ---- Any partitions -------------------------------------------------------------------------- */

/* What a claim among partitions has looked at. */
struct looked {
    int64_t look; /* this many at the most, of the jobs of this many tenants */
    int64_t turns;
    int64_t given;
    int64_t jobs; /* that there were */
    int64_t tenants;
};

/* Whether to look again, at more: too few were given, and not all jobs were looked at. Where tasks
 * have limits one job is enough, because jobs beyond the limits are not looked at either. */
static bool looks_on(const struct claim_filter *filter, int64_t limit, const struct looked *now,
                     int64_t jobs_before)
{
    const int64_t enough = filter->task_limits ? 1 : limit;
    if (now->given >= enough || now->look >= LOOK_MAX)
        return false;
    const bool has_more = filter->task_limits ? now->jobs != jobs_before : now->jobs >= now->look;
    return has_more || now->tenants > now->turns;
}

/* `*ret`: what the first look has found, or NULL. */
static int look_for(struct store *store, const struct claim_filter *filter, int64_t limit,
                    struct looked *now, const PGresult **ret, struct redrive_err *err)
{
    int64_t before = 0;
    for (bool is_there = *ret != NULL;; is_there = false) {
        int rc = is_there ? 0 : claim(store, filter, limit, now->look, now->turns, ret, err);
        if (rc != 0)
            return rc;
        now->given = count_given(*ret);
        now->jobs = pg_get_int(*ret, 0, COLUMN_LOOKED);
        now->tenants = pg_get_int(*ret, 0, COLUMN_TURNS);
        if (!looks_on(filter, limit, now, before))
            return 0;
        if (now->jobs == now->look || filter->task_limits)
            store->crowded = CROWDED_FOR;
        before = now->jobs;
        now->look = now->look * 4 < LOOK_MAX ? now->look * 4 : LOOK_MAX;
        now->turns = now->tenants;
    }
}

/* `look` is one more than needed, which shows whether there are more. `result`: that of such a look
 * if it was made already, or NULL. */
static int claim_any(struct store *store, const struct claim_filter *filter, int64_t limit,
                     int64_t look, const PGresult *result, struct job_page *ret,
                     struct redrive_err *err)
{
    struct looked now = {.look = look, .turns = limit};
    bool is_cut = false;
    int rc = look_for(store, filter, limit, &now, &result, err);
    if (rc != 0)
        return rc;
    if (now.given > 0)
        rc = give(store, filter, result, limit, true, ret, &is_cut, err);
    note_partition(store, result, now.given);
    const bool has_locked = filter->task_limits && now.given > 0 && now.jobs > now.given;
    ret->more =
        rc == 0 && (is_cut || has_locked || now.jobs == now.look || now.tenants > now.turns ||
                    (now.given >= limit && now.jobs > now.given));
    return rc;
}

/* ---- Sent with the commit before --------------------------------------------------------- */

/* How many are asked for, with those that cannot be read. */
static int64_t limit_of(const struct store *store, const struct claim_filter *filter)
{
    int64_t limit = filter->limit < (size_t)LOOK_MAX ? (int64_t)filter->limit : LOOK_MAX;
    if (filter->max_bytes > 0 && store->fits > 0 && store->fits < limit)
        limit = store->fits;
    return limit > 0 ? limit + store->n_unreadable : 0;
}

/* The filter as bytes, without its limits, to compare two claims. */
static void name_filter(struct args *args, const struct claim_filter *filter)
{
    pg_args_reset(args);
    pg_args_name(args, filter->tenant);
    add_names(args, filter->queues, filter->n_queues);
    add_names(args, filter->tasks, filter->n_tasks);
}

bool pg_claim_ahead(struct store *store, const struct claim_filter *filter)
{
    struct ahead *next = &store->next;
    const int64_t limit = limit_of(store, filter);
    if (filter->task_limits || limit == 0)
        return false;
    next->limit = next->wanted > limit ? next->wanted : limit;
    next->look = first_look(store, next->limit) + 1;
    name_filter(&next->filter, filter);
    const struct partition *partition = partition_to_try(store, filter);
    next->partition_id = partition ? partition->id : 0;
    next->statement = partition ? STATEMENT_READY_ALONE
                                : ask_for(store, filter, next->limit, next->look, next->limit);
    /* Only a scan from the beginning of the partition is sent ahead. */
    const bool is_whole = !partition || !begins_there(store, partition);
    if (partition && is_whole)
        add_partition(&store->args, partition, next->limit);
    return is_whole && !buf_failed(&store->args.bytes) && !buf_failed(&next->filter.bytes);
}

int64_t pg_claim_version(const struct ahead *next)
{
    return pg_get_int(next->result, 0,
                      next->partition_id != 0 ? PARTITION_COLUMN_ANSWER : COLUMN_ANSWER);
}

/* Whether the claim was sent with the commit before, and found as many as are wanted. Not if the
 * transaction has written anything since, such as a pause, which that claim has not seen. */
static bool is_ahead(struct store *store, const struct claim_filter *filter, int64_t limit)
{
    struct ahead *next = &store->next;
    if (!next->result || store->writes || filter->task_limits)
        return false;
    name_filter(&store->args, filter);
    const bool is_same = str_eq(buf_str(&store->args.bytes), buf_str(&next->filter.bytes));
    pg_args_reset(&store->args);
    if (!is_same)
        return false;
    /* The expected number grows at once, and falls slowly. */
    const int64_t less = next->wanted - limit;
    next->wanted = less > 0 ? next->wanted - (less + 7) / 8 : limit;
    if (limit <= next->limit)
        return true;
    PQclear(next->result);
    next->result = NULL;
    return false;
}

/* Gives what the claim that was sent ahead has found. 1: the page is done. */
static int claim_ahead(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                       struct redrive_err *err)
{
    struct ahead *next = &store->next;
    const PGresult *result = next->result;
    pg_forget_results(store);
    if (!pg_keep_result(store, next->result))
        return err_nomem(err);
    next->result = NULL;
    next->misses = 0;
    if (next->partition_id == 0) {
        int rc = claim_any(store, filter, next->limit, next->look, result, ret, err);
        return rc == 0 ? 1 : rc;
    }
    const struct partition *partition = partitions_at(&store->partitions, next->partition_id);
    if (!partition)
        return 0;
    if (count_given(result) > 0)
        note_head(store, result, partition, false);
    return give_partition(store, partition, filter, next->limit, result, ret, err);
}

static int claim_once(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                      struct redrive_err *err)
{
    const int64_t limit = limit_of(store, filter);
    int rc = 0;
    job_page_release(ret);
    if (limit == 0)
        return 0;
    if (is_ahead(store, filter, limit))
        rc = claim_ahead(store, filter, ret, err);
    const struct partition *partition = rc == 0 ? partition_to_try(store, filter) : NULL;
    if (partition)
        rc = claim_alone(store, partition, filter, limit, ret, err);
    if (rc == 0)
        rc = claim_any(store, filter, limit, first_look(store, limit) + 1, NULL, ret, err);
    return rc < 0 ? rc : 0;
}

/* Jobs that cannot be read take the places of others: as many more are asked for, from the start if
 * the claim before has met them. */
int postgres_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                   struct redrive_err *err)
{
    int rc = pg_transaction_needed(store, err);
    job_page_release(ret);
    for (bool is_short = true; rc == 0 && is_short;) {
        const int64_t expected = store->n_unreadable;
        rc = claim_once(store, filter, ret, err);
        const int64_t met = (int64_t)ret->n_unreadable;
        is_short = met > expected && met < LOOK_MAX && ret->n < filter->limit;
        store->n_unreadable = !is_short ? met : 2 * met < LOOK_MAX ? 2 * met : LOOK_MAX;
    }
    pg_time_passes(store);
    return rc;
}
