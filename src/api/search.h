/* search.h - the jobs of a filter, page by page, within a time.
 *
 * The newest jobs that match are found by looking at one job after the other, the newest first.
 * Where matches are rare, that may be all jobs of the store. So a search ends early, with what it
 * has found and the place to go on from: after about SEARCH_MS, however many jobs there are. It is
 * made in steps of the store's order (job_filter.until_seq), so that a small store is searched at
 * once however slow the machine is. Counts that the store keeps say whether there is anything to
 * find, and whether the jobs of the filter's states, or of its task or queue, are so few that a
 * store may look at these alone, in one step. They are read for the first page of a search; its
 * cursor has what they said. The jobs of a user without any other condition take one step as well,
 * where the store has an index of them.
 *
 * Filters by name are handed to the store as they are, and other orders with what the counts say.
 */
#ifndef API_SEARCH_H
#define API_SEARCH_H

#include "store/store.h"

#define SEARCH_MS 150
/* Jobs that are looked at in the first step; as long as steps take little time they get larger. */
#define SEARCH_STEP 20000

struct search {
    struct store *store;      /* borrowed */
    struct job_filter filter; /* its keyset is where to go on; its strings are borrowed */
    bool is_over;             /* there is nothing more to find */
    bool is_late;             /* its time is over */
    bool in_steps;
    size_t n_unreadable;           /* jobs that were left out because their rows cannot be read */
    struct redrive_err unreadable; /* of the first of them */
    int64_t step;                  /* how far the next one goes */
    int64_t began_ms;
    int64_t step_began_ms;
};

int search_init(struct search *search, struct store *store, const struct job_filter *filter,
                struct redrive_err *err);

/* Up to `limit` jobs that follow, perhaps none. Until it is over or late; search_take after each.
 */
int search_next(struct search *search, size_t limit, struct job_page *page,
                struct redrive_err *err);
/* The first `n` of the page have been used: the next ones follow these. */
void search_take(struct search *search, const struct job_page *page, size_t n);

/* Where to go on, for job_filter's keyset; NULL: it is over. */
const char *search_cursor(const struct search *search, char out[JOB_CURSOR_MAX]);

#endif
