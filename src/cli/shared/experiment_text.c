/* experiment_text.c - the figures of an experiment as people read them. */
#include "cli/shared/experiment_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/frame/cli.h"

#define TEXT_MAX 96
#define TOO_FEW  "too few jobs"

/* How a kind of figure is written: a share in percent, a time in seconds. */
static const struct {
    double unit;
    int digits; /* after the point */
    const char *after;
    const char *after_difference;
} WRITTEN[MEASURE_KINDS] = {
    [MEASURE_COMPLETED] = {100, 1, " %", " points"},
    [MEASURE_ATTEMPTS] = {1, 2, "", ""},
    [MEASURE_TIME] = {1e-3, 2, " s", " s"},
};

static const char *estimate_text(const struct estimate *e, enum measure_kind kind, bool is_signed,
                                 char out[TEXT_MAX])
{
    const double unit = WRITTEN[kind].unit;
    const int digits = WRITTEN[kind].digits;
    const char *after = is_signed ? WRITTEN[kind].after_difference : WRITTEN[kind].after;
    if (!e->is_known)
        return TOO_FEW;
    (void)snprintf(out, TEXT_MAX, is_signed ? "%+.*f%s (%+.*f to %+.*f)" : "%.*f%s (%.*f to %.*f)",
                   digits, e->value * unit, after, digits, e->low * unit, digits, e->high * unit);
    return out;
}

static void add_arm(struct table *t, const struct arm_row *arm)
{
    char text[TEXT_MAX];
    table_add_str(t, arm->name);
    if (arm->share > 0)
        table_addf(t, "%.4g %%", 100 * arm->share);
    else
        table_add(t, "-");
    table_addf(t, "%" PRId64, arm->figures.submitted);
    table_addf(t, "%" PRId64, figures_ended(&arm->figures));
    for (int kind = 0; kind < MEASURE_KINDS; kind++) {
        const struct estimate e = figures_estimate(&arm->figures, (enum measure_kind)kind);
        table_add(t, estimate_text(&e, (enum measure_kind)kind, false, text));
    }
}

static void add_differences(struct buf *out, const struct term *term,
                            const struct experiment_row *row, size_t i)
{
    const struct arm_row *base = &row->arms[experiment_base(row)], *arm = &row->arms[i];
    char text[TEXT_MAX];
    buf_printf(out, "\n%.*s against %.*s\n", (int)arm->name.len, arm->name.ptr, (int)base->name.len,
               base->name.ptr);
    for (int kind = 0; kind < MEASURE_KINDS; kind++) {
        const struct estimate e =
            figures_difference(&base->figures, &arm->figures, (enum measure_kind)kind);
        const bool is_significant = estimate_is_significant(&e);
        buf_printf(out, "  %-10s %s", measure_name((enum measure_kind)kind),
                   estimate_text(&e, (enum measure_kind)kind, true, text));
        if (e.is_known)
            style_add(out, term->color, is_significant ? STYLE_BOLD : STYLE_DIM,
                      is_significant ? STR(", significant") : STR(", not significant"));
        buf_putc(out, '\n');
    }
}

void experiment_text(struct buf *out, const struct term *term, const struct experiment_row *row)
{
    struct table t;
    buf_printf(out, "Experiment %.*s", (int)row->name.len, row->name.ptr);
    if (row->task.len > 0) {
        buf_puts(out, " of task ");
        text_add_clean(out, row->task);
        buf_puts(out, "\n\n");
    } else {
        buf_puts(out, ", not running any more\n\n");
    }
    table_init(&t, "ARM|>SHARE|>JOBS|>ENDED|COMPLETED|ATTEMPTS|TIME");
    for (size_t i = 0; i < row->n_arms; i++)
        add_arm(&t, &row->arms[i]);
    table_finish(&t, 0, term->color, out);
    for (size_t i = 0; i < row->n_arms; i++)
        if (i != experiment_base(row))
            add_differences(out, term, row, i);
    buf_puts(out, "\nIn brackets: intervals of 95 %.\n");
}
