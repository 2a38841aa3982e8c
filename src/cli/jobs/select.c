/* select.c - makes a filter from options. */
#include "cli/jobs/select.h"

#include "base/err.h"
#include "base/text/str.h"
#include "cli/remote/remote.h"
#include "core/vocabulary.h"

#define WORD(name, text)                                  text,
#define CLASS_WORD(name, text, retried, counts, severity) text,
const char *const JOB_SELECT_STATES[] = {REDRIVE_STATE_MAP(WORD) NULL};
const char *const JOB_SELECT_CLASSES[] = {REDRIVE_CLASS_MAP(CLASS_WORD) NULL};
const char *const JOB_SELECT_REASONS[] = {REDRIVE_REASON_MAP(WORD) NULL};

/* ---- Values ---------------------------------------------------------------------------------- */

/* Named as a user writes them. */
static const struct field GROUP = {"--group", &FIELD_FINGERPRINT, 0};
static const struct field OLDER_THAN = {"--older-than", &FIELD_SPAN, 0};
static const struct field NEWER_THAN = {"--newer-than", &FIELD_SPAN, 0};
static const struct field STATES = {"--state", &FIELD_TERMS, 0, .vocabulary = VOCABULARY_STATE};
static const struct field CLASSES = {"--class", &FIELD_TERMS, 0, .vocabulary = VOCABULARY_CLASS,
                                     .skip = 1};
static const struct field REASONS = {"--reason", &FIELD_TERMS, 0, .vocabulary = VOCABULARY_REASON,
                                     .skip = 1};

/* What is not given leaves `ret` as it is. */
static int read_value(const struct field *field, const char *text, void *ret,
                      struct redrive_err *err)
{
    return text ? option_store(field, ret, field->name, text, err) : 0;
}

static int read_list(const struct field *field, const struct option_strings *given, uint32_t *bits,
                     struct redrive_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < given->n && rc == 0; i++)
        rc = read_value(field, given->items[i], bits, err);
    return rc;
}

/* Before 1970 nothing has ended, and a bound of 0 would be none. */
static int64_t bound(int64_t ms)
{
    return ms > 0 ? ms : 1;
}

static int check_ages(const struct job_select *select, struct redrive_err *err)
{
    int64_t older_ms = 0, newer_ms = 0;
    int rc = read_value(&OLDER_THAN, select->older_than, &older_ms, err);
    if (rc == 0)
        rc = read_value(&NEWER_THAN, select->newer_than, &newer_ms, err);
    if (rc == 0 && select->older_than && select->newer_than && newer_ms < older_ms)
        return err_set(err, REDRIVE_E_USAGE, "no job is both --older-than %s and --newer-than %s",
                       select->older_than, select->newer_than);
    return rc;
}

/* What ended in this very millisecond is older than 0. */
void job_select_date(const struct job_select *select, int64_t now_ms, struct job_filter *filter)
{
    int64_t age_ms;
    if (select->older_than && read_value(&OLDER_THAN, select->older_than, &age_ms, NULL) == 0)
        filter->finished_before_ms = bound(now_ms - age_ms + 1);
    if (select->newer_than && read_value(&NEWER_THAN, select->newer_than, &age_ms, NULL) == 0)
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
    int rc = read_list(&STATES, &select->states, &ret->states, err);
    if (rc == 0)
        rc = read_list(&CLASSES, &select->classes, &ret->classes, err);
    if (rc == 0)
        rc = read_list(&REASONS, &select->reasons, &ret->reasons, err);
    if (rc == 0 && (rc = read_value(&GROUP, select->group, &ret->fingerprint, err)) < 0)
        err_hint(err, "`redrive dlq groups` lists them");
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
