/* page.c - what belongs to pages and filters: releasing, order, limits of ready jobs. */
#include "store/page.h"

#include <string.h>

#include "store/shared.h"

void job_page_release(struct job_page *page)
{
    arena_release(&page->arena);
    *page = (struct job_page){0};
}

void job_page_add_limit(struct job_page *page, const struct limit_sums *limit)
{
    const struct limit_sums *last = page->n_limits > 0 ? &page->limits[page->n_limits - 1] : NULL;
    if (last && str_eq(last->key, limit->key) && str_eq(last->tenant, limit->tenant))
        return;
    const size_t n = page->n_limits;
    if (!page->limits || (n & (n - 1)) == 0) { /* it is full: 0, or a power of 2 */
        struct limit_sums *grown = arena_array(&page->arena, n ? 2 * n : 1, sizeof *grown);
        if (!grown)
            return;
        if (n > 0)
            memcpy(grown, page->limits, n * sizeof *grown);
        page->limits = grown;
    }
    page->limits[page->n_limits++] = *limit;
}

void attempt_page_release(struct attempt_page *page)
{
    arena_release(&page->arena);
    *page = (struct attempt_page){0};
}

void attempt_pages_release(struct attempt_page *pages, size_t n)
{
    for (size_t i = 0; i < n; i++)
        attempt_page_release(&pages[i]);
}

void count_page_release(struct count_page *page)
{
    arena_release(&page->arena);
    *page = (struct count_page){0};
}

int job_count_order(const void *left, const void *right)
{
    const struct job_count *a = left, *b = right;
    int order = str_compare(a->tenant, b->tenant);
    if (order == 0)
        order = str_compare(a->queue, b->queue);
    if (order == 0)
        order = str_compare(a->task, b->task);
    return order != 0 ? order : str_compare(a->gate, b->gate);
}

void group_page_release(struct group_page *page)
{
    arena_release(&page->arena);
    *page = (struct group_page){0};
}

void remembered_key_page_release(struct remembered_key_page *page)
{
    arena_release(&page->arena);
    *page = (struct remembered_key_page){0};
}

size_t claim_find(const struct str *names, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(names[i], name))
            return i;
    return n;
}
