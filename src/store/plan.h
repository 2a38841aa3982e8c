/* plan.h - what the counts of a store say about the jobs of a filter, before they are listed.
 *
 * A list looks at one job after the other until its page is full. Where few match, that may be all
 * jobs of the store. The store keeps counts of its jobs by tenant, queue, task and state: they say
 * whether there is anything to find, and whether the jobs of the filter's states, or of its task or
 * queue, are so few that a store may look at these alone. Whatever lists jobs by a filter that may
 * match few of them asks here first.
 */
#ifndef STORE_PLAN_H
#define STORE_PLAN_H

#include "store/store.h"

struct filter_sums {
    uint64_t own;       /* jobs of the tenant; its place is the shard that has them, or the store */
    uint64_t matching;  /* of these, with the filter's states, task and queue */
    uint64_t in_states; /* jobs of all tenants of its place in the filter's states */
    uint64_t all;       /* jobs of its place */
    uint64_t parked;    /* of these, parked */
};

/* Whether it asks for more than the jobs of a tenant, or all. Filters by name do not count. */
bool job_filter_has_condition(const struct job_filter *filter);
/* Whether it asks for an error that stores find by an index. */
bool job_filter_has_error(const struct job_filter *filter);

/* Leaves of its states those that its jobs can be in. False: there is no such job. */
bool job_filter_narrow_states(struct job_filter *filter);

/* Sets the hints of a filter from the counts, and narrows its states. 1; 0: no job matches; or a
 * negative code. Filters by name and those without a condition stay as they are. `ret` may be
 * NULL. */
int job_filter_plan(struct store *store, struct job_filter *filter, struct filter_sums *ret,
                    struct redrive_err *err);

#endif
