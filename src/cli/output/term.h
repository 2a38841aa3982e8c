/* term.h - where output goes: a terminal with a width and colours, or a file without.
 *
 * A struct term stands for standard output or standard error. Code that prints asks it instead of
 * the system, so that a test can set the width of the terminal.
 */
#ifndef CLI_OUTPUT_TERM_H
#define CLI_OUTPUT_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/text/buf.h"
#include "base/text/str.h"
#include "redrive.h"

struct term {
    FILE *file;
    bool is_tty; /* a terminal on which the cursor can be moved: not TERM=dumb */
    bool color;
    unsigned width; /* columns; 0 when it is no terminal, so that nothing need be cut */
    int lost;       /* errno of the first text that could not be written; 0: none */
};

/* The values of --color, in its order. */
enum color_when {
    COLOR_AUTO,
    COLOR_ALWAYS,
    COLOR_NEVER,
};

void term_init(struct term *t, FILE *file, enum color_when when);

/* Whether to use colours: asked for, or on a terminal where nothing forbids it. `no_color` and
 * `term` are the environment variables NO_COLOR and TERM, or NULL. */
bool term_wants_color(enum color_when when, bool is_tty, const char *no_color, const char *term);

enum style {
    STYLE_PLAIN,
    STYLE_BOLD,
    STYLE_DIM,
    STYLE_RED,
    STYLE_GREEN,
    STYLE_YELLOW,
    STYLE_CYAN,
};

/* Appends `text` in a style, or plain when `color` is false. */
void style_add(struct buf *out, bool color, enum style style, struct str text);
/* The same of a text that the user or a server wrote, as text_add_clean adds it. */
void style_add_clean(struct buf *out, bool color, enum style style, struct str text);

/* Writes it all. A failure shows in term_close. */
void term_write(struct term *t, const struct buf *text);

/* Flushes and closes the file; says so if anything written to it was lost. */
int term_close(struct term *t, struct redrive_err *err);

/* Makes the three standard files safe to use: where one is closed, the next file to be opened would
 * get its number and be written to by mistake. A closed one becomes a file on which every read or
 * write fails. Also lets SIGPIPE end the program quietly, even if the parent ignored it: `redrive …
 * | head` is no error. */
void term_sanitize(void);

/* ---- Text --------------------------------------------------------------------------------------
 *
 * Text as a terminal shows it: how wide, where to cut, where to wrap.
 *
 * Widths are columns. ASCII and most of Unicode take one, combining marks none, East Asian wide
 * characters and emoji two. Bytes that are not UTF-8 count one for each broken
 * character. No locale is asked: the answer is the same everywhere.
 */

size_t text_width(struct str s);

/* The longest prefix, in whole characters, that takes at most `width` columns. */
struct str text_fit(struct str s, size_t width);

/* Appends `s` so that it stays on its line and cannot control a terminal: line breaks and tabs
 * become spaces, other control characters and bytes that are not UTF-8 become '?'. What it adds is
 * as wide as text_width says. */
void text_add_clean(struct buf *out, struct str s);

/* The same for text of several lines, each of which it indents unless it is empty, and ends with a
 * newline. */
void text_add_clean_lines(struct buf *out, struct str text, size_t indent);

/* Appends `n` spaces. */
void text_add_spaces(struct buf *out, size_t n);

/* Appends `text` filled to `width` columns. The first line starts at column `at`, where the caller
 * is; later ones are indented to `indent`. A word longer than a line gets one of its own. A newline
 * in the text is kept; a line that starts with a space is not filled. Ends without a newline. */
void text_add_wrapped(struct buf *out, struct str text, size_t at, size_t indent, size_t width);

/* ---- Pictures: a drawing (SVG) that a command writes into a file -------------------------------
 */

/* Opened before the work, so that a bad path costs none; what the file holds stays until the
 * picture is written. */
int picture_open(const char *path, FILE **ret, struct redrive_err *err);

/* Writes it, and closes the file in any case. */
int picture_write(const struct buf *svg, FILE *file, const char *path, struct redrive_err *err);

#endif
