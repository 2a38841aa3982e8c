/* claim_totals.h - what a claim has been given so far, against the limits of its filter; for stores
 * only.
 *
 * A task is known by its place among the tasks of the filter. Where the filter limits no task every
 * place is as good as any other, and nothing is counted.
 */
#ifndef STORE_CLAIM_TOTALS_H
#define STORE_CLAIM_TOTALS_H

#include <stdbool.h>
#include <stddef.h>

#include "store/page.h"

struct claim_totals {
    const struct claim_filter *filter;
    size_t *of_task; /* how many were given; NULL: no task has a limit */
    size_t n;
    size_t bytes;
};

/* False: there is no memory. */
bool claim_totals_init(struct claim_totals *totals, const struct claim_filter *filter);
void claim_totals_release(struct claim_totals *totals);

/* Whether the task has as many as it may. */
static inline bool claim_totals_is_full(const struct claim_totals *totals, size_t task)
{
    return totals->of_task && totals->of_task[task] >= totals->filter->task_limits[task];
}

/* Whether the bytes allow a job; the first one they always do. */
static inline bool claim_totals_fits(const struct claim_totals *totals, size_t payload_len)
{
    const size_t max = totals->filter->max_bytes;
    return totals->n == 0 || max == 0 || totals->bytes + job_bytes(payload_len) <= max;
}

static inline void claim_totals_add(struct claim_totals *totals, size_t task, size_t payload_len)
{
    totals->n++;
    totals->bytes += job_bytes(payload_len);
    if (totals->of_task)
        totals->of_task[task]++;
}

#endif
