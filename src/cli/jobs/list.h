/* list.h - jobs for people and programs: a page of them, and everything about one.
 *
 * A page is a table, or {"items":[…],"next":CURSOR|null}. The options of a page come in addition to
 * those that select jobs (jobs/select.h).
 */
#ifndef CLI_JOBS_LIST_H
#define CLI_JOBS_LIST_H

#include "cli/frame/cli.h"
#include "cli/jobs/select.h"
#include "cli/shared/answer.h"
#include "store/store.h"

struct job_list {
    int64_t limit;
    const char *cursor;
    int order; /* enum job_order */
};

/* The names of the orders, in their order; ends with NULL. */
extern const char *const JOB_LIST_ORDERS[];

#define JOB_LIST_ROWS(default_order)                                                              \
    OPTION("limit", 'n', "N", "how many jobs a page has, at most 1000",                           \
           INTO_INT(struct job_list_options, list.limit), .min = 1, .max = STORE_PAGE_MAX,        \
           .default_text = "50"),                                                                 \
        OPTION("cursor", 0, "CURSOR", "the page after this one: what a page has printed as next", \
               INTO_STRING(struct job_list_options, list.cursor)),                                \
        OPTION("order", 0, "ORDER", "which jobs come first; finished are those that ended last",  \
               INTO_CHOICE(struct job_list_options, list.order), .words = JOB_LIST_ORDERS,        \
               .default_text = (default_order))

/* A command that prints jobs, page after page until there are as many as were asked for: its
 * options, its check and what it does. A variant other than 0: dead letters. */
struct job_list_options {
    struct job_select select;
    struct job_list list;
};
int job_list_check(struct cli *cli, struct redrive_err *err);
int job_list_run(struct cli *cli, struct session *session, struct redrive_err *err);

/* ---- The facts of a job in a few words ------------------------------------------------------- */

/* A span in its largest unit: 45s, 3m, 2h, 12d. */
#define AGE_TEXT_MAX 24
const char *age_text(int64_t ms, char out[AGE_TEXT_MAX]);

/* The error in one line: its type, or its class, and the message; of at most JOB_ERROR_COLUMNS,
 * with `…` at the end if there is more. Nothing when there was none. */
#define JOB_ERROR_COLUMNS 200
void job_add_error(struct buf *out, const struct object *error);
void job_add_error_text(struct buf *out, struct str class, struct str type, struct str message);

/* A state in its colour: as a cell, and in a text. */
void job_add_state(struct table *t, struct str state);
void job_put_state(struct buf *out, bool color, struct str state);

/* ---- One job (jobs/show.c) ------------------------------------------------------------------- */

/* A command that prints the job of its argument, with its history: as text or as JSON. Its options
 * are JOB_BY_ID_OPTIONS (jobs/change.h), and its variant says whether it must be a dead letter. */
int job_show_run(struct cli *cli, struct session *session, struct redrive_err *err);

/* The member "held_by" of a parked job in words: `breaker mail (open)`; and what must happen before
 * the job may go: "the next probe". */
void job_add_holder(struct buf *out, const struct object *gate);
const char *job_hold_text(const struct object *gate);

#endif
