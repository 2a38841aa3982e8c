/* search.c - lists jobs in steps that get larger while they are quick. */
#include "api/search.h"

#include "base/time/clock.h"
#include "store/plan.h"

/* So many jobs of a task or a queue are looked at in one step, wherever they are. */
#define FEW_OF_TASK 1000

/* Where an index leads past most jobs the first step goes so many times as far. */
#define INDEXED_STEP 8

/* A step that takes less is followed by one of twice the size, or, where an index leads past most
 * jobs, of 64 times the size. */
#define STEP_MS       25
#define QUICK_STEP_MS 4

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
           !job_filter_has_condition(&rest);
}

/* Steps go back from the newest job. */
static int begin_steps(struct search *s, struct redrive_err *err)
{
    const struct job_filter newest = {
        .tenant = s->filter.tenant, .order = ORDER_NEWEST, .limit = 1, .skips_unreadable = true};
    RELEASED_BY(job_page_release) struct job_page page = {0};
    s->in_steps = true;
    const int rc = store_ops(s->store)->list(s->store, &newest, &page, err);
    s->is_over = rc == 0 && page.n == 0;
    if (page.n > 0)
        s->filter.after_seq = page.jobs[0].status.seq + 1;
    return rc;
}

/* The counts are read once for a search: what they say goes on with the cursor. */
static int plan(struct search *search, struct redrive_err *err)
{
    struct job_filter *f = &search->filter;
    struct filter_sums sums;
    const int rc = job_filter_plan(search->store, f, &sums, err);
    if (rc < 0)
        return rc;
    search->is_over = rc == 0;
    if (search->is_over || f->order != ORDER_NEWEST || f->is_few || is_user_alone(search) ||
        sums.own <= SEARCH_STEP)
        return 0;
    if (is_indexed(search) && f->is_rare && sums.matching <= FEW_OF_TASK)
        return 0;
    if (is_indexed(search) && (job_filter_has_error(f) || f->user.len > 0))
        search->step *= INDEXED_STEP;
    return begin_steps(search, err);
}

int search_init(struct search *search, struct store *store, const struct job_filter *filter,
                struct redrive_err *err)
{
    *search = (struct search){
        .store = store, .filter = *filter, .began_ms = clock_monotonic_ms(), .step = SEARCH_STEP};
    struct job_filter *f = &search->filter;
    f->skips_unreadable = f->id.len == 0;
    search->is_over = !job_filter_narrow_states(f);
    if (search->is_over || f->id.len > 0 || f->unique_key.len > 0 || !job_filter_has_condition(f))
        return 0;
    if (f->after_seq == 0)
        return plan(search, err);
    search->in_steps = f->order == ORDER_NEWEST && !f->is_few && !is_user_alone(search);
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
    if (page->unreadable && search->n_unreadable == 0)
        search->unreadable = *page->unreadable;
    search->n_unreadable += page->n_unreadable;
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
