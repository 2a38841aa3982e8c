/* select.c - makes a filter from options. */
#include "cli/jobs/select.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "base/text/suggest.h"
#include "base/time/duration.h"
#include "core/vocabulary.h"

#define WORD(name, text)                                  text,
#define CLASS_WORD(name, text, retried, counts, severity) text,
const char *const JOB_SELECT_STATES[] = {REDRIVE_STATE_MAP(WORD) NULL};
const char *const JOB_SELECT_CLASSES[] = {REDRIVE_CLASS_MAP(CLASS_WORD) NULL};
const char *const JOB_SELECT_REASONS[] = {REDRIVE_REASON_MAP(WORD) NULL};

/* ---- Lists of words -------------------------------------------------------------------------- */

static int unknown_word(const char *option, const char *const *words, struct str word,
                        struct redrive_err *err)
{
    struct buf list;
    size_t n = 0;
    buf_init(&list, 300);
    for (; words[n]; n++)
        buf_printf(&list, "%s%s", n > 0 ? ", " : "", words[n]);
    err_set(err, REDRIVE_E_USAGE, "--%s: there is no '%.*s'", option,
            (int)(word.len < 60 ? word.len : 60), word.ptr);
    err_detail(err, "it must be one of %s", buf_cstr(&list));
    const char *near = suggest(word, words, n);
    if (near)
        err_hint(err, "did you mean %s?", near);
    buf_release(&list);
    return REDRIVE_E_USAGE;
}

/* The bits of words with commas between them. `first` is the number of the first word. */
static int read_words(const char *option, const char *text, const char *const *words, int first,
                      uint32_t *mask, struct redrive_err *err)
{
    struct str rest = str_of(text);
    for (;;) {
        const char *comma = rest.len > 0 ? memchr(rest.ptr, ',', rest.len) : NULL;
        struct str word = {rest.ptr, comma ? (size_t)(comma - rest.ptr) : rest.len};
        int n = 0;
        while (words[n] && !str_is(word, words[n]))
            n++;
        if (!words[n])
            return unknown_word(option, words, word, err);
        *mask |= 1u << (first + n);
        if (!comma)
            return 0;
        rest = (struct str){comma + 1, rest.len - word.len - 1};
    }
}

static int read_lists(const struct job_select *select, struct job_filter *ret,
                      struct redrive_err *err)
{
    const struct {
        const char *option;
        const struct option_strings *given;
        const char *const *words;
        int first;
        uint32_t *mask;
    } lists[] = {
        {"state", &select->states, JOB_SELECT_STATES, 0, &ret->states},
        {"class", &select->classes, JOB_SELECT_CLASSES + 1, 1, &ret->classes},
        {"reason", &select->reasons, JOB_SELECT_REASONS + 1, 1, &ret->reasons},
    };
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (size_t k = 0; k < lists[i].given->n; k++) {
            int rc = read_words(lists[i].option, lists[i].given->items[k], lists[i].words,
                                lists[i].first, lists[i].mask, err);
            if (rc < 0)
                return rc;
        }
    return 0;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static int read_texts(const struct job_select *select, struct job_filter *ret,
                      struct redrive_err *err)
{
    const struct {
        const char *option;
        const char *given;
        struct str *to;
    } texts[] = {
        {"tenant", select->tenant, &ret->tenant}, {"task", select->task, &ret->task},
        {"queue", select->queue, &ret->queue},    {"user", select->user, &ret->user},
        {"type", select->type, &ret->error_type}, {"text", select->text, &ret->text},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i].to = str_of(texts[i].given);
        if (texts[i].given && texts[i].given[0] == '\0')
            return err_set(err, REDRIVE_E_USAGE, "--%s: the value is empty", texts[i].option);
    }
    return 0;
}

/* 0 means "any" in a filter, and no error has it. */
static int read_group(const char *text, uint64_t *ret, struct redrive_err *err)
{
    *ret = 0;
    if (!text)
        return 0;
    size_t n = strspn(text, "0123456789abcdefABCDEF");
    if (n == 16 && text[n] == '\0')
        (void)sscanf(text, "%" SCNx64, ret);
    if (*ret != 0)
        return 0;
    err_set(err, REDRIVE_E_USAGE, "--group: '%.40s' is not a fingerprint", text);
    err_detail(err, "expected 16 hexadecimal digits");
    err_hint(err, "`redrive dlq groups` lists them");
    return REDRIVE_E_USAGE;
}

static int read_age(const char *option, const char *text, int64_t *ret_ms, struct redrive_err *err)
{
    struct redrive_err wrong = {0};
    if (duration_parse(str_of(text), ret_ms, &wrong) == 0)
        return 0;
    return option_error(option, REDRIVE_E_USAGE, &wrong, err);
}

/* Before 1970 nothing has ended, and a bound of 0 would be none. */
static int64_t bound(int64_t ms)
{
    return ms > 0 ? ms : 1;
}

static int check_ages(const struct job_select *select, struct redrive_err *err)
{
    int64_t older_ms = 0, newer_ms = 0;
    int rc = 0;
    if (select->older_than)
        rc = read_age("--older-than", select->older_than, &older_ms, err);
    if (rc == 0 && select->newer_than)
        rc = read_age("--newer-than", select->newer_than, &newer_ms, err);
    if (rc == 0 && select->older_than && select->newer_than && newer_ms < older_ms)
        return err_set(err, REDRIVE_E_USAGE, "no job is both --older-than %s and --newer-than %s",
                       select->older_than, select->newer_than);
    return rc;
}

/* What ended in this very millisecond is older than 0. */
void job_select_date(const struct job_select *select, int64_t now_ms, struct job_filter *filter)
{
    int64_t age_ms;
    if (select->older_than && read_age("--older-than", select->older_than, &age_ms, NULL) == 0)
        filter->finished_before_ms = bound(now_ms - age_ms + 1);
    if (select->newer_than && read_age("--newer-than", select->newer_than, &age_ms, NULL) == 0)
        filter->finished_after_ms = bound(now_ms - age_ms);
}

int job_select_read(const struct job_select *select, struct job_filter *ret,
                    struct redrive_err *err)
{
    *ret = (struct job_filter){0};
    int rc = read_texts(select, ret, err);
    if (rc == 0)
        rc = read_lists(select, ret, err);
    if (rc == 0)
        rc = read_group(select->group, &ret->fingerprint, err);
    if (rc == 0)
        rc = check_ages(select, err);
    return rc;
}

int job_select_check(struct cli *cli, struct redrive_err *err)
{
    struct job_filter ignored;
    return job_select_read(invocation_options(&cli->invocation), &ignored, err);
}

void job_select_filter(const struct cli *cli, int64_t now_ms, struct job_filter *ret)
{
    const struct job_select *select = invocation_options(&cli->invocation);
    const uint32_t states = (uint32_t)cli_variant(cli);
    (void)job_select_read(select, ret, NULL);
    job_select_date(select, now_ms, ret);
    if (states != 0)
        ret->states = states;
}

bool job_select_is_empty(const struct job_select *s)
{
    return !s->tenant && !s->task && !s->queue && !s->user && !s->type && !s->text && !s->group &&
           s->states.n == 0 && s->classes.n == 0 && s->reasons.n == 0 && !s->older_than &&
           !s->newer_than;
}

const char *fingerprint_format(uint64_t fingerprint, char out[FINGERPRINT_TEXT_MAX])
{
    (void)snprintf(out, FINGERPRINT_TEXT_MAX, "%016" PRIx64, fingerprint);
    return out;
}
