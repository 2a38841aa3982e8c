/* limits.c - `redrive limits`: how much of the rates, slots and retry budgets is used. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "cli/shared/answer.h"

struct limits_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME", "only the limits of this tenant",
           INTO_STRING(struct limits_options, tenant)),
    {0},
};

/* The jobs that run, and how many may; of an adaptive limit with its bounds. */
static void add_running(struct table *t, const struct object *limit)
{
    const int64_t running = object_int(limit, "running"), most = object_int(limit, "concurrency");
    const int64_t floor = object_int(limit, "min_concurrency");
    if (most == 0)
        table_addf(t, "%" PRId64, running);
    else if (floor > 0)
        table_addf(t, "%" PRId64 "/%" PRId64 " (%" PRId64 " to %" PRId64 ")", running, most, floor,
                   object_int(limit, "max_concurrency"));
    else
        table_addf(t, "%" PRId64 "/%" PRId64, running, most);
}

/* What was used, and how many retries may start now. */
static void add_budget(struct table *t, const struct object *budget)
{
    const double tokens = object_double(budget, "max_tokens", 0);
    if (!budget->members) {
        table_add(t, "-");
        table_add(t, "-");
        return;
    }
    if (tokens > 0)
        table_addf(t, "%.1f/%g tokens", object_double(budget, "tokens", 0), tokens);
    else
        table_addf(t, "%" PRId64 " for %" PRId64, object_int(budget, "retries"),
                   object_int(budget, "first_attempts"));
    table_addf(t, "%" PRId64, object_int(budget, "room"));
}

static void add_limit(struct table *t, const struct object *limit, const void *ctx)
{
    const struct object budget = object_object(limit, "retry_budget");
    const struct str rate = object_text(limit, "rate");
    (void)ctx;
    add_running(t, limit);
    table_add_str(t, rate.len > 0 ? rate : STR("-"));
    add_budget(t, &budget);
    table_addf(t, "%" PRId64, object_int(limit, "parked"));
    table_add_str(t, object_text(limit, "tenant"));
    table_add_str(t, object_text(limit, "key"));
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    static const struct answer_table LIMITS = {
        .columns = ">RUNNING|>RATE|>RETRIES|>ROOM|>PARKED|TENANT|KEY",
        .row = add_limit,
    };
    const struct limits_options *options = cli->invocation.values[1];
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = answer_read(session, &API_LIMITS, str_of(options->tenant), &answer, err);
    return rc == 0 ? answer_print_list(cli, &answer, &LIMITS, err) : rc;
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list the limits that jobs have met",
    .description =
        "RUNNING are the jobs that run under the limit, and how many may: if that is adaptive, how "
        "many now, and its bounds. RATE is how many jobs may start over time. RETRIES are the "
        "retries and the first attempts in the window of the budget, ROOM is how many retries may "
        "start now. PARKED are jobs that wait for the limit or its budget.",
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
