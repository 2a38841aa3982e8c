#include "checker.h"

static const char *const EVENTS[] = {
    [SIM_SUBMITTED] = "submitted", [SIM_REJECTED] = "rejected", [SIM_DUE] = "due",
    [SIM_RUN_NOW] = "run now",     [SIM_PARKED] = "parked",     [SIM_UNPARKED] = "unparked",
    [SIM_STARTED] = "started",     [SIM_SETTLED] = "settled",   [SIM_REDRIVEN] = "redriven",
    [SIM_BREAKER] = "breaker",
};

static void print_line(const struct checker_line *line, FILE *out)
{
    fprintf(out, "  %10lld ms  %-9s", (long long)line->at_ms, EVENTS[line->type]);
    if (line->type == SIM_BREAKER) {
        fprintf(out, "  is now %s\n",
                redrive_breaker_state_name((enum redrive_breaker_state)line->breaker));
        return;
    }
    if (line->type != SIM_SUBMITTED)
        fprintf(out, "  %s", redrive_state_name((enum redrive_state)line->from));
    fprintf(out, " -> %s, attempts %u", redrive_state_name((enum redrive_state)line->to),
            line->attempts);
    if (line->type == SIM_STARTED && line->is_probe)
        fprintf(out, ", as a probe");
    if (line->type == SIM_SETTLED) {
        fprintf(out, ", class %s", redrive_class_name((enum redrive_class)line->class_));
        if (line->reason != REDRIVE_REASON_NONE)
            fprintf(out, ", reason %s", redrive_reason_name((enum redrive_reason)line->reason));
        if (line->delay_ms > 0)
            fprintf(out, ", delay %lld ms", (long long)line->delay_ms);
    }
    fputc('\n', out);
}

void checker_explain(const struct checker *c, FILE *out)
{
    if (c->violation[0] == '\0') {
        fprintf(out, "no violation\n");
        return;
    }
    if (c->violated_by == UINT32_MAX)
        fprintf(out, "breaker: %s\n", c->violation);
    else
        fprintf(out, "job %u: %s\n", c->violated_by, c->violation);
    for (size_t i = 0; i < c->n_lines; i++)
        if (c->lines[i].job == c->violated_by || c->lines[i].job == UINT32_MAX)
            print_line(&c->lines[i], out);
}
