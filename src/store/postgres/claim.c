#include <stdlib.h>

#include "base/err.h"
#include "store/claim_totals.h"
#include "store/postgres/private.h"

/* A claim looks at the best jobs of each partition that it wants, merges these, and locks as many
 * as were asked for. Jobs that another transaction has locked are passed over, and count as looked
 * at: when too few are left, more are looked at, up to this many. Where that has happened it will
 * happen again, so that the next claims look at more from the start. */
#define LOOK_MAX      ((int64_t)65536)
#define CROWDED_FOR   32
#define CROWDED_LOOKS 4

/* While one partition has all the jobs that wait, a claim is a single scan. Where that has turned
 * out to be wrong the next claims do not count on it. */
#define SEVERAL_FOR 64

/* Beside the columns of a job, in a result. */
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

/* How many of a look are beyond what is given: for jobs that others have locked. */
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

/* `look` jobs of up to `turns` tenants. Where tasks have limits, what is beyond them is given as
 * well if it had to be looked at. */
static enum statement ask_for(struct store *store, const struct claim_filter *filter, int64_t limit,
                              int64_t look, int64_t turns)
{
    static const enum statement STATEMENTS[2][2] = {
        {STATEMENT_READY_IN_TURN, STATEMENT_READY_IN_TURN_LIMITED},
        {STATEMENT_READY_OF_TENANT, STATEMENT_READY_OF_TENANT_LIMITED},
    };
    struct args *args = &store->args;
    const bool of_tenant = filter->tenant.len > 0, is_limited = filter->task_limits != NULL;
    const int64_t more = beyond(look, limit);
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

/* What the filter's limits leave of a page, and the rows of the result that it came from. */
struct choice {
    struct claim_totals totals;
    int *rows;
    bool is_cut; /* there would have been more that the limits of their tasks allow */
    bool is_too_big;
};

/* False: there is no memory. */
static bool choice_init(struct choice *choice, const struct claim_filter *filter, size_t n)
{
    *choice = (struct choice){.rows = calloc(n + 1, sizeof *choice->rows)};
    if (choice->rows && claim_totals_init(&choice->totals, filter))
        return true;
    free(choice->rows);
    return false;
}

static void choice_release(struct choice *choice)
{
    claim_totals_release(&choice->totals);
    free(choice->rows);
}

static void choose(const struct store *store, struct choice *choice, size_t limit,
                   struct job_page *page)
{
    struct claim_totals *totals = &choice->totals;
    const struct claim_filter *filter = totals->filter;
    for (size_t i = 0; i < page->n; i++) {
        const struct job *job = &page->jobs[i];
        const size_t task = claim_find(filter->tasks, filter->n_tasks, job->spec.task);
        if (claim_totals_is_full(totals, task) || pg_row_is_moved(store, job->status.seq))
            continue;
        choice->is_too_big = !claim_totals_fits(totals, job->spec.payload.len);
        choice->is_cut = choice->is_too_big || totals->n == limit;
        if (choice->is_cut)
            break;
        choice->rows[totals->n] = (int)i;
        page->jobs[totals->n] = *job;
        claim_totals_add(totals, task, job->spec.payload.len);
    }
    page->n = totals->n;
}

/* Once big jobs have been read in vain, fewer are asked for, until they fit again. */
static void note_size(struct store *store, const struct choice *choice)
{
    const int64_t n = (int64_t)choice->totals.n;
    if (choice->is_too_big)
        store->fits = n;
    else if (store->fits > 0)
        store->fits = store->fits * 2 < LOOK_MAX ? store->fits * 2 : 0;
}

/* The last one whose first job is among those that are given has had its turn, as long as no tenant
 * before it was left out. */
static void pass_turn(struct store *store, const PGresult *result, const struct choice *choice)
{
    const bool is_limited = choice->totals.filter->task_limits != NULL;
    if (choice->totals.n == 0)
        return;
    const int64_t first = pg_get_int(result, choice->rows[0], COLUMN_TENANT_ID);
    int64_t last = first, turn = pg_get_int(result, choice->rows[0], COLUMN_TURN);
    for (size_t i = 1; i < choice->totals.n; i++) {
        const int row = choice->rows[i];
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

/* ---- A partition that is alone --------------------------------------------------------------- */

static bool is_among(const struct str *names, size_t n, struct str name)
{
    return n == 0 || claim_find(names, n, name) < n;
}

/* The partition that had all the jobs last time, if that is what the claim is for. */
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

/* They come as the scan gives them, and the joins leave them so. Nobody promises that, and to ask
 * for it would cost more than to look. */
static void put_in_order(struct job_page *page)
{
    for (size_t i = 1; i < page->n; i++) {
        if (best_first(&page->jobs[i - 1], &page->jobs[i]) > 0) {
            qsort(page->jobs, page->n, sizeof *page->jobs, best_first);
            return;
        }
    }
}

/* The sums of the limits of a page's jobs, which are the rows of the result. */
static int add_limits(const PGresult *result, int column, struct job_page *page,
                      struct redrive_err *err)
{
    for (size_t i = 0; i < page->n; i++) {
        const struct job_spec *spec = &page->jobs[i].spec;
        const int64_t sums = pg_get_int(result, (int)i, column);
        const struct limit_sums limit = {
            spec->tenant, spec->limit_key, {sums >> 32, (int64_t)(uint32_t)sums}};
        if (!PQgetisnull(result, (int)i, column))
            job_page_add_limit(page, &limit);
    }
    return page->arena.failed ? err_nomem(err) : 0;
}

/* Fills the page with what is given of the rows of a result. */
static int give(struct store *store, const struct claim_filter *filter, const PGresult *result,
                int64_t limit, bool takes_turns, struct job_page *ret, bool *ret_cut,
                struct redrive_err *err)
{
    struct choice choice;
    int rc = pg_page_fill(store, result, SIZE_MAX, ret, err);
    if (rc == 0)
        rc = add_limits(result, takes_turns ? COLUMN_LIMIT_SUMS : PARTITION_COLUMN_LIMIT_SUMS, ret,
                        err);
    if (rc == 0)
        rc = pg_rows_keep(store, result, err);
    if (rc != 0)
        return rc;
    if (!choice_init(&choice, filter, ret->n))
        return err_nomem(err);
    if (!takes_turns)
        put_in_order(ret);
    choose(store, &choice, filter->limit < (size_t)limit ? filter->limit : (size_t)limit, ret);
    note_size(store, &choice);
    if (takes_turns && filter->tenant.len == 0)
        pass_turn(store, result, &choice);
    *ret_cut = choice.is_cut;
    choice_release(&choice);
    return 0;
}

/* How many of the partition a claim may have. */
static int64_t limit_of_partition(const struct claim_filter *filter,
                                  const struct partition *partition, int64_t limit)
{
    if (!filter->task_limits)
        return limit;
    const size_t own =
        filter->task_limits[claim_find(filter->tasks, filter->n_tasks, partition->task)];
    return own < (size_t)limit ? (int64_t)own : limit;
}

/* What a scan of the partition has found. 1: it was alone, and the page has what there is. */
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
    const int64_t given = pg_ready_given(result);
    const bool more = given == all && pg_get_bool(result, 0, PARTITION_COLUMN_MORE);
    store->last_tenant = partition->tenant_id;
    if (given > 0)
        rc = give(store, filter, result, limit_of_partition(filter, partition, all), false, ret,
                  &is_cut, err);
    ret->more = rc == 0 && (more || is_cut);
    return rc == 0 ? 1 : rc;
}

static int claim_alone(struct store *store, const struct partition *partition,
                       const struct claim_filter *filter, int64_t all, struct job_page *ret,
                       struct redrive_err *err)
{
    const PGresult *result = NULL;
    int rc = pg_partition_scan(store, partition, limit_of_partition(filter, partition, all),
                               &result, err);
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

/* Whether a further look is worth it: too few were given, and not all there are were looked at.
 * Where tasks have limits their jobs are left unlooked at for that, so that a first one is enough.
 */
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
        now->given = pg_ready_given(*ret);
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

/* One more than may be looked at tells whether there are more. `result`: what such a look has found
 * already, or NULL. */
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

/* ---- Together with the commit before --------------------------------------------------------- */

static int64_t limit_of(const struct store *store, const struct claim_filter *filter)
{
    const int64_t limit = filter->limit < (size_t)LOOK_MAX ? (int64_t)filter->limit : LOOK_MAX;
    return filter->max_bytes > 0 && store->fits > 0 && store->fits < limit ? store->fits : limit;
}

/* What a claim looks for, but for how many. */
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
    const bool is_whole = !partition || pg_partition_ahead(store, partition, next->limit);
    return is_whole && !buf_failed(&store->args.bytes) && !buf_failed(&next->filter.bytes);
}

int64_t pg_claim_version(const struct ahead *next)
{
    return pg_get_int(next->result, 0,
                      next->partition_id != 0 ? PARTITION_COLUMN_ANSWER : COLUMN_ANSWER);
}

/* Whether the transaction's claim was sent already, and found as many as are wanted; what the
 * transaction has written since, such as a queue that is paused, is not to be seen there. */
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
    /* It grows at once, and falls slowly. */
    const int64_t less = next->wanted - limit;
    next->wanted = less > 0 ? next->wanted - (less + 7) / 8 : limit;
    if (limit > next->limit)
        pg_ahead_set_aside(store);
    return limit <= next->limit;
}

/* 1: the page has what was found. */
static int claim_ahead(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                       struct redrive_err *err)
{
    const struct ahead *next = &store->next;
    const PGresult *result = pg_ahead_use(store);
    if (!result)
        return err_nomem(err);
    if (next->partition_id == 0) {
        int rc = claim_any(store, filter, next->limit, next->look, result, ret, err);
        return rc == 0 ? 1 : rc;
    }
    const struct partition *partition = partitions_at(&store->partitions, next->partition_id);
    if (!partition)
        return 0;
    pg_partition_scanned(store, partition, result);
    return give_partition(store, partition, filter, next->limit, result, ret, err);
}

int postgres_ready(struct store *store, const struct claim_filter *filter, struct job_page *ret,
                   struct redrive_err *err)
{
    const int64_t limit = limit_of(store, filter);
    job_page_release(ret);
    int rc = pg_transaction_needed(store, err);
    if (rc != 0 || limit == 0)
        return rc;
    if (is_ahead(store, filter, limit))
        rc = claim_ahead(store, filter, ret, err);
    const struct partition *partition = rc == 0 ? partition_to_try(store, filter) : NULL;
    if (partition)
        rc = claim_alone(store, partition, filter, limit, ret, err);
    if (rc == 0)
        rc = claim_any(store, filter, limit, first_look(store, limit) + 1, NULL, ret, err);
    return rc < 0 ? rc : 0;
}
