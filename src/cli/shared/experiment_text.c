/* experiment_text.c - the figures of an experiment as people read them. */
#include "cli/shared/experiment_text.h"

#include <inttypes.h>
#include <stdio.h>

#define TEXT_MAX 96
#define TOO_FEW  "too few jobs"

/* A kind of figure: its members in an arm, and in what tells the arm from the base; and how it is
 * written. */
static const struct measure_text {
    const char *member;
    const char *difference;
    double unit; /* a share is written in percent */
    int digits;  /* after the point */
    const char *after;
    const char *after_difference;
} MEASURES[] = {
    {"completed_share", "completed", 100, 1, " %", " points"},
    {"attempts_per_job", "attempts", 1, 2, "", ""},
    {"time_to_completion", "time", 1, 2, " s", " s"},
};
#define N_MEASURES (sizeof MEASURES / sizeof MEASURES[0])

static const char *estimate_text(const struct object *estimate, const struct measure_text *m,
                                 bool is_signed, char out[TEXT_MAX])
{
    const double value = object_double(estimate, "value", 0) * m->unit;
    const double low = object_double(estimate, "low", 0) * m->unit;
    const double high = object_double(estimate, "high", 0) * m->unit;
    if (!estimate->members)
        return TOO_FEW;
    (void)snprintf(out, TEXT_MAX, is_signed ? "%+.*f%s (%+.*f to %+.*f)" : "%.*f%s (%.*f to %.*f)",
                   m->digits, value, is_signed ? m->after_difference : m->after, m->digits, low,
                   m->digits, high);
    return out;
}

static void add_arm(struct table *t, const struct object *arm)
{
    const double share = object_double(arm, "share", 0);
    char text[TEXT_MAX];
    table_add_str(t, object_text(arm, "name"));
    if (share > 0)
        table_addf(t, "%.4g %%", 100 * share);
    else
        table_add(t, "-");
    table_addf(t, "%" PRId64, object_int(arm, "submitted"));
    table_addf(t, "%" PRId64, object_int(arm, "ended"));
    for (size_t i = 0; i < N_MEASURES; i++) {
        const struct object estimate = object_object(arm, MEASURES[i].member);
        table_add(t, estimate_text(&estimate, &MEASURES[i], false, text));
    }
}

static void add_differences(struct buf *out, const struct term *term, struct str base,
                            const struct object *arm)
{
    const struct object differences = object_object(arm, "against_base");
    const struct str name = object_text(arm, "name");
    char text[TEXT_MAX];
    if (!differences.members)
        return;
    buf_putc(out, '\n');
    text_add_clean(out, name);
    buf_puts(out, " against ");
    text_add_clean(out, base);
    buf_putc(out, '\n');
    for (size_t i = 0; i < N_MEASURES; i++) {
        const struct object estimate = object_object(&differences, MEASURES[i].difference);
        const bool is_significant = object_bool(&estimate, "significant");
        buf_printf(out, "  %-10s %s", MEASURES[i].difference,
                   estimate_text(&estimate, &MEASURES[i], true, text));
        if (estimate.members)
            style_add(out, term->color, is_significant ? STYLE_BOLD : STYLE_DIM,
                      is_significant ? STR(", significant") : STR(", not significant"));
        buf_putc(out, '\n');
    }
}

void experiment_text(struct buf *out, const struct term *term, const struct object *experiment)
{
    const struct str task = object_text(experiment, "task");
    struct object *arms = NULL;
    const size_t n = object_objects(experiment, "arms", &arms);
    struct table t;
    buf_puts(out, "Experiment ");
    text_add_clean(out, object_text(experiment, "name"));
    buf_puts(out, task.len > 0 ? " of task " : ", not running any more");
    text_add_clean(out, task);
    buf_puts(out, "\n\n");
    table_init(&t, "ARM|>SHARE|>JOBS|>ENDED|COMPLETED|ATTEMPTS|TIME");
    for (size_t i = 0; i < n; i++)
        add_arm(&t, &arms[i]);
    table_finish(&t, 0, term->color, out);
    for (size_t i = 0; i < n; i++)
        add_differences(out, term, object_text(experiment, "base"), &arms[i]);
    buf_puts(out, "\nIn brackets: intervals of 95 %.\n");
}
