/* screen.c - switches terminal modes, and waits for keys and signals. */
#include "cli/output/screen.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"

/* Alternate screen, no cursor, no wrapping; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

#define FRAME_MAX (1024u * 1024)

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH};
#define N_SIGNALS (sizeof SIGNALS / sizeof SIGNALS[0])

/* Set by the handlers, which run only while screen_wait waits. */
static volatile sig_atomic_t end_signal, stopped, continued, resized;

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else if (number == SIGTSTP)
        stopped = 1;
    else if (number == SIGCONT)
        continued = 1;
    else
        end_signal = number;
}

static void write_all(int fd, const char *text, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            (void)poll(&p, 1, 1000);
        } else if (n < 0 && errno != EINTR) {
            return;
        } else if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
}

static void measure(struct screen *s)
{
    struct winsize size;
    s->width = 80;
    s->height = 24;
    if (ioctl(s->out, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
        s->width = size.ws_col;
        s->height = size.ws_row;
    }
}

static void take(struct screen *s)
{
    if (s->has_keys) {
        struct termios raw = s->saved;
        raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        (void)tcsetattr(s->in, TCSADRAIN, &raw);
    }
    write_all(s->out, ENTER, sizeof ENTER - 1);
    measure(s);
}

static void give_back(struct screen *s)
{
    write_all(s->out, LEAVE, sizeof LEAVE - 1);
    if (s->has_keys)
        (void)tcsetattr(s->in, TCSADRAIN, &s->saved);
}

int screen_open(struct screen *s, int in, int out, struct redrive_err *err)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t ours;
    *s = (struct screen){.in = in, .out = out};
    if (!isatty(out))
        return err_set(err, REDRIVE_E_IO, "the output is not a terminal");
    s->has_keys = isatty(in) && tcgetattr(in, &s->saved) == 0;
    sigemptyset(&ours);
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < N_SIGNALS; i++) {
        sigaddset(&ours, SIGNALS[i]);
        (void)sigaction(SIGNALS[i], &action, NULL);
    }
    (void)sigprocmask(SIG_BLOCK, &ours, &s->mask);
    for (size_t i = 0; i < N_SIGNALS; i++)
        sigdelset(&s->mask, SIGNALS[i]);
    take(s);
    return 0;
}

void screen_close(struct screen *s)
{
    give_back(s);
    for (size_t i = 0; i < N_SIGNALS; i++)
        (void)signal(SIGNALS[i], SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &s->mask, NULL);
    if (end_signal && end_signal != SIGINT)
        (void)raise(end_signal);
}

/* Ctrl-Z: the terminal is the shell's until it lets us go on. */
static void stop_for_a_while(struct screen *s)
{
    stopped = 0;
    give_back(s);
    (void)raise(SIGSTOP);
    take(s);
}

void screen_show(struct screen *s, const struct buf *text)
{
    struct buf frame;
    struct str rest = buf_str(text);
    unsigned lines = 0;
    buf_init(&frame, FRAME_MAX);
    buf_puts(&frame, "\033[H");
    while (rest.len > 0 && lines < s->height) {
        const char *end = memchr(rest.ptr, '\n', rest.len);
        size_t len = end ? (size_t)(end - rest.ptr) : rest.len;
        if (lines++ > 0)
            buf_puts(&frame, "\r\n");
        buf_add(&frame, rest.ptr, len);
        buf_puts(&frame, "\033[K");
        rest.ptr += end ? len + 1 : len;
        rest.len -= end ? len + 1 : len;
    }
    buf_puts(&frame, "\033[J");
    if (!buf_failed(&frame))
        write_all(s->out, frame.data, frame.len);
    buf_release(&frame);
}

enum screen_event screen_wait(struct screen *s, int64_t timeout_ms, char *ret_key)
{
    struct pollfd keys = {.fd = s->has_keys ? s->in : -1, .events = POLLIN};
    struct timespec time = {.tv_sec = timeout_ms / 1000,
                            .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    int n = ppoll(&keys, 1, &time, &s->mask);
    if (end_signal)
        return SCREEN_END;
    if (stopped) {
        stop_for_a_while(s);
        return SCREEN_CHANGED;
    }
    if (resized || continued) {
        resized = continued = 0;
        measure(s);
        return SCREEN_CHANGED;
    }
    if (n <= 0)
        return SCREEN_TIME;
    ssize_t got = read(s->in, ret_key, 1);
    return got == 1 ? SCREEN_KEY : SCREEN_END;
}
