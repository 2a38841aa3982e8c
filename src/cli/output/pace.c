/* pace.c - interpolates between looks. */
#include "cli/output/pace.h"

#define SECOND_MS 1000

static unsigned slot(const struct pace *p, unsigned i)
{
    return (p->first + i) % PACE_LOOKS;
}

void pace_add(struct pace *p, int64_t at_ms, double value)
{
    if (p->n > 0) {
        unsigned last = slot(p, p->n - 1);
        if (value < p->looks[last].value)
            p->n = 0;
        else if (at_ms <= p->looks[last].at_ms)
            return;
    }
    if (p->n == PACE_LOOKS) {
        p->first = slot(p, 1);
        p->n--;
    }
    unsigned at = slot(p, p->n++);
    p->looks[at].at_ms = at_ms;
    p->looks[at].value = value;
}

/* The number at a time between the first look and the last. */
static double value_at(const struct pace *p, int64_t at_ms)
{
    unsigned i = 1;
    while (i + 1 < p->n && p->looks[slot(p, i)].at_ms < at_ms)
        i++;
    unsigned a = slot(p, i - 1), b = slot(p, i);
    double share =
        (double)(at_ms - p->looks[a].at_ms) / (double)(p->looks[b].at_ms - p->looks[a].at_ms);
    return p->looks[a].value + share * (p->looks[b].value - p->looks[a].value);
}

double pace_between(const struct pace *p, int64_t from_ms, int64_t to_ms)
{
    if (p->n < 2 || from_ms >= to_ms || from_ms < p->looks[p->first].at_ms ||
        to_ms > p->looks[slot(p, p->n - 1)].at_ms)
        return -1;
    return (value_at(p, to_ms) - value_at(p, from_ms)) * SECOND_MS / (double)(to_ms - from_ms);
}

double pace_recent(const struct pace *p, int64_t span_ms)
{
    if (p->n < 2)
        return 0;
    int64_t first_ms = p->looks[p->first].at_ms;
    int64_t last_ms = p->looks[slot(p, p->n - 1)].at_ms;
    return pace_between(p, last_ms - span_ms > first_ms ? last_ms - span_ms : first_ms, last_ms);
}

void pace_draw(const struct pace *p, unsigned seconds, struct buf *out)
{
    static const char *const SIGNS[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const int highest = (int)(sizeof SIGNS / sizeof SIGNS[0]) - 1;
    int64_t last_ms = p->n ? p->looks[slot(p, p->n - 1)].at_ms : 0;
    double most = 0;
    for (unsigned back = seconds; back > 0; back--) {
        double rate = pace_between(p, last_ms - back * SECOND_MS, last_ms - (back - 1) * SECOND_MS);
        most = rate > most ? rate : most;
    }
    for (unsigned back = seconds; back > 0; back--) {
        double rate = pace_between(p, last_ms - back * SECOND_MS, last_ms - (back - 1) * SECOND_MS);
        if (rate < 0)
            buf_putc(out, ' ');
        else
            buf_puts(out, SIGNS[most > 0 ? (int)(rate / most * highest + 0.5) : 0]);
    }
}
