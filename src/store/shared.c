/* shared.c - whether a shared row takes a put; pages of rows and counters. */
#include "store/shared.h"

static int64_t at_least_0(int64_t sum)
{
    return sum > 0 ? sum : 0;
}

bool shared_put_fits(const struct shared_row *row, int64_t version, struct gate_sums *sums)
{
    const bool is_any = row->is_delta && row->version == 0;
    const bool needs_row = row->is_delta || row->removed;
    const int64_t used = sums->used + row->add.used;
    if ((!is_any && version != row->version) || (needs_row && version == 0))
        return false;
    if (row->removed ? used > 0 : row->add.used > 0 && row->max_used > 0 && used > row->max_used)
        return false;
    *sums = (struct gate_sums){at_least_0(used), at_least_0(sums->sent + row->add.sent)};
    return true;
}

void shared_page_release(struct shared_page *page)
{
    arena_release(&page->arena);
    *page = (struct shared_page){0};
}

void counter_page_release(struct counter_page *page)
{
    arena_release(&page->arena);
    *page = (struct counter_page){0};
}
