/* text.c - short texts about a job. */
#include "cli/jobs/text.h"

#include <inttypes.h>
#include <stdio.h>

#include "cli/output/text.h"
#include "store/job_json.h"

const char *age_text(int64_t ms, char out[AGE_TEXT_MAX])
{
    int64_t s = ms > 0 ? ms / 1000 : 0;
    int64_t n = s < 60 ? s : s < 3600 ? s / 60 : s < 48 * 3600 ? s / 3600 : s / 86400;
    (void)snprintf(out, AGE_TEXT_MAX, "%" PRId64 "%c", n,
                   s < 60          ? 's'
                   : s < 3600      ? 'm'
                   : s < 48 * 3600 ? 'h'
                                   : 'd');
    return out;
}

void job_add_next(struct buf *out, const struct job *job, int64_t now_ms)
{
    const struct job_status *s = &job->status;
    const char *reason = job_reason_word(s);
    char text[AGE_TEXT_MAX];
    if (reason) {
        buf_puts(out, reason);
        return;
    }
    switch (s->state) {
    case REDRIVE_STATE_SCHEDULED:
    case REDRIVE_STATE_RETRYING:
        if (s->process_after_ms > now_ms)
            buf_printf(out, "in %s", age_text(s->process_after_ms - now_ms + 999, text));
        else
            buf_puts(out, "now");
        break;
    case REDRIVE_STATE_QUEUED: buf_puts(out, "now"); break;
    default: buf_putc(out, '-'); break;
    }
}

/* A message may have 64 KiB, and a listing many of them. */
static void cut(struct buf *out, size_t from)
{
    if (buf_failed(out) || out->len == from)
        return;
    const struct str all = {out->data + from, out->len - from};
    const struct str fit = text_fit(all, JOB_ERROR_COLUMNS);
    if (fit.len == all.len)
        return;
    buf_truncate(out, from + text_fit(all, JOB_ERROR_COLUMNS - 1).len);
    buf_puts(out, "…");
}

void job_add_error(struct buf *out, const struct job_error *error)
{
    const size_t from = out->len;
    if (error->class_ == REDRIVE_CLASS_SUCCESS)
        return;
    /* The last line of a traceback begins with the type. */
    bool says_type = error->type.len > 0 && str_starts_with(error->message, error->type);
    if (says_type)
        buf_add_str(out, error->message);
    else if (error->type.len > 0)
        buf_add_str(out, error->type);
    else
        buf_puts(out, redrive_class_name(error->class_));
    if (error->message.len > 0 && !says_type) {
        buf_puts(out, ": ");
        buf_add_str(out, error->message);
    }
    cut(out, from);
}

enum style job_state_style(enum redrive_state state)
{
    switch (state) {
    case REDRIVE_STATE_COMPLETED: return STYLE_GREEN;
    case REDRIVE_STATE_DEAD_LETTER:
    case REDRIVE_STATE_FAILED: return STYLE_RED;
    case REDRIVE_STATE_RETRYING:
    case REDRIVE_STATE_PARKED: return STYLE_YELLOW;
    case REDRIVE_STATE_RUNNING: return STYLE_CYAN;
    default: return STYLE_PLAIN;
    }
}
