/* breakers.c - `redrive breakers`: look at circuit breakers, and move them by hand. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/output/figures.h"
#include "cli/output/term.h"
#include "cli/remote/remote.h"
#include "cli/shared/session.h"
#include "engine/gates/view.h"
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

static int move_at_server(struct remote *remote, struct str key, enum breaker_verb verb,
                          struct redrive_err *err)
{
    static const char *const AFTER[] = {
        [BREAKER_RESET] = "/reset", [BREAKER_TRIP] = "/trip", [BREAKER_DISABLE] = "/disable"};
    if (verb == BREAKER_SIMULATE_FAILURE)
        return remote_change(remote, "POST", "/retry/simulate-failure?task_type=", key, "", err);
    return remote_change(remote, "POST", "/retry/circuit-breakers/", key, AFTER[verb], err);
}

static const char *tenant_of(const struct cli *cli)
{
    const struct breakers_options *options = cli->invocation.values[1];
    return options->tenant;
}

/* With those that tasks declare, met by a job or not. */
static int read_all(const struct session *session, struct str tenant, struct breaker_page *ret,
                    struct redrive_err *err)
{
    if (session->remote)
        return remote_breakers(session->remote, ret, err);
    const int64_t now_ms = session_now_ms(session);
    int rc = breakers_read(session->store, tenant, now_ms, ret, err);
    if (rc == 0)
        rc = breakers_add_declared(session->config, tenant, now_ms, ret, err);
    return rc < 0 ? rc : breakers_count_parked(session->store, tenant, ret, err);
}

/* ---- list ------------------------------------------------------------------------------------ */

struct breaker_list {
    struct breaker_page page;
    int64_t now_ms;
};

static void add_breaker_json(struct json_writer *w, const void *list, size_t i)
{
    breaker_write_json(w, &((const struct breaker_list *)list)->page.breakers[i]);
}

/* Below 0: it is not known. */
static void add_share(struct table *t, double share)
{
    if (share < 0)
        table_add(t, "-");
    else
        table_addf(t, "%.0f %%", 100 * share);
}

static void add_breaker_row(struct table *t, const void *list, size_t i)
{
    const struct breaker_list *breakers = list;
    const struct breaker_info *b = &breakers->page.breakers[i];
    const struct redrive_breaker_status *s = &b->status;
    char text[FIGURE_MAX];
    table_add_styled(t, figure_breaker_style(s->state), redrive_breaker_state_name(s->state));
    if (s->config.failure_threshold == 0)
        table_addf(t, "%u/-", s->failure_count);
    else
        table_addf(t, "%u/%u", s->failure_count, s->config.failure_threshold);
    add_share(t, s->rate);
    add_share(t, s->slow_rate);
    table_add(t, figure_since(s->opened_at_ms, breakers->now_ms, text));
    table_add(t, b->is_idle ? "next job" : figure_until(s->next_probe_ms, breakers->now_ms, text));
    table_addf(t, "%" PRIu64, b->parked);
    table_add_str(t, b->tenant);
    table_add_str(t, b->key);
}

static int run_list(struct cli *cli, struct session *session, struct redrive_err *err)
{
    struct breaker_list breakers = {.now_ms = session_now_ms(session)};
    struct listing listing = {
        .columns = "STATE|>FAILURES|>RATE|>SLOW|>OPENED|>PROBE IN|>PARKED|TENANT|KEY",
        .item = add_breaker_json,
        .row = add_breaker_row,
        .list = &breakers,
    };
    int rc = read_all(session, str_of(tenant_of(cli)), &breakers.page, err);
    listing.n = breakers.page.n;
    if (rc == 0)
        rc = cli_list(cli, &listing, err);
    breaker_page_release(&breakers.page);
    return rc;
}

/* ---- One breaker ----------------------------------------------------------------------------- */

static void show_share(const char *label, double share, struct buf *out)
{
    if (share < 0)
        buf_printf(out, "  %-18s too few calls to say", label);
    else
        buf_printf(out, "  %-18s %.0f %%", label, 100 * share);
}

static void show_rates(const struct redrive_breaker_status *s, struct buf *out)
{
    const struct redrive_breaker_config *c = &s->config;
    char window[DURATION_TEXT_MAX];
    show_share("failure rate", s->rate, out);
    if (c->window_calls > 0)
        buf_printf(out, ", opens at %.0f %% of the last %u calls, of %u at the least\n",
                   100 * c->failure_rate, c->window_calls,
                   c->min_calls < c->window_calls ? c->min_calls : c->window_calls);
    else
        buf_printf(out, ", opens at %.0f %% of %u calls in %s\n", 100 * c->failure_rate,
                   c->min_calls, duration_format(c->window_ms, window));
    if (c->slow_call_ms == 0 || c->slow_rate == 0)
        return;
    show_share("slow calls", s->slow_rate, out);
    buf_printf(out, ", longer than %s; opens at %.0f %%\n",
               duration_format(c->slow_call_ms, window), 100 * c->slow_rate);
}

/* One breaker, at a time. */
struct shown_breaker {
    const struct breaker_info *info;
    int64_t now_ms;
};

static void show_as_json(struct json_writer *w, const void *thing)
{
    breaker_write_json(w, ((const struct shown_breaker *)thing)->info);
}

static void show_as_text(struct buf *out, const struct term *term, const void *thing)
{
    const struct breaker_info *b = ((const struct shown_breaker *)thing)->info;
    const int64_t now_ms = ((const struct shown_breaker *)thing)->now_ms;
    const struct redrive_breaker_status *s = &b->status;
    const struct redrive_breaker_config *c = &s->config;
    char at[CLOCK_TEXT_MAX], text[FIGURE_MAX];
    text_add_clean(out, b->key);
    buf_puts(out, ": ");
    style_add(out, term->color, figure_breaker_style(s->state),
              str_of(redrive_breaker_state_name(s->state)));
    buf_printf(out, "\n  failures in a row  %u", s->failure_count);
    if (c->failure_threshold > 0)
        buf_printf(out, ", opens at %u", c->failure_threshold);
    buf_putc(out, '\n');
    show_rates(s, out);
    if (c->half_open_rate > 0)
        buf_printf(out, "  probes succeeded   %u of %u, opens again at %.0f %% failures\n",
                   s->success_count, c->half_open_max, 100 * c->half_open_rate);
    else
        buf_printf(out, "  probes succeeded   %u, closes at %u\n", s->success_count,
                   c->success_threshold);
    if (s->opened_at_ms != 0)
        buf_printf(out, "  last opened        %s (%s ago)\n", clock_format(s->opened_at_ms, at),
                   figure_since(s->opened_at_ms, now_ms, text));
    if (s->next_probe_ms != 0)
        buf_printf(out, "  next probe         %s (%s)\n", clock_format(s->next_probe_ms, at),
                   figure_until(s->next_probe_ms, now_ms, text));
    buf_printf(out, "  parked jobs        %" PRIu64 "\n", b->parked);
    if (b->release_rate > 0)
        buf_printf(out, "  lets go            %s jobs/s\n", figure_rate(b->release_rate, text));
    buf_printf(out, "  on open            %s\n", redrive_on_open_name(c->on_open));
}

static int unknown_key(const struct breaker_page *page, const char *key, struct redrive_err *err)
{
    struct words words = WORDS_INIT;
    int rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is no breaker '%s'", key);
    for (size_t i = 0; i < page->n; i++)
        words_add(&words, "", page->breakers[i].key);
    err_detail(err, "a breaker that no task declares comes to be with the first job that meets it");
    words_hint(&words, key, "see which there are: redrive breakers list", err);
    return rc;
}

static int apply_verb(struct session *session, struct str tenant, struct str key,
                      enum breaker_verb verb, struct redrive_err *err)
{
    struct breaker_op op;
    if (session->remote)
        return move_at_server(session->remote, key, verb, err);
    breaker_op_init(&op, tenant, key, verb);
    return session_apply(session, &op.op, err);
}

static struct str tenant_meant(const struct cli *cli, const struct session *session)
{
    const char *named = tenant_of(cli);
    if (!named && session->remote)
        return remote_tenant(session->remote);
    return str_of(named ? named : ENGINE_TENANT_DEFAULT);
}

/* Finds the breaker, does to it what is asked, and shows it as it then is. */
static int move(struct cli *cli, struct session *session, struct breaker_page *page,
                struct redrive_err *err)
{
    const enum breaker_verb verb = (enum breaker_verb)cli_variant(cli);
    const char *key = cli->invocation.args[0];
    const struct str tenant = tenant_meant(cli, session);
    int rc = read_all(session, tenant, page, err);
    if (rc < 0)
        return rc;
    if (!breakers_find(page, tenant, str_of(key)))
        return unknown_key(page, key, err);
    if (verb != BREAKER_LOOK) {
        rc = apply_verb(session, tenant, str_of(key), verb, err);
        if (rc == 0)
            rc = read_all(session, tenant, page, err);
    }
    if (rc < 0)
        return rc;
    const struct shown_breaker shown = {
        .info = breakers_find(page, tenant, str_of(key)),
        .now_ms = session_now_ms(session),
    };
    return shown.info ? cli_show(cli, &shown, show_as_json, show_as_text, err)
                      : unknown_key(page, key, err);
}

static int run_verb(struct cli *cli, struct session *session, struct redrive_err *err)
{
    RELEASED_BY(breaker_page_release) struct breaker_page page = {0};
    /* The command itself prints what it has done to the breaker. */
    if (cli->globals->log_level < 0)
        session->log.level = LOG_LEVEL_ERROR;
    return move(cli, session, &page, err);
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list all breakers with their state",
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
