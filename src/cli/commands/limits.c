/* limits.c - `redrive limits`: how much of the rates, slots and retry budgets is used. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "engine/gates/view.h"

struct limits_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "only the limits of this tenant",
           INTO_STRING(struct limits_options, tenant)),
    {0},
};

static void add_limit_json(struct json_writer *w, const void *list, size_t i)
{
    limit_write_json(w, &((const struct limit_page *)list)->limits[i]);
}

static void add_running(struct table *t, const struct slots *slots,
                        const struct adaptive_config *adaptive)
{
    if (slots->max == 0)
        table_addf(t, "%u", slots->used);
    else if (adaptive_is_set(adaptive))
        table_addf(t, "%u/%u (%u to %u)", slots->used, slots->max, adaptive->floor,
                   adaptive->ceiling);
    else
        table_addf(t, "%u/%u", slots->used, slots->max);
}

/* What was used, and how many retries may start now. */
static void add_budget(struct table *t, const struct limit_info *limit)
{
    const struct budget_config *config = &limit->budget.config;
    const struct budget_status *budget = &limit->budget.status;
    if (!budget_is_set(config)) {
        table_add(t, "-");
        table_add(t, "-");
        return;
    }
    if (config->max_tokens > 0)
        table_addf(t, "%.1f/%g tokens", budget->tokens, config->max_tokens);
    else
        table_addf(t, "%u for %u", budget->retries, budget->firsts);
    table_addf(t, "%u", budget->room);
}

static void add_limit_row(struct table *t, const void *list, size_t i)
{
    const struct limit_info *limit = &((const struct limit_page *)list)->limits[i];
    char rate[RATE_TEXT_MAX];
    add_running(t, &limit->slots, &limit->adaptive);
    table_add(t, limit->rate.count > 0 ? rate_text(&limit->rate, rate) : "-");
    add_budget(t, limit);
    table_addf(t, "%" PRIu64, limit->parked);
    table_add_str(t, limit->tenant);
    table_add_str(t, limit->key);
}

static int read_limits(const struct session *session, const char *tenant, struct limit_page *ret,
                       struct redrive_err *err)
{
    if (session->remote)
        return remote_limits(session->remote, ret, err);
    int rc = limits_read(session->store, str_of(tenant), session_now_ms(session), ret, err);
    return rc < 0 ? rc : limits_count_parked(session->store, str_of(tenant), ret, err);
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct limits_options *options = cli->invocation.values[1];
    RELEASED_BY(limit_page_release) struct limit_page page = {0};
    struct listing listing = {
        .columns = ">RUNNING|>RATE|>RETRIES|>ROOM|>PARKED|TENANT|KEY",
        .item = add_limit_json,
        .row = add_limit_row,
        .list = &page,
    };
    int rc = read_limits(session, options->tenant, &page, err);
    listing.n = page.n;
    return rc == 0 ? cli_list(cli, &listing, err) : rc;
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list the limits that jobs have met",
    .description =
        "RUNNING are the jobs that run under the limit, and how many may: if that is adaptive, "
        "how many now, and its bounds. RETRIES are the retries and the first attempts in "
        "the window of the budget, ROOM is how many retries may start now. PARKED are jobs that "
        "wait for the limit or its budget.",
    .examples = EXAMPLES({"redrive limits list", "is a budget overdrawn, and how many jobs wait?"}),
    .run_on_store = run_list,
};

const struct command cmd_limits = {
    .name = "limits",
    .summary = "look at rate limits, concurrency and retry budgets",
    OPTIONS_INTO(OPTIONS, struct limits_options),
    .examples = EXAMPLES({"redrive limits list", "all of them"}),
    .commands = (const struct command *const[]){&CMD_LIST, NULL},
};
