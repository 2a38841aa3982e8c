/* list.h - a page of jobs, for `jobs list` and `dlq list`.
 *
 * A table for people, {"items":[…],"next":CURSOR|null} for programs. The options of a page come in
 * addition to those that select jobs (jobs/select.h).
 */
#ifndef CLI_JOBS_LIST_H
#define CLI_JOBS_LIST_H

#include "cli/frame/cli.h"
#include "cli/jobs/select.h"

struct job_list {
    int64_t limit;
    const char *cursor;
    int order; /* enum job_order */
};

/* The names of the orders, in their order; ends with NULL. */
extern const char *const JOB_LIST_ORDERS[];

#define JOB_LIST_ROWS(S, m, default_order)                                          \
    {.name = "limit",                                                               \
     .letter = 'n',                                                                 \
     INTO_INT(S, m.limit),                                                          \
     .min = 1,                                                                      \
     .max = STORE_PAGE_MAX,                                                         \
     .placeholder = "N",                                                            \
     .default_text = "50",                                                          \
     .help = "how many jobs a page has"},                                           \
        {.name = "cursor",                                                          \
         INTO_STRING(S, m.cursor),                                                  \
         .placeholder = "CURSOR",                                                   \
         .help = "the page that follows, by what the page before it gave as next"}, \
    {                                                                               \
        .name = "order", INTO_CHOICE(S, m.order), .choices = JOB_LIST_ORDERS,       \
        .placeholder = "ORDER", .default_text = (default_order),                    \
        .help = "which come first, finished meaning those that ended last"          \
    }

/* Adds order, keyset and limit to a filter. */
int job_list_read(const struct job_list *list, struct job_filter *filter, struct redrive_err *err);

/* Reads the page that the filter asks for from the store that the command line names, and prints
 * it. The filter was made from `select`, whose ages go by the clock of that store. */
int job_list_run(struct cli *cli, const struct job_select *select, struct job_filter *filter,
                 struct redrive_err *err);

#endif
