#include "store/claim_tally.h"

#include <stdlib.h>

bool claim_tally_init(struct claim_tally *tally, const struct claim_filter *filter)
{
    *tally = (struct claim_tally){.filter = filter};
    if (!filter->task_limits)
        return true;
    tally->of_task = calloc(filter->n_tasks + 1, sizeof *tally->of_task);
    return tally->of_task != NULL;
}

void claim_tally_release(struct claim_tally *tally)
{
    free(tally->of_task);
    *tally = (struct claim_tally){0};
}
