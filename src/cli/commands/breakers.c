/* breakers.c - `redrive breakers`: look at circuit breakers, and move them by hand. */
#include "cli/commands/commands.h"

#include <inttypes.h>
#include <math.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/output/figures.h"
#include "cli/output/term.h"
#include "cli/shared/remote.h"
#include "cli/shared/answer.h"
#include "engine/verbs/control.h"

struct breakers_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    OPTION("tenant", 0, "NAME",
           "whose breakers; by default `list` shows all, the others mean `default`",
           INTO_STRING(struct breakers_options, tenant)),
    {0},
};

/* BREAKER_LOOK changes nothing. */
static const struct operation *const VERBS[] = {
    [BREAKER_RESET] = &API_BREAKER_RESET,
    [BREAKER_TRIP] = &API_BREAKER_TRIP,
    [BREAKER_DISABLE] = &API_BREAKER_DISABLE,
    [BREAKER_SIMULATE_FAILURE] = &API_BREAKER_FAILURE,
};

static const char *tenant_of(const struct cli *cli)
{
    const struct breakers_options *options = cli->invocation.values[1];
    return options->tenant;
}

/* ---- list ------------------------------------------------------------------------------------ */

/* One that is not there is not known. */
static void add_share(struct table *t, const struct object *breaker, const char *name)
{
    const double share = object_double(breaker, name, -1);
    if (share < 0)
        table_add(t, "-");
    else
        table_addf(t, "%.0f %%", 100 * share);
}

static void add_breaker(struct table *t, const struct object *breaker, const void *ctx)
{
    const int64_t now_ms = *(const int64_t *)ctx;
    const struct object thresholds = object_object(breaker, "thresholds");
    const struct str state = object_text(breaker, "state");
    const int64_t failures = object_int(breaker, "failure_count");
    const int64_t most = object_int(&thresholds, "failure_threshold");
    char text[FIGURE_MAX];
    table_add_styled(t, figure_breaker_style(state),
                     state.len > 0 ? arena_dup(breaker->arena, state) : "-");
    if (most == 0)
        table_addf(t, "%" PRId64 "/-", failures);
    else
        table_addf(t, "%" PRId64 "/%" PRId64, failures, most);
    add_share(t, breaker, "failure_rate");
    add_share(t, breaker, "slow_rate");
    table_add(t, figure_since(object_time(breaker, "opened_at"), now_ms, text));
    table_add(t, object_bool(breaker, "idle")
                     ? "next job"
                     : figure_until(object_time(breaker, "next_probe_at"), now_ms, text));
    table_addf(t, "%" PRId64, object_int(breaker, "parked"));
    table_add_str(t, object_text(breaker, "tenant"));
    table_add_str(t, object_text(breaker, "key"));
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const int64_t now_ms = session_now_ms(session);
    const struct answer_table table = {
        .columns = "STATE|>FAILURES|>RATE|>SLOW|>OPENED|>PROBE IN|>PARKED|TENANT|KEY",
        .row = add_breaker,
        .ctx = &now_ms,
    };
    RELEASED_BY(answer_release) struct answer breakers = {0};
    int rc = answer_read(session, &API_BREAKERS, str_of(tenant_of(cli)), &breakers, err);
    return rc == 0 ? answer_print_list(cli, &breakers, &table, err) : rc;
}

/* ---- One breaker ----------------------------------------------------------------------------- */

static void show_share(const char *label, double share, struct buf *out)
{
    if (share < 0)
        buf_printf(out, "  %-18s too few calls to say", label);
    else
        buf_printf(out, "  %-18s %.0f %%", label, 100 * share);
}

/* A member that has seconds, as a duration. */
static const char *span_of(const struct object *o, const char *name, char out[DURATION_TEXT_MAX])
{
    const double ms = 1000 * object_double(o, name, 0);
    return ms >= 0 && ms <= (double)DURATION_MAX_MS ? duration_format(llround(ms), out) : "-";
}

static void show_rates(const struct object *breaker, const struct object *thresholds,
                       struct buf *out)
{
    const int64_t window_calls = object_int(thresholds, "window_calls");
    const int64_t min_calls = object_int(thresholds, "min_calls");
    const double rate = 100 * object_double(thresholds, "failure_rate", 0);
    const double slow_rate = 100 * object_double(thresholds, "slow_rate", 0);
    char text[DURATION_TEXT_MAX];
    show_share("failure rate", object_double(breaker, "failure_rate", -1), out);
    if (window_calls > 0)
        buf_printf(
            out, ", opens at %.0f %% of the last %" PRId64 " calls, of %" PRId64 " at the least\n",
            rate, window_calls, min_calls < window_calls ? min_calls : window_calls);
    else
        buf_printf(out, ", opens at %.0f %% of %" PRId64 " calls in %s\n", rate, min_calls,
                   span_of(thresholds, "window", text));
    if (object_double(thresholds, "slow_call", 0) == 0 || slow_rate == 0)
        return;
    show_share("slow calls", object_double(breaker, "slow_rate", -1), out);
    buf_printf(out, ", longer than %s; opens at %.0f %%\n", span_of(thresholds, "slow_call", text),
               slow_rate);
}

static void show_probes(const struct object *breaker, const struct object *thresholds,
                        struct buf *out)
{
    const int64_t succeeded = object_int(breaker, "success_count");
    const double rate = object_double(thresholds, "half_open_rate", 0);
    if (rate > 0)
        buf_printf(out,
                   "  probes succeeded   %" PRId64 " of %" PRId64
                   ", opens again at %.0f %% failures\n",
                   succeeded, object_int(thresholds, "half_open_max"), 100 * rate);
    else
        buf_printf(out, "  probes succeeded   %" PRId64 ", closes at %" PRId64 "\n", succeeded,
                   object_int(thresholds, "success_threshold"));
}

static void show_times(const struct object *breaker, int64_t now_ms, struct buf *out)
{
    const int64_t opened_ms = object_time(breaker, "opened_at");
    const int64_t probe_ms = object_time(breaker, "next_probe_at");
    char at[CLOCK_TEXT_MAX], text[FIGURE_MAX];
    if (opened_ms != 0)
        buf_printf(out, "  last opened        %s (%s ago)\n", clock_format(opened_ms, at),
                   figure_since(opened_ms, now_ms, text));
    if (probe_ms != 0)
        buf_printf(out, "  next probe         %s (%s)\n", clock_format(probe_ms, at),
                   figure_until(probe_ms, now_ms, text));
}

/* One breaker, at a time. */
struct shown_breaker {
    struct object breaker;
    struct str json;
    int64_t now_ms;
};

static void show_as_json(struct json_writer *w, const void *thing)
{
    json_put_raw(w, ((const struct shown_breaker *)thing)->json);
}

static void show_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct shown_breaker *shown = thing;
    const struct object *breaker = &shown->breaker;
    const struct object thresholds = object_object(breaker, "thresholds");
    const struct str state = object_text(breaker, "state");
    const int64_t most = object_int(&thresholds, "failure_threshold");
    const double release_rate = object_double(breaker, "release_rate", 0);
    char text[FIGURE_MAX];
    text_add_clean(out, object_text(breaker, "key"));
    buf_puts(out, ": ");
    style_add_clean(out, term->color, figure_breaker_style(state), state);
    buf_printf(out, "\n  failures in a row  %" PRId64, object_int(breaker, "failure_count"));
    if (most > 0)
        buf_printf(out, ", opens at %" PRId64, most);
    buf_putc(out, '\n');
    show_rates(breaker, &thresholds, out);
    show_probes(breaker, &thresholds, out);
    show_times(breaker, shown->now_ms, out);
    buf_printf(out, "  parked jobs        %" PRId64 "\n", object_int(breaker, "parked"));
    if (release_rate > 0)
        buf_printf(out, "  lets go            %s jobs/s\n", figure_rate(release_rate, text));
    buf_puts(out, "  on open            ");
    text_add_clean(out, object_text(&thresholds, "on_open"));
    buf_putc(out, '\n');
}

static int unknown_key(const struct answer *breakers, const char *key, struct redrive_err *err)
{
    struct words words = WORDS_INIT;
    int rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is no breaker '%s'", key);
    answer_words(breakers, "key", &words);
    err_detail(err, "a breaker that no task declares comes to be with the first job that meets it");
    words_hint(&words, key, "see which there are: redrive breakers list", err);
    return rc;
}

/* Reads all breakers, and finds one of them. */
static int read_one(const struct session *session, struct str tenant, const char *key,
                    struct answer *ret, size_t *ret_i, struct redrive_err *err)
{
    int rc = answer_read(session, &API_BREAKERS, tenant, ret, err);
    if (rc == 0)
        rc = answer_find(ret, "key", str_of(key), tenant, ret_i, err);
    return rc == 0 ? unknown_key(ret, key, err) : rc < 0 ? rc : 0;
}

static struct str tenant_meant(const struct cli *cli, const struct session *session)
{
    const char *named = tenant_of(cli);
    if (!named && session->remote)
        return remote_tenant(session->remote);
    return str_of(named ? named : ENGINE_TENANT_DEFAULT);
}

static int show(struct cli *cli, const struct session *session, const struct answer *breakers,
                size_t i, struct redrive_err *err)
{
    RELEASED_BY(arena_release) struct arena arena = {0};
    const struct shown_breaker shown = {
        .breaker = answer_item(breakers, i, &arena),
        .json = breakers->items[i],
        .now_ms = session_now_ms(session),
    };
    int rc = cli_show(cli, &shown, show_as_json, show_as_text, err);
    return rc == 0 && arena.failed ? err_nomem(err) : rc;
}

/* Finds the breaker, does to it what is asked, and shows it as it then is. */
static int run_verb(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const enum breaker_verb verb = (enum breaker_verb)cli_variant(cli);
    const char *key = cli->invocation.args[0];
    const struct str tenant = tenant_meant(cli, session);
    RELEASED_BY(answer_release) struct answer before = {0}, moved = {0}, after = {0};
    size_t i = 0;
    /* The command itself prints what it has done to the breaker. */
    if (cli->globals->log_level < 0)
        session->log.level = LOG_LEVEL_ERROR;
    int rc = read_one(session, tenant, key, &before, &i, err);
    if (rc < 0)
        return rc;
    if (verb == BREAKER_LOOK)
        return show(cli, session, &before, i, err);
    const struct ask ask = {.operation = VERBS[verb], .tenant = tenant, .name = str_of(key)};
    rc = answer_change(session, &ask, &moved, err);
    if (rc == 0)
        rc = read_one(session, tenant, key, &after, &i, err);
    return rc == 0 ? show(cli, session, &after, i, err) : rc;
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list all breakers with their state",
    .description =
        "State, failures in a row, failure rate, share of slow calls, when it opened, when the "
        "next probe may go, and how many jobs are parked behind it. `next job` means that a probe "
        "may go now, and no job is there to be it. Tasks of the configuration have theirs from the "
        "start, unless their keys come from payloads.",
    .examples = EXAMPLES({"redrive breakers list", "which are open, and how many jobs wait?"}),
    .run_on_store = run_list,
    .settings = SETTINGS_BREAKER,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show one breaker with its thresholds",
    .arguments = "KEY",
    .examples = EXAMPLES({"redrive breakers show mail", "the breaker of the task mail"}),
    .run_on_store = run_verb,
    .settings = SETTINGS_BREAKER,
    .variant = BREAKER_LOOK,
};

static const struct command CMD_RESET = {
    .name = "reset",
    .summary = "close a breaker and forget its failures",
    .arguments = "KEY",
    .description = "Also ends what `trip` and `disable` have begun. Parked jobs are let go at the "
                   "breaker's release rate.",
    .examples =
        EXAMPLES({"redrive breakers reset mail", "the service is back, do not wait for a probe"}),
    .run_on_store = run_verb,
    .settings = SETTINGS_BREAKER,
    .variant = BREAKER_RESET,
};

static const struct command CMD_TRIP = {
    .name = "trip",
    .summary = "hold a breaker open until it is reset",
    .arguments = "KEY",
    .examples = EXAMPLES({"redrive breakers trip mail", "before the service is taken down"}),
    .run_on_store = run_verb,
    .settings = SETTINGS_BREAKER,
    .variant = BREAKER_TRIP,
};

static const struct command CMD_DISABLE = {
    .name = "disable",
    .summary = "let everything through until the breaker is reset",
    .arguments = "KEY",
    .examples =
        EXAMPLES({"redrive breakers disable mail", "its failures are known to mean nothing"}),
    .run_on_store = run_verb,
    .settings = SETTINGS_BREAKER,
    .variant = BREAKER_DISABLE,
};

static const struct command CMD_SIMULATE_FAILURE = {
    .name = "simulate-failure",
    .summary = "count one failure that has not happened",
    .arguments = "KEY",
    .description = "To try a breaker out.",
    .examples =
        EXAMPLES({"redrive breakers simulate-failure mail", "try it out: after five it opens"}),
    .run_on_store = run_verb,
    .settings = SETTINGS_BREAKER,
    .variant = BREAKER_SIMULATE_FAILURE,
};

const struct command cmd_breakers = {
    .name = "breakers",
    .summary = "look at circuit breakers and move them by hand",
    OPTIONS_INTO(OPTIONS, struct breakers_options),
    .examples = EXAMPLES({"redrive breakers list", "all of them"},
                         {"redrive breakers reset mail", "close one by hand"}),
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &CMD_RESET, &CMD_TRIP,
                                                &CMD_DISABLE, &CMD_SIMULATE_FAILURE, NULL},
};
