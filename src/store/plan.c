/* plan.c - what the counts of a store say about the jobs of a filter. */
#include "store/plan.h"

/* So many jobs of some states are few. */
#define FEW 20000

#define STATE_BIT(state) (1u << REDRIVE_STATE_##state)
#define ALL_STATES       ((1u << REDRIVE_STATE_COUNT) - 1)
#define ENDED_STATES     (2 * STATE_BIT(CANCELLED) - STATE_BIT(COMPLETED))

/* Of the place that has the tenant's jobs: the list goes there only, and other shards may be away.
 */
static int read_counts(struct store *store, struct str tenant, struct count_page *ret,
                       struct redrive_err *err)
{
    const struct store_ops *ops = store_ops(store);
    return tenant.len > 0 && ops->counts_around
               ? ops->counts_around(store, COUNT_PARTITIONS, tenant, ret, err)
               : ops->counts(store, COUNT_PARTITIONS, (struct str){0}, ret, err);
}

static int read_sums(struct store *store, const struct job_filter *f, struct filter_sums *ret,
                     struct redrive_err *err)
{
    RELEASED_BY(count_page_release) struct count_page page = {0};
    const int rc = read_counts(store, f->tenant, &page, err);
    *ret = (struct filter_sums){0};
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

bool job_filter_has_condition(const struct job_filter *f)
{
    return f->task.len > 0 || f->queue.len > 0 || f->user.len > 0 || f->states != 0 ||
           f->classes != 0 || f->reasons != 0 || f->error_type.len > 0 || f->text.len > 0 ||
           f->fingerprint != 0 || f->finished_after_ms != 0 || f->finished_before_ms != 0;
}

bool job_filter_has_error(const struct job_filter *f)
{
    return f->classes != 0 || f->error_type.len > 0 || f->fingerprint != 0;
}

/* Only a job that has ended has a time of its end, and only one that has ended without success has
 * a reason. */
bool job_filter_narrow_states(struct job_filter *f)
{
    uint32_t states = f->states ? f->states : ALL_STATES;
    if (f->finished_after_ms != 0 || f->finished_before_ms != 0)
        states &= ENDED_STATES;
    if (f->reasons != 0 && !(f->reasons & 1u << REDRIVE_REASON_NONE))
        states &= ENDED_STATES & ~STATE_BIT(COMPLETED);
    f->states = states == ALL_STATES ? 0 : states;
    return states != 0;
}

int job_filter_plan(struct store *store, struct job_filter *f, struct filter_sums *ret,
                    struct redrive_err *err)
{
    struct filter_sums unused = {0}, *sums = ret ? ret : &unused;
    *sums = (struct filter_sums){0};
    if (!job_filter_narrow_states(f))
        return 0;
    if (f->id.len > 0 || f->unique_key.len > 0 || !job_filter_has_condition(f))
        return 1;
    const int rc = read_sums(store, f, sums, err);
    if (rc < 0)
        return rc;
    f->is_few = f->states != 0 && sums->in_states <= FEW && !job_filter_has_error(f);
    f->is_rare =
        sums->matching <= FEW && sums->parked <= FEW && (f->task.len > 0 || f->queue.len > 0);
    f->is_most = 2 * sums->own >= sums->all;
    return sums->matching > 0;
}
