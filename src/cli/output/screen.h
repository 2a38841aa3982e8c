/* screen.h - the whole terminal for one program, given back as it was.
 *
 * Between open and close the program owns the alternate screen: no echo, no cursor, no line that
 * wraps. It is given back by screen_close, also before a signal ends or stops the program; after a
 * stop (Ctrl-Z) it is taken again. A frame replaces the one before it in a single write, line by
 * line, so that nothing flickers.
 */
#ifndef CLI_OUTPUT_SCREEN_H
#define CLI_OUTPUT_SCREEN_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "base/text/buf.h"
#include "redrive.h"

struct screen {
    int in;  /* keys come from here, if it is a terminal */
    int out; /* a terminal */
    bool has_keys;
    unsigned width;
    unsigned height;
    struct termios saved;
    sigset_t mask; /* while waiting: as the program was started */
};

enum screen_event {
    SCREEN_TIME,    /* the time is over */
    SCREEN_KEY,     /* a key was pressed */
    SCREEN_CHANGED, /* another size, or back from a stop: draw again */
    SCREEN_END,     /* it is to end: Ctrl-C, or the terminal is gone */
};

/* Both are file descriptors; one screen a process. */
int screen_open(struct screen *screen, int in, int out, struct redrive_err *err);
/* Gives the terminal back. If a signal such as SIGTERM has asked for the end, it now takes effect
 * and this does not return. */
void screen_close(struct screen *screen);

/* Shows the lines of a text, as many as fit. */
void screen_show(struct screen *screen, const struct buf *text);

/* Waits for a key, a change, or the end, at most so long. `ret_key` has the key. */
enum screen_event screen_wait(struct screen *screen, int64_t timeout_ms, char *ret_key);

#endif
