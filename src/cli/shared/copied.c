/* copied.c - what a copy of a store was. */
#include "cli/shared/copied.h"

#include <inttypes.h>

#include "base/err.h"

static const struct {
    enum record_kind kind;
    const char *key;
    const char *text;
} KINDS[] = {
    {(enum record_kind)SHARED_BREAKER, "breakers", "breakers"},
    {(enum record_kind)SHARED_LIMIT, "limits", "limits"},
    {(enum record_kind)SHARED_PAUSE, "pauses", "pauses"},
    {(enum record_kind)SHARED_TASK, "tasks", "task definitions"},
    {(enum record_kind)SHARED_CRON, "cron", "cron entries"},
    {(enum record_kind)SHARED_ALERT, "alerts", "alerts"},
    {(enum record_kind)SHARED_CANCEL, "cancels", "cancels"},
    {RECORD_COUNTER, "counters", "counters"},
    {RECORD_KEY, "remembered_keys", "remembered keys"},
};
#define N_KINDS (sizeof KINDS / sizeof KINDS[0])

void tally_as_json(struct json_writer *w, const struct tally *tally)
{
    json_field_int(w, "jobs", tally->sums[RECORD_JOB].rows);
    json_field_int(w, "attempts", (int64_t)tally->attempts);
    json_field_int(w, "dead_letters", (int64_t)tally->by_state[REDRIVE_STATE_DEAD_LETTER]);
    json_open_object(w, "by_state");
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        json_field_int(w, redrive_state_name((enum redrive_state)state),
                       (int64_t)tally->by_state[state]);
    json_end_object(w);
    for (size_t i = 0; i < N_KINDS; i++)
        json_field_int(w, KINDS[i].key, tally->sums[KINDS[i].kind].rows);
}

void tally_as_text(struct buf *out, const struct tally *tally)
{
    buf_printf(out, "  jobs %" PRIu64 ", attempts %" PRIu64 ", dead letters %" PRIu64 "\n ",
               tally_jobs(tally), tally->attempts, tally->by_state[REDRIVE_STATE_DEAD_LETTER]);
    for (size_t i = 0; i < N_KINDS; i++)
        buf_printf(out, " %s %" PRId64 "%s", KINDS[i].text, tally->sums[KINDS[i].kind].rows,
                   i + 1 < N_KINDS ? "," : "\n");
}

void findings_as_json(struct json_writer *w, const struct findings *f)
{
    json_field_int(w, "differing", (int64_t)f->differing);
    json_field_int(w, "missing", (int64_t)f->missing);
    json_field_int(w, "other_differences", (int64_t)f->others);
    json_field_cstr(w, "difference", f->difference[0] ? f->difference : NULL);
}

int findings_error(const struct findings *findings, const char *source, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_STATE,
            "the destination is not as %s: differing jobs: %" PRIu64 ", missing: %" PRIu64
            ", other differences: %" PRIu64,
            source, findings->differing, findings->missing, findings->others);
    err_detail(err, "the first: %s", findings->difference);
    err_hint(err, "did a process use one of the stores meanwhile? Nothing was overwritten");
    return REDRIVE_E_STATE;
}

bool copy_bar_show(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct copy_bar *bar = ctx;
    progress_phase(&bar->progress, &bar->cli->err, phase, done, total);
    return !interrupt_asked();
}
