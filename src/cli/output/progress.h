/* progress.h - for long work: a bar that shows how far it has come, and signals that stop it.
 *
 *     simulate  [=========>          ]  45 %  450/1000  12s left
 *
 * Drawn on a terminal only, over itself, at most ten times a second, and gone when the work ends.
 * An update that draws nothing costs a look at the clock.
 */
#ifndef CLI_OUTPUT_PROGRESS_H
#define CLI_OUTPUT_PROGRESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "cli/output/term.h"

#define PROGRESS_REDRAW_MS 100

struct progress {
    struct term *term; /* borrowed: standard error */
    const char *label; /* borrowed */
    uint64_t total;    /* 0: not known */
    uint64_t done;
    int64_t started_ms;
    int64_t drawn_ms; /* when it was drawn last */
    bool visible;
    int64_t (*now_ms)(void); /* a clock that never goes back */
};

/* Starts; nothing is drawn before the first update. `now_ms` NULL: the system's clock. */
void progress_init(struct progress *p, struct term *term, const char *label, uint64_t total,
                   int64_t (*now_ms)(void));

/* `done` of the total are done. */
void progress_update(struct progress *p, uint64_t done);

/* The same for work that goes in phases: starts a bar when the label is another one than before.
 * Zeroed before the first. */
void progress_phase(struct progress *p, struct term *term, const char *label, uint64_t done,
                    uint64_t total);

/* Removes the bar, at the end or before something else is written; a later update draws it
 * again. */
void progress_clear(struct progress *p);

/* Appends the bar as it is drawn `elapsed_ms` after the start, in at most `width` columns. */
void progress_render(const struct progress *p, int64_t elapsed_ms, unsigned width, struct buf *out);

/* ---- Interruption ------------------------------------------------------------------------------
 *
 *     struct interrupt interrupt;
 *     interrupt_catch(&interrupt);
 *     while (… && !interrupt_asked()) …
 *     interrupt_release(&interrupt);
 *
 * SIGINT, SIGTERM and SIGHUP are remembered; the second one of a kind ends the program as usual.
 * What the parent has had ignored stays ignored. One at a time in a program.
 */

struct interrupt {
    struct sigaction before[3];
};

void interrupt_catch(struct interrupt *interrupt);
void interrupt_release(const struct interrupt *interrupt);
bool interrupt_asked(void);

#endif
