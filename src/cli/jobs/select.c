/* select.c - makes a filter from options. */
#include "cli/jobs/select.h"

#include "base/err.h"
#include "base/text/str.h"
#include "base/time/duration.h"
#include "cli/remote/remote.h"
#include "core/classify/fingerprint.h"
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
    size_t n = 0;
    RELEASED_BY(buf_release) struct buf list = BUF_MAX(300);
    for (; words[n]; n++)
        buf_printf(&list, "%s%s", n > 0 ? ", " : "", words[n]);
    err_set(err, REDRIVE_E_USAGE, "--%s: there is no '%.*s'", option,
            (int)(word.len < 60 ? word.len : 60), word.ptr);
    err_detail(err, "it must be one of %s", buf_cstr(&list));
    const char *near = suggest(word, words, n);
    if (near)
        err_hint(err, "did you mean %s?", near);
    return REDRIVE_E_USAGE;
}

static int read_lists(const struct job_select *select, struct job_filter *ret,
                      struct redrive_err *err)
{
    const struct {
        const char *option;
        const struct option_strings *given;
        enum vocabulary vocabulary;
        const char *const *words;
        size_t skip; /* words of the vocabulary that are not for this */
        uint32_t *mask;
    } lists[] = {
        {"state", &select->states, VOCABULARY_STATE, JOB_SELECT_STATES, 0, &ret->states},
        {"class", &select->classes, VOCABULARY_CLASS, JOB_SELECT_CLASSES, 1, &ret->classes},
        {"reason", &select->reasons, VOCABULARY_REASON, JOB_SELECT_REASONS, 1, &ret->reasons},
    };
    struct str unknown;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (size_t k = 0; k < lists[i].given->n; k++)
            if (!vocabulary_mask(lists[i].vocabulary, lists[i].skip,
                                 str_of(lists[i].given->items[k]), lists[i].mask, &unknown))
                return unknown_word(lists[i].option, lists[i].words + lists[i].skip, unknown, err);
    return 0;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static int read_group(const char *text, uint64_t *ret, struct redrive_err *err)
{
    *ret = 0;
    if (!text || fingerprint_parse(str_of(text), ret))
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
    *ret = (struct job_filter){
        .tenant = str_of(select->tenant),
        .task = str_of(select->task),
        .queue = str_of(select->queue),
        .user = str_of(select->user),
        .error_type = str_of(select->type),
        .text = str_of(select->text),
    };
    int rc = read_lists(select, ret, err);
    if (rc == 0)
        rc = read_group(select->group, &ret->fingerprint, err);
    return rc == 0 ? check_ages(select, err) : rc;
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

static void add_words(struct buf *path, const char *name, const struct option_strings *words)
{
    for (size_t i = 0; i < words->n; i++)
        remote_query(path, name, words->items[i]);
}

void job_select_query(const struct job_select *select, uint32_t states, struct buf *path)
{
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        if (states & 1u << state)
            remote_query(path, "state", redrive_state_name((enum redrive_state)state));
    if (states == 0)
        add_words(path, "state", &select->states);
    add_words(path, "class", &select->classes);
    add_words(path, "reason", &select->reasons);
    remote_query(path, "task", select->task);
    remote_query(path, "queue", select->queue);
    remote_query(path, "user", select->user);
    remote_query(path, "type", select->type);
    remote_query(path, "text", select->text);
    remote_query(path, "group", select->group);
    remote_query(path, "older_than", select->older_than);
    remote_query(path, "newer_than", select->newer_than);
}

bool job_select_is_empty(const struct job_select *s)
{
    return !s->tenant && !s->task && !s->queue && !s->user && !s->type && !s->text && !s->group &&
           s->states.n == 0 && s->classes.n == 0 && s->reasons.n == 0 && !s->older_than &&
           !s->newer_than;
}
