#include "store/job_cursor.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"

/* order, seq, ms: a letter and two numbers in hexadecimal; the sum has four digits. */
#define SUM_DIGITS 4

static const char ORDERS[] = {[ORDER_OLDEST] = 'o', [ORDER_NEWEST] = 'n', [ORDER_FINISHED] = 'f'};

/* FNV-1a, folded. Against mistakes, not against intent. */
static unsigned sum_of(struct str text)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < text.len; i++)
        hash = (hash ^ (unsigned char)text.ptr[i]) * UINT32_C(16777619);
    return (hash ^ hash >> 16) & 0xffff;
}

const char *job_cursor_write(enum job_order order, const struct job *job, char out[JOB_CURSOR_MAX])
{
    int len = snprintf(out, JOB_CURSOR_MAX, "%c%" PRIx64, ORDERS[order], (uint64_t)job->status.seq);
    if (order == ORDER_FINISHED)
        len += snprintf(out + len, JOB_CURSOR_MAX - (size_t)len, "-%" PRIx64,
                        (uint64_t)job->status.finished_ms);
    (void)snprintf(out + len, JOB_CURSOR_MAX - (size_t)len, "-%04x",
                   sum_of((struct str){out, (size_t)len}));
    return out;
}

/* Up to 15 digits, so that it is never negative; moves `text` behind them. */
static bool read_number(struct str *text, int64_t *ret)
{
    size_t n = 0;
    *ret = 0;
    for (; n < text->len && text->ptr[n] != '-'; n++) {
        char c = text->ptr[n];
        bool is_digit = c >= '0' && c <= '9', is_letter = c >= 'a' && c <= 'f';
        if (n == 15 || (!is_digit && !is_letter))
            return false;
        *ret = *ret * 16 + (is_digit ? c - '0' : c - 'a' + 10);
    }
    *text = (struct str){text->ptr + n, text->len - n};
    return n > 0;
}

static int refuse(struct str text, struct redrive_err *err)
{
    err_set(err, REDRIVE_E_INVALID, "this is no cursor: %.*s", (int)(text.len < 60 ? text.len : 60),
            text.ptr ? text.ptr : "");
    err_hint(err, "a cursor is the `next` of the page before, as it stands there");
    return REDRIVE_E_INVALID;
}

int job_cursor_read(struct str text, struct job_filter *filter, struct redrive_err *err)
{
    int64_t seq, ms = 0, sum;
    const struct str whole = text;
    if (text.len <= SUM_DIGITS + 2 || text.len >= JOB_CURSOR_MAX)
        return refuse(whole, err);
    const struct str body = {text.ptr, text.len - SUM_DIGITS - 1};
    struct str tail = {body.ptr + body.len + 1, SUM_DIGITS};
    if (text.ptr[body.len] != '-' || !read_number(&tail, &sum) || sum != sum_of(body))
        return refuse(whole, err);
    bool has_time = text.ptr[0] == ORDERS[ORDER_FINISHED];
    struct str rest = {body.ptr + 1, body.len - 1};
    if (!read_number(&rest, &seq) || seq == 0 || has_time != (rest.len > 0))
        return refuse(whole, err);
    if (has_time) {
        rest = (struct str){rest.ptr + 1, rest.len - 1};
        if (!read_number(&rest, &ms) || rest.len > 0)
            return refuse(whole, err);
    }
    if (text.ptr[0] != ORDERS[filter->order]) {
        err_set(err, REDRIVE_E_INVALID, "the cursor belongs to another order");
        err_hint(err, "ask for the next page with the same options as for the first");
        return REDRIVE_E_INVALID;
    }
    filter->after_seq = seq;
    filter->after_ms = ms;
    return 0;
}
