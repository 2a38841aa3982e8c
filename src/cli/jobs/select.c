/* select.c - makes parameters, and a filter, from options. */
#include "cli/jobs/select.h"

#include <string.h>

#include "api/job_query.h"
#include "base/err.h"
#include "base/time/clock.h"
#include "core/vocabulary.h"

#define WORD(name, text)                                  text,
#define CLASS_WORD(name, text, retried, counts, severity) text,
const char *const JOB_SELECT_STATES[] = {REDRIVE_STATE_MAP(WORD) NULL};
const char *const JOB_SELECT_CLASSES[] = {REDRIVE_CLASS_MAP(CLASS_WORD) NULL};
const char *const JOB_SELECT_REASONS[] = {REDRIVE_REASON_MAP(WORD) NULL};

/* ---- Parameters ------------------------------------------------------------------------------ */

/* False: `take` has refused one. */
static bool give_words(const char *name, const struct option_strings *words, api_take_fn take,
                       void *ctx)
{
    bool goes_on = true;
    for (size_t i = 0; i < words->n && goes_on; i++)
        goes_on = take(str_of(name), str_of(words->items[i]), ctx);
    return goes_on;
}

static bool give_states(uint32_t states, api_take_fn take, void *ctx)
{
    bool goes_on = true;
    for (int state = 0; state < REDRIVE_STATE_COUNT && goes_on; state++)
        if (states & 1u << state)
            goes_on =
                take(STR("state"), str_of(redrive_state_name((enum redrive_state)state)), ctx);
    return goes_on;
}

bool job_select_each(const struct job_select *select, uint32_t states, api_take_fn take, void *ctx)
{
    const struct {
        const char *name, *value;
    } texts[] = {
        {"task", select->task},
        {"queue", select->queue},
        {"user", select->user},
        {"type", select->type},
        {"text", select->text},
        {"group", select->group},
        {"older_than", select->older_than},
        {"newer_than", select->newer_than},
    };
    bool goes_on =
        states ? give_states(states, take, ctx) : give_words("state", &select->states, take, ctx);
    goes_on = goes_on && give_words("class", &select->classes, take, ctx) &&
              give_words("reason", &select->reasons, take, ctx);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && goes_on; i++)
        if (texts[i].value)
            goes_on = take(str_of(texts[i].name), str_of(texts[i].value), ctx);
    return goes_on;
}

/* ---- As a filter ----------------------------------------------------------------------------- */

int job_select_read(const struct job_select *select, uint32_t states, int64_t now_ms,
                    struct job_filter *ret, struct redrive_err *err)
{
    struct job_query query;
    job_query_init(&query, str_of(select->tenant), JOB_QUERY_JOBS | JOB_QUERY_STATE, ORDER_OLDEST,
                   now_ms, NULL, err);
    query.reader.is_option = true;
    query.filter.limit = 0;
    (void)job_select_each(select, states, job_query_add, &query);
    const int rc = job_query_finish(&query);
    *ret = query.filter;
    if (rc == 0)
        return 0;
    if (strcmp(query.reader.place, "--group") == 0)
        err_hint(err, "`redrive dlq groups` lists them");
    if (err)
        err->code = REDRIVE_E_USAGE;
    return REDRIVE_E_USAGE;
}

int job_select_check(struct cli *cli, struct redrive_err *err)
{
    struct job_filter ignored;
    return job_select_read(invocation_options(&cli->invocation), 0, clock_wall_ms(), &ignored, err);
}

void job_select_filter(const struct cli *cli, int64_t now_ms, struct job_filter *ret)
{
    (void)job_select_read(invocation_options(&cli->invocation), (uint32_t)cli_variant(cli), now_ms,
                          ret, NULL);
}

bool job_select_is_empty(const struct job_select *s)
{
    return !s->tenant && !s->task && !s->queue && !s->user && !s->type && !s->text && !s->group &&
           s->states.n == 0 && s->classes.n == 0 && s->reasons.n == 0 && !s->older_than &&
           !s->newer_than;
}
