/* top.c - `redrive top`: what happens in a store, as it happens. */
#include "cli/commands/commands.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/text/buf.h"
#include "base/time/clock.h"
#include "cli/commands/top/view.h"
#include "cli/frame/cli.h"
#include "cli/shared/remote.h"
#include "cli/shared/session.h"
#include "redrive.h"

#define FRAME_MAX (1024u * 1024)

/* ---- The screen --------------------------------------------------------------------------------
 *
 * The whole terminal for one program, given back as it was. Between open and close the program owns
 * the alternate screen: no echo, no cursor, no line that wraps. It is given back by screen_close,
 * also before a signal ends or stops the program; after a stop (Ctrl-Z) it is taken again. A frame
 * replaces the one before it in a single write, line by line, so that nothing flickers.
 */

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

/* Alternate screen, no cursor, no wrapping; and back. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

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

/* Both are file descriptors; one screen a process. */
static int screen_open(struct screen *s, int in, int out, struct redrive_err *err)
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

/* Gives the terminal back. If a signal such as SIGTERM has asked for the end, it now takes effect
 * and this does not return. */
static void screen_close(struct screen *s)
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

/* Shows the lines of a text, as many as fit. */
static void screen_show(struct screen *s, const struct buf *text)
{
    struct str rest = buf_str(text);
    unsigned lines = 0;
    RELEASED_BY(buf_release) struct buf frame = BUF_MAX(FRAME_MAX);
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
}

/* Waits for a key, a change, or the end, at most so long. `ret_key` has the key. */
static enum screen_event screen_wait(struct screen *s, int64_t timeout_ms, char *ret_key)
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

/* ---- Looking and drawing --------------------------------------------------------------------- */

/* Looking may take this share of the time: a store on which it is slow is looked at less often. */
#define LOOK_SHARE 20

struct top_options {
    int64_t interval_ms;
    bool once;
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("interval", 'i', "SPAN",
           "how often to look, from 100ms to 1h; a store that is slow to answer is looked at less "
           "often",
           INTO_DURATION(struct top_options, interval_ms), .min = 100, .max = 3600000,
           .default_text = "1s"),
    OPTION("once", 0, NULL,
           "print one frame and end; where workers are it looks twice, one --interval apart, so "
           "that there are rates to show",
           INTO_FLAG(struct top_options, once)),
    OPTION("tenant", 0, "NAME", "only what belongs to this tenant",
           INTO_STRING(struct top_options, tenant)),
    {0},
};

struct top {
    struct cli *cli;
    const struct top_options *options;
    struct session *session;
    struct top_look *look;
    int64_t parked_ms; /* when breakers, and parked jobs, may be looked at again, monotonic */
    struct redrive_err problem;
};

/* Looks, and says when to look next. */
static int64_t look(struct top *top)
{
    int64_t began_ms = clock_monotonic_ms();
    bool count = began_ms >= top->parked_ms;
    top->problem = (struct redrive_err){0};
    (void)top_look(top->look, top->session, str_of(top->options->tenant), count, &top->problem);
    int64_t ended_ms = clock_monotonic_ms();
    int64_t rest_ms = (ended_ms - began_ms) * LOOK_SHARE;
    if (count)
        top->parked_ms = ended_ms + rest_ms;
    else if (rest_ms > top->options->interval_ms)
        return ended_ms + rest_ms;
    return began_ms + top->options->interval_ms;
}

static void draw(const struct top *top, unsigned width, struct buf *out)
{
    buf_reset(out);
    const struct session *session = top->session;
    top_draw(
        top->look, session->remote ? remote_url(session->remote) : session->config->store_shown,
        top->problem.message[0] ? top->problem.message : NULL, width, top->cli->out.color, out);
}

/* Rates are differences between two looks. Where nothing works there is nothing to wait for. */
static void look_twice(struct top *top)
{
    const int64_t next_ms = look(top);
    if (top->problem.message[0] || top->look->n_workers == 0)
        return;
    int64_t left_ms = next_ms - clock_monotonic_ms();
    struct timespec left = {.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000};
    if (left_ms > 0)
        (void)nanosleep(&left, NULL);
    (void)look(top);
}

static int print_once(struct top *top, struct redrive_err *err)
{
    struct buf out;
    look_twice(top);
    if (top->problem.message[0]) {
        if (err)
            *err = top->problem;
        return top->problem.code;
    }
    buf_init(&out, FRAME_MAX);
    draw(top, top->cli->out.width, &out);
    return cli_print(top->cli, &out, err);
}

static bool quits(enum screen_event event, char key)
{
    return event == SCREEN_END || (event == SCREEN_KEY && (key == 'q' || key == 'Q'));
}

static int run_live(struct top *top, struct redrive_err *err)
{
    struct screen screen;
    int rc = screen_open(&screen, STDIN_FILENO, fileno(top->cli->out.file), err);
    if (rc < 0)
        return rc;
    RELEASED_BY(buf_release) struct buf frame = BUF_MAX(FRAME_MAX);
    int64_t next_ms = look(top);
    for (;;) {
        char key = 0;
        draw(top, screen.width, &frame);
        screen_show(&screen, &frame);
        int64_t left_ms = next_ms - clock_monotonic_ms();
        enum screen_event event = screen_wait(&screen, left_ms > 0 ? left_ms : 0, &key);
        if (quits(event, key))
            break;
        if (event == SCREEN_TIME)
            next_ms = look(top);
    }
    screen_close(&screen);
    return 0;
}

/* A program that asked for JSON gets an error rather than a drawing. */
static int refuse_json(struct cli *cli, struct redrive_err *err)
{
    if (!cli->globals->json)
        return 0;
    (void)err_set(err, REDRIVE_E_USAGE, "top draws for people and has no --json");
    err_hint(err, "`redrive stats --json` has the numbers");
    return REDRIVE_E_USAGE;
}

static int run_top(struct cli *cli, struct session *session, struct redrive_err *err)
{
    struct top top = {
        .cli = cli, .options = invocation_options(&cli->invocation), .session = session};
    top.look = calloc(1, sizeof *top.look);
    if (!top.look)
        return err_nomem(err);
    int rc = top.options->once || !cli->out.is_tty ? print_once(&top, err) : run_live(&top, err);
    top_look_release(top.look);
    free(top.look);
    return rc;
}

const struct command cmd_top = {
    .name = "top",
    .summary = "watch a store live",
    .description = "Shows queues by state, throughput of the last minute, breakers that are not "
                   "closed, workers and the latest dead letters, and renews them until `q` is "
                   "pressed. It only reads. Without a terminal it prints one frame, with the rates "
                   "of one --interval. For programs `redrive stats --json` has the numbers.",
    OPTIONS_INTO(OPTIONS, struct top_options),
    .examples = EXAMPLES({"redrive top", "watch the store of the configuration"},
                         {"redrive top --interval 5s --tenant acme", "less often, one tenant"},
                         {"redrive top --once", "one frame, for a script or a mail"}),
    .check = refuse_json,
    .run_on_store = run_top,
    .settings = SETTINGS_HEALTH,
};
