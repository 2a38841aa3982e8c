/* search.c - lists jobs in steps that get larger while they are quick. */
#include "server/rest/search.h"

#include "base/time/clock.h"

/* So many jobs of some states are few. */
#define FEW 20000
/* So many jobs of a task or a queue are looked at in one step, wherever they are. */
#define FEW_OF_TASK 1000

/* Where an index leads past most jobs the first step goes so many times as far. */
#define INDEXED_STEP 8

/* A step that takes less is followed by one of twice the size, or, where an index leads past most
 * jobs, of 64 times the size. */
#define STEP_MS       25
#define QUICK_STEP_MS 4

#define STATE_BIT(state) (1u << REDRIVE_STATE_##state)
#define ALL_STATES       ((1u << REDRIVE_STATE_COUNT) - 1)
#define ENDED_STATES     (2 * STATE_BIT(CANCELLED) - STATE_BIT(COMPLETED))

/* ---- What the counts say --------------------------------------------------------------------- */

struct sums {
    uint64_t own;       /* jobs of the tenant */
    uint64_t matching;  /* of these, with the filter's states, task and queue */
    uint64_t in_states; /* jobs of all tenants in the filter's states */
    uint64_t all;
    uint64_t parked; /* of these, parked */
};

static int read_sums(struct store *store, const struct job_filter *f, struct sums *ret,
                     struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page page = {0};
    const int rc = store_ops(store)->counts(store, COUNT_PARTITIONS, (struct str){0}, &page, err);
    *ret = (struct sums){0};
    for (size_t i = 0; i < page.n && rc == 0; i++) {
        const struct job_count *line = &page.counts[i];
        const bool is_own = f->tenant.len == 0 || str_eq(f->tenant, line->tenant);
        const bool matches = is_own && (f->task.len == 0 || str_eq(f->task, line->task)) &&
                             (f->queue.len == 0 || str_eq(f->queue, line->queue));
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++) {
            const bool in_states = f->states == 0 || f->states >> state & 1;
            const uint64_t n = line->by_state[state];
            ret->all += n;
            ret->parked += state == REDRIVE_STATE_PARKED ? n : 0;
            ret->own += is_own ? n : 0;
            ret->in_states += in_states ? n : 0;
            ret->matching += matches && in_states ? n : 0;
        }
    }
    return rc;
}

static bool has_condition(const struct job_filter *f)
{
    return f->task.len > 0 || f->queue.len > 0 || f->user.len > 0 || f->states != 0 ||
           f->classes != 0 || f->reasons != 0 || f->error_type.len > 0 || f->text.len > 0 ||
           f->fingerprint != 0 || f->finished_after_ms != 0 || f->finished_before_ms != 0;
}

/* Whether stores find the jobs of its error by an index. */
static bool has_error_index(const struct job_filter *f)
{
    return f->classes != 0 || f->error_type.len > 0 || f->fingerprint != 0;
}

static bool is_indexed(const struct search *search)
{
    return store_ops(search->store)->capabilities & STORE_INDEXED;
}

/* Whether the store finds its jobs, and no others, by an index: a page takes one step. */
static bool is_user_alone(const struct search *search)
{
    struct job_filter rest = search->filter;
    rest.user = (struct str){0};
    return is_indexed(search) && search->filter.user.len > 0 && rest.tenant.len > 0 &&
           !has_condition(&rest);
}

/* Steps go back from the newest job. */
static int begin_steps(struct search *s, struct redrive_err *err)
{
    const struct job_filter newest = {
        .tenant = s->filter.tenant, .order = ORDER_NEWEST, .limit = 1};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    s->in_steps = true;
    const int rc = store_ops(s->store)->list(s->store, &newest, &page, err);
    s->is_over = rc == 0 && page.n == 0;
    if (page.n > 0)
        s->filter.after_seq = page.jobs[0].status.seq + 1;
    return rc;
}

/* The states that jobs of the filter can be in; none: there is no such job. Only a job that has
 * ended has a time of its end, and only one that has ended without success has a reason. */
static uint32_t possible_states(const struct job_filter *f)
{
    uint32_t states = f->states ? f->states : ALL_STATES;
    if (f->finished_after_ms != 0 || f->finished_before_ms != 0)
        states &= ENDED_STATES;
    if (f->reasons != 0 && !(f->reasons & 1u << REDRIVE_REASON_NONE))
        states &= ENDED_STATES & ~STATE_BIT(COMPLETED);
    return states;
}

/* The counts are read once for a search: what they say goes on with the cursor. */
static int plan(struct search *search, struct redrive_err *err)
{
    struct job_filter *f = &search->filter;
    struct sums sums;
    const int rc = read_sums(search->store, f, &sums, err);
    if (rc < 0)
        return rc;
    search->is_over = sums.matching == 0;
    f->is_few = f->states != 0 && sums.in_states <= FEW && !has_error_index(f);
    f->is_rare =
        sums.matching <= FEW && sums.parked <= FEW && (f->task.len > 0 || f->queue.len > 0);
    f->is_most = 2 * sums.own >= sums.all;
    if (search->is_over || f->is_few || is_user_alone(search) || sums.own <= SEARCH_STEP)
        return 0;
    if (is_indexed(search) && f->is_rare && sums.matching <= FEW_OF_TASK)
        return 0;
    if (is_indexed(search) && (has_error_index(f) || f->user.len > 0))
        search->step *= INDEXED_STEP;
    return begin_steps(search, err);
}

int search_init(struct search *search, struct store *store, const struct job_filter *filter,
                struct redrive_err *err)
{
    *search = (struct search){
        .store = store, .filter = *filter, .began_ms = clock_monotonic_ms(), .step = SEARCH_STEP};
    struct job_filter *f = &search->filter;
    const uint32_t states = possible_states(f);
    f->states = states == ALL_STATES ? 0 : states;
    search->is_over = states == 0;
    if (search->is_over || f->order != ORDER_NEWEST || f->id.len > 0 || f->unique_key.len > 0 ||
        !has_condition(f))
        return 0;
    if (f->after_seq == 0)
        return plan(search, err);
    search->in_steps = !f->is_few && !is_user_alone(search);
    return 0;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

int search_next(struct search *search, size_t limit, struct job_page *page, struct redrive_err *err)
{
    struct job_filter *f = &search->filter;
    f->limit = limit;
    search->step_began_ms = clock_monotonic_ms();
    if (search->in_steps)
        f->until_seq = f->after_seq > search->step ? f->after_seq - search->step : 1;
    return store_ops(search->store)->list(search->store, f, page, err);
}

static int growth_after(int64_t took_ms)
{
    if (took_ms >= STEP_MS)
        return 1;
    return took_ms >= QUICK_STEP_MS ? 2 : 64;
}

void search_take(struct search *search, const struct job_page *page, size_t n)
{
    struct job_filter *f = &search->filter;
    const int64_t now_ms = clock_monotonic_ms();
    if (n > 0) {
        f->after_seq = page->jobs[n - 1].status.seq;
        f->after_ms = page->jobs[n - 1].status.finished_ms;
    }
    if (n < page->n || page->more)
        return;
    search->is_over = !search->in_steps || f->until_seq == 1;
    if (search->is_over)
        return;
    f->after_seq = f->until_seq;
    search->step *= growth_after(now_ms - search->step_began_ms);
    search->is_late = now_ms - search->began_ms >= SEARCH_MS;
}

const char *search_cursor(const struct search *search, char out[JOB_CURSOR_MAX])
{
    const struct job at = {
        .status = {.seq = search->filter.after_seq, .finished_ms = search->filter.after_ms}};
    return search->is_over ? NULL : job_cursor_write(&search->filter, &at, out);
}
