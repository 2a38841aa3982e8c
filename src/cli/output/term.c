/* term.c - standard output and error, colours and widths; cutting and wrapping of text. */
#include "cli/output/term.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/encode.h"

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

void style_add_clean(struct buf *out, bool color, enum style style, struct str text)
{
    RELEASED_BY(buf_release) struct buf clean = BUF_MAX(out->max);
    text_add_clean(&clean, text);
    style_add(out, color, style, buf_str(&clean));
    if (buf_failed(&clean))
        out->failed = buf_failed(&clean);
}

void term_write(struct term *t, const struct buf *text)
{
    errno = 0;
    if (text->len > 0 && fwrite(text->data, 1, text->len, t->file) < text->len && t->lost == 0)
        t->lost = errno;
}

int term_close(struct term *t, struct redrive_err *err)
{
    bool lost = ferror(t->file);
    errno = 0;
    if (fclose(t->file) == 0 && !lost)
        return 0;
    const int why = t->lost ? t->lost : errno;
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

/* ---- Text ------------------------------------------------------------------------------------ */

struct range {
    uint32_t first, last;
};

/* Marks that combine with the character before them, and invisible joiners. */
static const struct range ZERO_WIDTH[] = {
    {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x0610, 0x061A}, {0x064B, 0x065F},
    {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F}, {0x202A, 0x202E}, {0x2060, 0x2064},
    {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF},
};

static const struct range DOUBLE_WIDTH[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x23E9, 0x23EC},   {0x2614, 0x2615},
    {0x26A1, 0x26A1},   {0x26D4, 0x26D4},   {0x2705, 0x2705},   {0x274C, 0x274C},
    {0x2753, 0x2755},   {0x2757, 0x2757},   {0x2E80, 0x303E},   {0x3041, 0x4DBF},
    {0x4E00, 0xA4CF},   {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F004, 0x1F004},
    {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF}, {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD},
};

static bool in_ranges(uint32_t c, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n && ranges[i].first <= c; i++)
        if (c <= ranges[i].last)
            return true;
    return false;
}

static size_t columns_of(uint32_t c)
{
    if (c < 0x0300)
        return 1;
    if (in_ranges(c, ZERO_WIDTH, sizeof ZERO_WIDTH / sizeof ZERO_WIDTH[0]))
        return 0;
    return in_ranges(c, DOUBLE_WIDTH, sizeof DOUBLE_WIDTH / sizeof DOUBLE_WIDTH[0]) ? 2 : 1;
}

/* One character, or bytes that are none. */
struct glyph {
    size_t len;
    size_t width;
    bool valid;
    uint32_t code;
};

static struct glyph glyph_at(struct str s, size_t i)
{
    const unsigned char *p = (const unsigned char *)s.ptr + i;
    int len = utf8_next(s.ptr + i, s.ptr + s.len);
    if (len < 0)
        return (struct glyph){.len = (size_t)-len, .width = 1};

    uint32_t code = len == 1 ? p[0] : p[0] & (0x7Fu >> len);
    for (int k = 1; k < len; k++)
        code = code << 6 | (p[k] & 0x3Fu);
    return (struct glyph){
        .len = (size_t)len, .width = columns_of(code), .valid = true, .code = code};
}

size_t text_width(struct str s)
{
    size_t width = 0;
    for (size_t i = 0; i < s.len;) {
        struct glyph g = glyph_at(s, i);
        width += g.width;
        i += g.len;
    }
    return width;
}

struct str text_fit(struct str s, size_t width)
{
    size_t used = 0, i = 0;
    while (i < s.len) {
        struct glyph g = glyph_at(s, i);
        if (used + g.width > width)
            break;
        used += g.width;
        i += g.len;
    }
    return (struct str){s.ptr, i};
}

void text_add_clean(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.len;) {
        struct glyph g = glyph_at(s, i);
        if (g.code == '\n' || g.code == '\r' || g.code == '\t')
            buf_putc(out, ' ');
        else if (!g.valid || g.code < 0x20 || (g.code >= 0x7F && g.code < 0xA0))
            buf_putc(out, '?');
        else
            buf_add(out, s.ptr + i, g.len);
        i += g.len;
    }
}

void text_add_clean_lines(struct buf *out, struct str text, size_t indent)
{
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct str line = {text.ptr, end ? (size_t)(end - text.ptr) : text.len};
        size_t used = line.len + (end != NULL);
        if (line.len > 0 && line.ptr[line.len - 1] == '\r')
            line.len--;
        text_add_spaces(out, line.len > 0 ? indent : 0);
        text_add_clean(out, line);
        buf_putc(out, '\n');
        text = (struct str){text.ptr + used, text.len - used};
    }
}

void text_add_spaces(struct buf *out, size_t n)
{
    char *room = buf_reserve(out, n);
    if (!room)
        return;
    memset(room, ' ', n);
    buf_commit(out, n);
}

/* Cuts off the first word or run of anything up to `stop`. */
static struct str take_until(struct str *rest, char stop)
{
    const char *end = rest->len ? memchr(rest->ptr, stop, rest->len) : NULL;
    struct str taken = {rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len};
    size_t used = taken.len + (end ? 1 : 0);
    *rest = (struct str){rest->ptr + used, rest->len - used};
    return taken;
}

static void fill_line(struct buf *out, struct str line, size_t at, size_t indent, size_t width)
{
    bool first = true;
    while (line.len > 0) {
        struct str word = take_until(&line, ' ');
        size_t wide = text_width(word);
        if (wide == 0)
            continue;
        if (!first && at + 1 + wide > width) {
            buf_putc(out, '\n');
            text_add_spaces(out, indent);
            at = indent;
        } else if (!first) {
            buf_putc(out, ' ');
            at++;
        }
        buf_add_str(out, word);
        at += wide;
        first = false;
    }
}

void text_add_wrapped(struct buf *out, struct str text, size_t at, size_t indent, size_t width)
{
    for (bool first = true; text.len > 0; first = false) {
        struct str line = take_until(&text, '\n');
        if (!first) {
            buf_putc(out, '\n');
            if (line.len > 0)
                text_add_spaces(out, indent);
            at = indent;
        }
        if (line.len > 0 && line.ptr[0] == ' ')
            buf_add_str(out, line);
        else
            fill_line(out, line, at, indent, width);
    }
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static int cannot_write(const char *path, int error, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_IO, "cannot write the chart: %s", strerror(error));
    err_detail(err, "file %s", path);
    return REDRIVE_E_IO;
}

int picture_open(const char *path, FILE **ret, struct redrive_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    *ret = fd < 0 ? NULL : fdopen(fd, "w");
    if (*ret)
        return 0;
    int error = errno;
    if (fd >= 0)
        close(fd);
    return cannot_write(path, error, err);
}

int picture_write(const struct buf *svg, FILE *file, const char *path, struct redrive_err *err)
{
    /* A pipe or a device cannot be cut and need not be. */
    bool written = ftruncate(fileno(file), 0) == 0 || errno == EINVAL;
    written = written && fwrite(svg->data, 1, svg->len, file) == svg->len;
    int error = errno;
    if (fclose(file) != 0 && written) {
        written = false;
        error = errno;
    }
    return written ? 0 : cannot_write(path, error, err);
}
