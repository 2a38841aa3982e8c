/* breakers.c - `redrive breakers`: look at circuit breakers, and move them by hand. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/frame/cli.h"
#include "cli/frame/words.h"
#include "cli/output/figures.h"
#include "cli/output/listing.h"
#include "cli/output/table.h"
#include "cli/output/text.h"
#include "cli/shared/session.h"
#include "engine/gates/breakers.h"
#include "engine/verbs/control.h"

#define OUTPUT_MAX (64u * 1024 * 1024)

struct breakers_options {
    const char *tenant;
};

static const struct option OPTIONS[] = {
    {.name = "tenant",
     INTO_STRING(struct breakers_options, tenant),
     .placeholder = "NAME",
     .help = "whose breakers; by default `list` shows all, the others mean `default`"},
    {0},
};

static const char *tenant_of(const struct cli *cli)
{
    const struct breakers_options *options = cli->invocation.values[1];
    return options->tenant;
}

/* With those that tasks declare, met by a job or not. */
static int read_all(const struct session *session, struct str tenant, struct breaker_page *ret,
                    struct redrive_err *err)
{
    const int64_t now_ms = engine_now_ms(session->engine);
    int rc = breakers_read(session->store, tenant, now_ms, ret, err);
    if (rc == 0)
        rc = breakers_add_declared(session->config, tenant, now_ms, ret, err);
    return rc < 0 ? rc : breakers_count_parked(session->store, tenant, ret, err);
}

/* ---- list ------------------------------------------------------------------------------------ */

static void list_as_json(const struct breaker_page *page, struct buf *out)
{
    struct json_writer w;
    listing_begin(&w, out);
    for (size_t i = 0; i < page->n; i++)
        breaker_write_json(&w, &page->breakers[i]);
    listing_end(&w, NULL);
}

/* Below 0: it is not known. */
static void add_share(struct table *t, double share)
{
    if (share < 0)
        table_add(t, "-");
    else
        table_addf(t, "%.0f %%", 100 * share);
}

static void list_as_table(const struct breaker_page *page, int64_t now_ms, const struct term *term,
                          struct buf *out)
{
    static const struct table_column COLUMNS[] = {
        {"STATE", ALIGN_LEFT},   {"FAILURES", ALIGN_RIGHT}, {"RATE", ALIGN_RIGHT},
        {"SLOW", ALIGN_RIGHT},   {"OPENED", ALIGN_RIGHT},   {"PROBE IN", ALIGN_RIGHT},
        {"PARKED", ALIGN_RIGHT}, {"TENANT", ALIGN_LEFT},    {"KEY", ALIGN_LEFT},
    };
    char text[FIGURE_MAX];
    struct table t;
    table_init(&t, COLUMNS, sizeof COLUMNS / sizeof COLUMNS[0]);
    for (size_t i = 0; i < page->n; i++) {
        const struct breaker_info *b = &page->breakers[i];
        table_add_styled(&t, figure_breaker_style(b->status.state),
                         redrive_breaker_state_name(b->status.state));
        if (b->status.config.failure_threshold == 0)
            table_addf(&t, "%u/-", b->status.failure_count);
        else
            table_addf(&t, "%u/%u", b->status.failure_count, b->status.config.failure_threshold);
        add_share(&t, b->status.rate);
        add_share(&t, b->status.slow_rate);
        table_add(&t, figure_since(b->status.opened_at_ms, now_ms, text));
        table_add(&t,
                  b->is_idle ? "next job" : figure_until(b->status.next_probe_ms, now_ms, text));
        table_addf(&t, "%" PRIu64, b->parked);
        figure_add_str(&t, b->tenant);
        figure_add_str(&t, b->key);
    }
    table_render(&t, term->width, term->color, out);
    table_release(&t);
}

static int run_list(struct cli *cli, struct redrive_err *err)
{
    struct session session;
    struct breaker_page page = {0};
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0)
        rc = read_all(&session, str_of(tenant_of(cli)), &page, err);
    if (rc == 0) {
        struct buf out;
        buf_init(&out, OUTPUT_MAX);
        if (cli->globals->json)
            list_as_json(&page, &out);
        else
            list_as_table(&page, engine_now_ms(session.engine), &cli->out, &out);
        rc = cli_print(cli, &out, err);
    }
    breaker_page_release(&page);
    session_close(&session);
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

static void show_as_text(const struct breaker_info *b, int64_t now_ms, bool color, struct buf *out)
{
    const struct redrive_breaker_status *s = &b->status;
    const struct redrive_breaker_config *c = &s->config;
    char at[CLOCK_TEXT_MAX], text[FIGURE_MAX];
    text_add_clean(out, b->key);
    buf_puts(out, ": ");
    style_add(out, color, figure_breaker_style(s->state),
              str_of(redrive_breaker_state_name(s->state)));
    buf_printf(out, "\n  failures in a row  %u, opens at %u\n", s->failure_count,
               c->failure_threshold);
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
    char name[256];
    int rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is no breaker '%s'", key);
    for (size_t i = 0; i < page->n; i++)
        if (str_copy(name, sizeof name, page->breakers[i].key))
            words_add(&words, "", name);
    err_detail(err, "a breaker that no task declares comes to be with the first job that meets it");
    const char *nearest = words_nearest(&words, str_of(key));
    if (nearest)
        err_hint(err, "did you mean '%s'?", nearest);
    else
        err_hint(err, "see which there are: redrive breakers list");
    words_release(&words);
    return rc;
}

static int print_one(struct cli *cli, const struct session *session, const struct breaker_info *b,
                     struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (cli->globals->json) {
        struct json_writer w;
        json_writer_init(&w, &out);
        breaker_write_json(&w, b);
        buf_putc(&out, '\n');
    } else {
        show_as_text(b, engine_now_ms(session->engine), cli->out.color, &out);
    }
    return cli_print(cli, &out, err);
}

/* Finds the breaker, does to it what is asked, and shows it as it then is. */
static int move(struct cli *cli, const struct session *session, enum breaker_verb verb,
                struct breaker_page *page, struct redrive_err *err)
{
    const char *key = cli->invocation.args[0];
    const char *named = tenant_of(cli);
    struct str tenant = str_of(named ? named : ENGINE_TENANT_DEFAULT);
    int rc = read_all(session, tenant, page, err);
    if (rc < 0)
        return rc;
    if (!breakers_find(page, tenant, str_of(key)))
        return unknown_key(page, key, err);
    if (verb != BREAKER_LOOK) {
        struct breaker_op op;
        breaker_op_init(&op, tenant, str_of(key), verb);
        rc = engine_apply_one(session->engine, &op.op, err);
        if (rc == 0)
            rc = read_all(session, tenant, page, err);
    }
    if (rc < 0)
        return rc;
    const struct breaker_info *b = breakers_find(page, tenant, str_of(key));
    return b ? print_one(cli, session, b, err) : unknown_key(page, key, err);
}

static int run_verb(struct cli *cli, enum breaker_verb verb, struct redrive_err *err)
{
    struct session session;
    struct breaker_page page = {0};
    int rc = session_open_existing(cli, &session, err);
    /* The command itself prints what it has done to the breaker. */
    if (rc == 0 && cli->globals->log_level < 0)
        session.log.level = LOG_LEVEL_ERROR;
    if (rc == 0)
        rc = move(cli, &session, verb, &page, err);
    breaker_page_release(&page);
    session_close(&session);
    return rc;
}

static int run_show(struct cli *cli, struct redrive_err *err)
{
    return run_verb(cli, BREAKER_LOOK, err);
}

static int run_reset(struct cli *cli, struct redrive_err *err)
{
    return run_verb(cli, BREAKER_RESET, err);
}

static int run_trip(struct cli *cli, struct redrive_err *err)
{
    return run_verb(cli, BREAKER_TRIP, err);
}

static int run_disable(struct cli *cli, struct redrive_err *err)
{
    return run_verb(cli, BREAKER_DISABLE, err);
}

static int run_simulate_failure(struct cli *cli, struct redrive_err *err)
{
    return run_verb(cli, BREAKER_SIMULATE_FAILURE, err);
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "list all breakers with their state",
    .examples =
        (const struct example[]){
            {"redrive breakers list", "which are open, and how many jobs wait?"},
            {0},
        },
    .run = run_list,
};

static const struct command CMD_SHOW = {
    .name = "show",
    .summary = "show one breaker with its thresholds",
    .arguments = "KEY",
    .examples =
        (const struct example[]){
            {"redrive breakers show mail", "the breaker of the task mail"},
            {0},
        },
    .run = run_show,
};

static const struct command CMD_RESET = {
    .name = "reset",
    .summary = "close a breaker and forget its failures",
    .arguments = "KEY",
    .description = "Also ends what `trip` and `disable` have begun. Parked jobs are let go at the "
                   "breaker's release rate.",
    .examples =
        (const struct example[]){
            {"redrive breakers reset mail", "the service is back, do not wait for a probe"},
            {0},
        },
    .run = run_reset,
};

static const struct command CMD_TRIP = {
    .name = "trip",
    .summary = "hold a breaker open until it is reset",
    .arguments = "KEY",
    .examples =
        (const struct example[]){
            {"redrive breakers trip mail", "before the service is taken down"},
            {0},
        },
    .run = run_trip,
};

static const struct command CMD_DISABLE = {
    .name = "disable",
    .summary = "let everything through until the breaker is reset",
    .arguments = "KEY",
    .examples =
        (const struct example[]){
            {"redrive breakers disable mail", "its failures are known to mean nothing"},
            {0},
        },
    .run = run_disable,
};

static const struct command CMD_SIMULATE_FAILURE = {
    .name = "simulate-failure",
    .summary = "feed one counted failure in",
    .arguments = "KEY",
    .examples =
        (const struct example[]){
            {"redrive breakers simulate-failure mail", "try it out: after five it opens"},
            {0},
        },
    .run = run_simulate_failure,
};

const struct command cmd_breakers = {
    .name = "breakers",
    .summary = "look at circuit breakers and move them by hand",
    .options = OPTIONS,
    .options_size = sizeof(struct breakers_options),
    .examples =
        (const struct example[]){
            {"redrive breakers list", "all of them"},
            {"redrive breakers reset mail", "close one by hand"},
            {0},
        },
    .commands = (const struct command *const[]){&CMD_LIST, &CMD_SHOW, &CMD_RESET, &CMD_TRIP,
                                                &CMD_DISABLE, &CMD_SIMULATE_FAILURE, NULL},
};
