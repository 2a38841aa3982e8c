/* claim_lines.h - which of the claims that wait asks next.
 *
 * Claims that ask for the same are in a line, in the order in which they came. When jobs become
 * ready, the first of each line asks again. Others of the line ask only when it was given
 * something: twice as many each time, up to a maximum. One that was given nothing does not ask
 * again before jobs become ready, and no other one asks in its place. So a thousand idle workers
 * cost one claim for each line, not a thousand, and a thousand jobs still find them.
 *
 * Plain data: the owner guards it, hands claims in and answers them. A claim stays in its line
 * while it asks, and leaves when it is answered for good.
 */
#ifndef SERVER_CLAIM_LINES_H
#define SERVER_CLAIM_LINES_H

#include <stdbool.h>

#include "base/mem/list.h"
#include "base/mem/map.h"
#include "base/text/buf.h"

/* Claims that ask for the same; it is there as long as one of them is. */
struct claim_line {
    struct list waiting; /* struct claim_turn, the longest first */
    unsigned width;      /* how many may ask at one time */
    unsigned n_asking;
    bool is_woken; /* jobs became ready since the latest of them asked */
    size_t key_len;
    char key[];
};

/* A claim's part of it. Zeroed: it does not wait. */
struct claim_turn {
    struct claim_line *line; /* NULL: it does not wait */
    struct list link;
    bool asks; /* it was told to ask, and has no answer yet */
};

struct claim_lines {
    struct map lines; /* struct claim_line */
    unsigned max_width;
    /* Has the claim ask. False: it cannot now, and the next one is tried. Must not call back. `ctx`
     * is that of the call. */
    bool (*ask)(struct claim_turn *turn, void *ctx);
};

void claim_lines_init(struct claim_lines *lines, unsigned max_width,
                      bool (*ask)(struct claim_turn *turn, void *ctx), uint64_t seed);
/* When every claim has left. */
void claim_lines_release(struct claim_lines *lines);

/* Replaces the contents of `out` by the key of claims of a tenant for these queues. They are sorted
 * here: the key is the same in whichever order, and how often, a client names them. */
struct str claim_lines_key(struct buf *out, struct str tenant, struct str *queues, size_t n);

/* Puts a claim at the end of the line with this key. False when there is no memory. */
bool claim_lines_join(struct claim_lines *lines, struct str key, struct claim_turn *turn);
/* Takes it out. What is left of its line; NULL: it was the last one, or it did not wait. */
struct claim_line *claim_lines_leave(struct claim_lines *lines, struct claim_turn *turn);

/* Jobs may be ready: the first of each line asks. */
void claim_lines_ready(struct claim_lines *lines, void *ctx);
/* The same for one line, without asking yet. */
void claim_line_wake(struct claim_line *line);

/* A claim that was told to ask has its answer; `found` says whether others are to ask as well.
 * Nothing for any other claim. */
void claim_turn_answered(const struct claim_lines *lines, struct claim_turn *turn, bool found);
/* Has as many of a line ask as may. NULL does nothing. */
void claim_line_ask(const struct claim_lines *lines, struct claim_line *line, void *ctx);

#endif
