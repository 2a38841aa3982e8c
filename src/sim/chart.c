/* chart.c - draws a comparison as SVG, or gives what is drawn as numbers. */
#include "sim/compare.h"

#include <math.h>
#include <stdio.h>

#define WIDTH  1100
#define HEIGHT 540
#define LEFT   64
#define RIGHT  784 /* of the plot; the legend is beside it */
#define TOP    96
#define BOTTOM 484

#define INK    "#1b1f24"
#define FAINT  "#57606a"
#define GRID   "#e3e6ea"
#define SHADE  "#fbe9e2"
#define SHADED "#9a3412"

#define MAX_POINTS 170

struct look {
    const char *color;
    const char *dashes; /* "none" is solid */
    double width;
};

/* In the order of the table of strategies. */
static const struct look LOOKS[] = {
    {"#d55e00", "2 3", 1.8},  {"#e69f00", "9 3", 1.8},     {"#cc79a7", "8 3 2 3", 1.8},
    {"#009e73", "14 4", 1.8}, {"#000000", "4 2 1 2", 1.6}, {"#0072b2", "none", 3},
    {"#0072b2", "6 2", 2.4},
};

static const struct look CONFIGURED_LOOK = {"#56b4e9", "12 3 3 3", 2.4};

static const struct look CAPACITY_LOOK = {FAINT, "none", 1};

/* A strategy looks the same whichever others are compared; an arm, by its number. */
static const struct look *look_of(const struct compare_options *options, size_t row)
{
    const struct strategy *strategy = options->strategies[row];
    size_t n, at = row;
    if (!options->experiment && strategy->configured)
        return &CONFIGURED_LOOK;
    if (!options->experiment)
        at = (size_t)(strategy - strategies(&n));
    return &LOOKS[at % (sizeof LOOKS / sizeof LOOKS[0])];
}

/* Where the data lies, and how it maps to the picture. */
struct plot {
    const struct comparison *comparison;
    struct buf *out;
    int64_t end_s;   /* of the time axis */
    int64_t width_s; /* of one point */
    double top;      /* of the other axis */
};

static double x_of(const struct plot *p, double second)
{
    return LEFT + (RIGHT - LEFT) * second / (double)p->end_s;
}

static double y_of(const struct plot *p, double calls)
{
    return BOTTOM - (BOTTOM - TOP) * calls / p->top;
}

/* The mean of calls per second in the point that begins there. */
static double calls_at(const struct plot *p, const struct measure *m, int64_t second)
{
    uint64_t calls = 0;
    for (int64_t s = second; s < second + p->width_s && s < (int64_t)m->n_seconds; s++)
        calls += m->seconds[s].ok + m->seconds[s].failed;
    return (double)calls / (double)p->width_s;
}

/* The least of the round steps that makes at most `count` of them. */
static double round_step(double span, double count, const double *steps, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (span / steps[i] <= count)
            return steps[i];
    return steps[n - 1];
}

static double time_step(double span_s, double count)
{
    static const double STEPS[] = {1,   2,   5,    10,   15,   30,   60,    120,
                                   300, 600, 1200, 1800, 3600, 7200, 21600, 86400};
    return round_step(span_s, count, STEPS, sizeof STEPS / sizeof STEPS[0]);
}

static double count_step(double span, double count)
{
    double unit = pow(10, floor(log10(span / count)));
    double steps[] = {unit, 2 * unit, 5 * unit, 10 * unit};
    return round_step(span, count, steps, 4);
}

/* The picture ends a while after the last strategy has drained, or with the run. */
static int64_t end_of_interest_ms(const struct comparison *c)
{
    int64_t longest_ms = 60 * 1000;
    for (size_t i = 0; i < c->options.n_strategies; i++) {
        int64_t drain_ms = c->rows[i].figures.drain_ms;
        if (drain_ms < 0)
            return c->options.duration_ms;
        if (drain_ms > longest_ms)
            longest_ms = drain_ms;
    }
    int64_t end_ms = c->outage_end_ms + longest_ms + longest_ms / 4;
    return c->options.outage_ms > 0 && end_ms < c->options.duration_ms ? end_ms
                                                                       : c->options.duration_ms;
}

static void measure_axes(struct plot *p)
{
    const struct comparison *c = p->comparison;
    p->end_s = (end_of_interest_ms(c) + 999) / 1000;
    p->width_s = (int64_t)time_step((double)p->end_s, MAX_POINTS);
    double most = 1;
    for (size_t i = 0; i < c->options.n_strategies; i++)
        for (int64_t s = 0; s < p->end_s; s += p->width_s)
            most = fmax(most, calls_at(p, &c->rows[i], s));
    double step = count_step(most, 7);
    p->top = step * ceil(most * 1.02 / step);
}

static void text(struct buf *out, double x, double y, const char *attributes, const char *words)
{
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, words);
}

/* 28865 as 28,865. */
static const char *grouped(uint64_t n, char out[32])
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%llu", (unsigned long long)n);
    char *to = out;
    for (int i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return out;
}

static void put_head(const struct plot *p)
{
    const struct compare_options *o = &p->comparison->options;
    char line[200];
    struct buf *out = p->out;

    if (o->outage_ms > 0)
        snprintf(line, sizeof line, "Calls per second through %s of %g s",
                 compare_is_brownout(o) ? "a brownout" : "an outage", (double)o->outage_ms / 1000);
    else
        snprintf(line, sizeof line, "Calls per second without an outage");
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" role=\"img\" font-family=\"system-ui, 'Segoe UI', Helvetica, Arial, "
               "sans-serif\" font-size=\"13\" fill=\"" INK "\">\n",
               WIDTH, HEIGHT, WIDTH, HEIGHT);
    buf_printf(out, "<title>%s</title>\n", line);
    buf_printf(out, "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", WIDTH, HEIGHT);
    text(out, LEFT, 36, "font-size=\"20\" font-weight=\"600\"", line);
    buf_printf(out, "<text x=\"%.1f\" y=\"%.1f\" fill=\"" FAINT "\">", (double)LEFT, 59.0);
    buf_printf(out, "%g jobs/s arrive, each has ", o->jobs_per_s);
    comparison_attempts(p->comparison, "", out);
    buf_printf(out, "; means over %lld s</text>\n", (long long)p->width_s);
}

/* A straight piece of a line, across the plot or in the legend. */
static void put_sample(const struct plot *p, double from, double to, double y,
                       const struct look *look)
{
    buf_printf(p->out,
               "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
               "stroke-width=\"%g\" stroke-dasharray=\"%s\"/>\n",
               from, y, to, y, look->color, look->width, look->dashes);
}

static void put_outage(const struct plot *p)
{
    const struct comparison *c = p->comparison;
    if (c->options.outage_ms == 0)
        return;
    double from = x_of(p, (double)c->outage_start_ms / 1000);
    double to = fmin(RIGHT, x_of(p, (double)c->outage_end_ms / 1000));
    buf_printf(p->out,
               "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"" SHADE "\"/>\n",
               from, TOP, to - from, BOTTOM - TOP);
    char line[64] = "the service is down";
    if (compare_is_brownout(&c->options))
        snprintf(line, sizeof line, "%g %% of the calls fail", 100 * c->options.brownout);
    text(p->out, (from + to) / 2, TOP - 8, "fill=\"" SHADED "\" text-anchor=\"middle\"", line);
}

static void put_axes(const struct plot *p)
{
    char label[32];
    double step = count_step(p->top, 8);
    for (int i = 0; i * step <= p->top + step / 2; i++) {
        double v = i * step;
        double y = y_of(p, v);
        buf_printf(p->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>\n",
                   LEFT, y, RIGHT, y, v > 0 ? GRID : INK);
        snprintf(label, sizeof label, "%g", v);
        text(p->out, LEFT - 8, y + 4.5, "text-anchor=\"end\" fill=\"" FAINT "\"", label);
    }
    bool in_minutes = p->end_s > 1200;
    step = time_step((double)p->end_s, 13);
    for (int i = 0; i * step <= (double)p->end_s; i++) {
        double s = i * step;
        double x = x_of(p, s);
        buf_printf(p->out,
                   "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"" INK "\"/>\n", x,
                   BOTTOM, x, BOTTOM + 5);
        snprintf(label, sizeof label, "%g", in_minutes ? s / 60 : s);
        text(p->out, x, BOTTOM + 20, "text-anchor=\"middle\" fill=\"" FAINT "\"", label);
    }
    text(p->out, (LEFT + RIGHT) / 2.0, BOTTOM + 42, "text-anchor=\"middle\"",
         in_minutes ? "time (min)" : "time (s)");
    buf_printf(p->out,
               "<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">calls "
               "per second</text>\n",
               (TOP + BOTTOM) / 2.0);
}

/* A capacity far above every line is not drawn. */
static bool shows_capacity(const struct plot *p)
{
    double capacity = p->comparison->options.capacity_per_s;
    return capacity > 0 && capacity <= p->top;
}

static void put_capacity(const struct plot *p)
{
    if (shows_capacity(p))
        put_sample(p, LEFT, RIGHT, y_of(p, p->comparison->options.capacity_per_s), &CAPACITY_LOOK);
}

static void put_line(const struct plot *p, size_t row)
{
    const struct measure *m = &p->comparison->rows[row];
    const struct look *look = look_of(&p->comparison->options, row);
    buf_printf(p->out,
               "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" "
               "stroke-dasharray=\"%s\" stroke-linejoin=\"round\" points=\"",
               look->color, look->width, look->dashes);
    for (int64_t s = 0; s + p->width_s <= p->end_s; s += p->width_s)
        buf_printf(p->out, "%.1f,%.1f ", x_of(p, (double)s + (double)p->width_s / 2),
                   y_of(p, calls_at(p, m, s)));
    buf_puts(p->out, "\"/>\n");
}

static void put_legend_entry(const struct plot *p, size_t row, const struct look *look,
                             const char *name, const char *line)
{
    double y = TOP + 12 + 52 * (double)row;
    put_sample(p, RIGHT + 20, RIGHT + 60, y - 4.5, look);
    text(p->out, RIGHT + 68, y, "font-weight=\"600\"", name);
    text(p->out, RIGHT + 68, y + 18, "fill=\"" FAINT "\"", line);
}

static void put_legend(const struct plot *p)
{
    const struct compare_options *o = &p->comparison->options;
    char line[96];
    for (size_t i = 0; i < o->n_strategies; i++) {
        const struct figures *f = &p->comparison->rows[i].figures;
        char wasted[32];
        char lost[32];
        snprintf(line, sizeof line, "%s wasted calls, %s %s", grouped(f->wasted, wasted),
                 grouped(figures_lost(f), lost), f->rejected > 0 ? "lost" : "dead");
        put_legend_entry(p, i, look_of(o, i), o->strategies[i]->title, line);
    }
    if (shows_capacity(p)) {
        snprintf(line, sizeof line, "%g calls/s; what is beyond %s", o->capacity_per_s,
                 o->overload_waits ? "waits" : "fails");
        put_legend_entry(p, o->n_strategies, &CAPACITY_LOOK, "capacity of the service", line);
    }
}

int chart_svg(const struct comparison *comparison, struct buf *out)
{
    struct plot p = {.comparison = comparison, .out = out};
    measure_axes(&p);
    put_head(&p);
    put_outage(&p);
    put_axes(&p);
    put_capacity(&p);
    /* The last one is the widest and goes under the others. */
    for (size_t i = comparison->options.n_strategies; i > 0; i--)
        put_line(&p, i - 1);
    put_legend(&p);
    buf_puts(out, "</svg>\n");
    return buf_failed(out);
}

void comparison_write_series(const struct comparison *comparison, struct json_writer *w)
{
    struct plot p = {.comparison = comparison};
    measure_axes(&p);
    json_field_int(w, "step_ms", p.width_s * 1000);
    json_open_array(w, "calls_per_s");
    for (size_t i = 0; i < comparison->options.n_strategies; i++) {
        json_begin_array(w);
        for (int64_t s = 0; s + p.width_s <= p.end_s; s += p.width_s)
            json_put_double(w, round(calls_at(&p, &comparison->rows[i], s) * 100) / 100);
        json_end_array(w);
    }
    json_end_array(w);
}
