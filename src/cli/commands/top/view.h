/* view.h - one look at a store or a server, and how `redrive top` draws it.
 *
 * A look costs a few rows for each queue, task, breaker and worker, however many jobs there are.
 * Only parked jobs are counted one by one, for the breakers that are not closed: a look without
 * `at_breakers` keeps those of the last.
 */
#ifndef CLI_COMMANDS_TOP_VIEW_H
#define CLI_COMMANDS_TOP_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "cli/shared/answer.h"

/* ---- Pace: how fast a number grows, from looking at it now and then ----------------------------
 *
 * Keeps the last looks. In between the number is taken to have grown evenly, so that the pace of
 * any second can be computed however often one looks. A number that falls (the store was made anew)
 * starts it over.
 */
#define PACE_LOOKS 512

struct pace {
    struct {
        int64_t at_ms;
        double value;
    } looks[PACE_LOOKS]; /* a ring */
    unsigned first;
    unsigned n;
};

/* Zeroed is empty. Times that do not rise are left out. */
void pace_add(struct pace *pace, int64_t at_ms, double value);

/* Growth a second between two times; -1 when that is before the first look or after the last. */
double pace_between(const struct pace *pace, int64_t from_ms, int64_t to_ms);

/* Growth a second over up to the last `span_ms`; 0 before there are two looks. */
double pace_recent(const struct pace *pace, int64_t span_ms);

/* One sign a second for the last `seconds`, the latest at the right, as high as the highest; blank
 * where nothing is known. */
void pace_draw(const struct pace *pace, unsigned seconds, struct buf *out);

/* ---- A look ---------------------------------------------------------------------------------- */

#define TOP_DEAD_LETTERS 8
#define TOP_MINUTE_S     60

struct top_look {
    int64_t at_ms;
    struct buf work;          /* what API_TOP has answered */
    struct buf breakers;      /* an array of those that are not closed, of the last look at them */
    struct answer_pages dead; /* one page, of the latest */
    int64_t n_workers;
    struct pace completed;
    struct pace retried;
    struct pace dead_letters; /* and failed ones */
};

/* Reads all of it anew; zeroed to begin with. After a failure some of it is what it was. */
int top_look(struct top_look *look, struct session *session, struct str tenant, bool at_breakers,
             struct redrive_err *err);
void top_look_release(struct top_look *look);

/* Draws it, `width` columns wide (0: no limit), one line after the other. `problem` is shown if it
 * is not NULL. */
void top_draw(const struct top_look *look, const char *title, const char *problem, unsigned width,
              bool color, struct buf *out);

#endif
