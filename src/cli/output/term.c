/* term.c - standard output and error, colours and widths. */
#include "cli/output/term.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"

#define WIDTH_DEFAULT 80

static unsigned width_of(int fd)
{
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long n = columns ? strtol(columns, NULL, 10) : 0;

    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return n > 0 && n < 10000 ? (unsigned)n : WIDTH_DEFAULT;
}

void term_init(struct term *t, FILE *file, enum color_when when)
{
    const char *name = getenv("TERM");
    bool dumb = name && strcmp(name, "dumb") == 0;
    bool is_tty = isatty(fileno(file));

    t->file = file;
    t->is_tty = is_tty && !dumb;
    t->color = term_wants_color(when, is_tty, getenv("NO_COLOR"), name);
    t->width = is_tty ? width_of(fileno(file)) : 0;
}

bool term_wants_color(enum color_when when, bool is_tty, const char *no_color, const char *term)
{
    if (when != COLOR_AUTO)
        return when == COLOR_ALWAYS;
    if (no_color && no_color[0] != '\0')
        return false;
    return is_tty && term && strcmp(term, "dumb") != 0;
}

void style_add(struct buf *out, bool color, enum style style, struct str text)
{
    static const char *const CODES[] = {
        [STYLE_BOLD] = "1",   [STYLE_DIM] = "2",     [STYLE_RED] = "31",
        [STYLE_GREEN] = "32", [STYLE_YELLOW] = "33", [STYLE_CYAN] = "36",
    };
    bool styled = color && style != STYLE_PLAIN;
    if (styled)
        buf_printf(out, "\033[%sm", CODES[style]);
    buf_add_str(out, text);
    if (styled)
        buf_puts(out, "\033[0m");
}

void term_write(struct term *t, const struct buf *text)
{
    if (text->len > 0)
        fwrite(text->data, 1, text->len, t->file);
}

int term_close(struct term *t, struct redrive_err *err)
{
    bool lost = ferror(t->file);
    errno = 0;
    if (fclose(t->file) == 0 && !lost)
        return 0;
    int why = errno;
    err_set(err, REDRIVE_E_IO, "cannot write standard output");
    if (why)
        err_detail(err, "%s", strerror(why));
    return REDRIVE_E_IO;
}

void term_sanitize(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* Opened the wrong way round, so that use of it fails. The lowest free number is fd. */
        if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            abort();
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    signal(SIGPIPE, SIG_DFL);
}
