#include "store/claim_totals.h"

#include <stdlib.h>

bool claim_totals_init(struct claim_totals *totals, const struct claim_filter *filter)
{
    *totals = (struct claim_totals){.filter = filter};
    if (!filter->task_limits)
        return true;
    totals->of_task = calloc(filter->n_tasks + 1, sizeof *totals->of_task);
    return totals->of_task != NULL;
}

void claim_totals_release(struct claim_totals *totals)
{
    free(totals->of_task);
    *totals = (struct claim_totals){0};
}
