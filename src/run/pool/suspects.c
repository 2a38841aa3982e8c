/* suspects.c - tells a broken handler from a job that breaks it. */
#include "run/pool/suspects.h"

void suspects_worked(struct suspects *s)
{
    s->n_worked++;
}

static struct suspect *find_or_add(struct suspects *s, int64_t seq)
{
    for (size_t i = 0; i < SUSPECTS_MAX; i++)
        if (s->items[i].seq == seq)
            return &s->items[i];
    struct suspect *added = &s->items[s->next];
    s->next = (s->next + 1) % SUSPECTS_MAX;
    *added = (struct suspect){.seq = seq, .n_worked = s->n_worked};
    return added;
}

bool suspects_blame_job(struct suspects *s, int64_t seq)
{
    struct suspect *suspect = find_or_add(s, seq);
    const bool others_went_well = s->n_worked > suspect->n_worked;
    const bool was_given_back_enough = s->n_worked > 0 && suspect->times >= SUSPECTS_PATIENCE;
    suspect->times++;
    return others_went_well || was_given_back_enough;
}
