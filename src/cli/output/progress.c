/* progress.c - draws the bar, and catches the signals that stop long work. */
#include "cli/output/progress.h"

#include <inttypes.h>
#include <stddef.h>

#include "base/time/clock.h"
#include "cli/output/term.h"

#define BAR_MIN        10
#define BAR_MAX        40
#define LINE_MAX_BYTES 4096

void progress_init(struct progress *p, struct term *term, const char *label, uint64_t total,
                   int64_t (*now_ms)(void))
{
    *p = (struct progress){.term = term, .label = label, .total = total};
    p->now_ms = now_ms ? now_ms : clock_monotonic_ms;
    p->started_ms = p->now_ms();
    p->drawn_ms = p->started_ms - PROGRESS_REDRAW_MS;
}

/* A time in its two largest units: 45s, 3m05s, 2h10m. */
static void add_time(struct buf *out, int64_t ms)
{
    int64_t s = (ms + 999) / 1000;
    if (s < 60)
        buf_printf(out, "%" PRId64 "s", s);
    else if (s < 3600)
        buf_printf(out, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else
        buf_printf(out, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
}

static void add_bar(struct buf *out, double share, size_t width)
{
    size_t filled = (size_t)(share * (double)width);
    buf_putc(out, '[');
    for (size_t i = 0; i < width; i++)
        buf_puts(out, i < filled ? "=" : i == filled ? ">" : " ");
    buf_puts(out, "]  ");
}

/* The text right of the bar. */
static void add_figures(struct buf *out, const struct progress *p, double share, int64_t elapsed_ms)
{
    if (p->total == 0) {
        buf_printf(out, "%" PRIu64 "  ", p->done);
        add_time(out, elapsed_ms);
        return;
    }
    buf_printf(out, "%3.0f %%  %" PRIu64 "/%" PRIu64, 100 * share, p->done, p->total);
    if (p->done > 0 && p->done < p->total) {
        buf_puts(out, "  ");
        add_time(out, (int64_t)((double)elapsed_ms * (1 - share) / share));
        buf_puts(out, " left");
    }
}

void progress_render(const struct progress *p, int64_t elapsed_ms, unsigned width, struct buf *out)
{
    double share = p->total ? (double)p->done / (double)p->total : 0;

    if (share > 1)
        share = 1;
    RELEASED_BY(buf_release) struct buf line = BUF_MAX(LINE_MAX_BYTES);
    RELEASED_BY(buf_release) struct buf figures = BUF_MAX(LINE_MAX_BYTES);
    text_add_clean(&line, str_of(p->label));
    buf_puts(&line, "  ");
    add_figures(&figures, p, share, elapsed_ms);

    size_t used = text_width(buf_str(&line)) + text_width(buf_str(&figures)) + 4;
    size_t bar = width > used ? width - used : 0;
    if (p->total > 0 && bar >= BAR_MIN)
        add_bar(&line, share, bar < BAR_MAX ? bar : BAR_MAX);
    buf_add_str(&line, buf_str(&figures));
    buf_add_str(out, text_fit(buf_str(&line), width));
}

void progress_update(struct progress *p, uint64_t done)
{
    p->done = done;
    if (!p->term->is_tty)
        return;
    int64_t now_ms = p->now_ms();
    if (now_ms - p->drawn_ms < PROGRESS_REDRAW_MS)
        return;
    p->drawn_ms = now_ms;

    RELEASED_BY(buf_release) struct buf line = BUF_MAX(LINE_MAX_BYTES);
    buf_putc(&line, '\r');
    /* A character in the last column would make some terminals go to the next line. */
    progress_render(p, now_ms - p->started_ms, p->term->width - 1, &line);
    buf_puts(&line, "\033[K");
    term_write(p->term, &line);
    fflush(p->term->file);
    p->visible = true;
}

void progress_phase(struct progress *p, struct term *term, const char *label, uint64_t done,
                    uint64_t total)
{
    if (p->label != label) {
        progress_clear(p);
        progress_init(p, term, label, total, NULL);
    }
    progress_update(p, done);
}

void progress_clear(struct progress *p)
{
    if (!p->visible)
        return;
    fputs("\r\033[K", p->term->file);
    fflush(p->term->file);
    p->visible = false;
}

/* ---- Interruption ---------------------------------------------------------------------------- */

/* Set by a signal. */
static volatile sig_atomic_t asked_to_stop;

static void ask_to_stop(int number)
{
    (void)number;
    asked_to_stop = 1;
}

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP};
#define N_SIGNALS (sizeof SIGNALS / sizeof SIGNALS[0])

void interrupt_catch(struct interrupt *interrupt)
{
    struct sigaction action = {.sa_handler = ask_to_stop,
                               .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    (void)sigemptyset(&action.sa_mask);
    asked_to_stop = 0;
    for (size_t i = 0; i < N_SIGNALS; i++) {
        (void)sigaction(SIGNALS[i], NULL, &interrupt->before[i]);
        if (interrupt->before[i].sa_handler != SIG_IGN)
            (void)sigaction(SIGNALS[i], &action, NULL);
    }
}

void interrupt_release(const struct interrupt *interrupt)
{
    for (size_t i = 0; i < N_SIGNALS; i++)
        (void)sigaction(SIGNALS[i], &interrupt->before[i], NULL);
}

bool interrupt_asked(void)
{
    return asked_to_stop != 0;
}
