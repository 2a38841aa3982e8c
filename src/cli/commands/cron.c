/* cron.c - `redrive cron`: when a schedule fires; lists, runs, sets and removes cron entries. */
#include "cli/commands/commands.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/json/json.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/output/figures.h"
#include "cli/shared/answer.h"
#include "config/config.h"
#include "core/cron/cron.h"
#include "core/time/tz.h"
#include "engine/clock/cron_entries.h"

#define TENANT_ROW(S, text)                                       \
    OPTION("tenant", 0, "TENANT", (text), INTO_STRING(S, tenant), \
           .default_text = ENGINE_TENANT_DEFAULT)

#define TIMEZONE_ROW(S)                                                                     \
    OPTION("timezone", 'z', "ZONE", "the time zone of the schedule, such as Europe/Berlin", \
           INTO_STRING(S, timezone), .default_text = "UTC")

/* ---- next ------------------------------------------------------------------------------------ */

/* The most ticks that are printed. */
#define COUNT_MAX 1000

struct next_options {
    int64_t count;
    const char *timezone;
    const char *after;
};

static const struct field NEXT_OPTIONS[] = {
    OPTION("count", 'n', "N", "how many ticks to print", INTO_INT(struct next_options, count),
           .min = 1, .max = COUNT_MAX, .default_text = "5"),
    TIMEZONE_ROW(struct next_options),
    OPTION("after", 0, "TIME",
           "start after this local time, 2026-03-28 or 2026-03-28T12:00, instead of now",
           INTO_STRING(struct next_options, after)),
    {0},
};

struct ticks {
    const struct tz *tz;
    int64_t at_ms[COUNT_MAX];
};

static void add_tick_json(struct json_writer *w, const void *list, size_t i)
{
    const struct ticks *ticks = list;
    char text[WHEN_TEXT_MAX];
    json_begin_object(w);
    json_field_cstr(w, "local", when_format(ticks->tz, ticks->at_ms[i], text));
    json_field_cstr(w, "utc", when_format(tz_utc(), ticks->at_ms[i], text));
    json_field_int(w, "at_ms", ticks->at_ms[i]);
    json_end_object(w);
}

static void add_tick_row(struct table *t, const void *list, size_t i)
{
    const struct ticks *ticks = list;
    const int64_t at_ms = ticks->at_ms[i];
    char text[WHEN_TEXT_MAX], span[DURATION_TEXT_MAX];
    table_add(t, when_format(ticks->tz, at_ms, text));
    table_add(t, when_format(tz_utc(), at_ms, text));
    table_add(t, i == 0 ? "-" : duration_format(at_ms - ticks->at_ms[i - 1], span));
}

static int print_ticks(struct cli *cli, const struct cron *cron, const struct tz *tz,
                       int64_t after_ms, struct redrive_err *err)
{
    const struct next_options *options = invocation_options(&cli->invocation);
    struct ticks ticks = {.tz = tz};
    const struct listing listing = {
        .columns = "LOCAL|UTC|>AFTER THE LAST",
        .n = (size_t)options->count,
        .item = add_tick_json,
        .row = add_tick_row,
        .list = &ticks,
    };
    for (size_t i = 0; i < listing.n; i++) {
        int rc = cron_next(cron, tz, i == 0 ? after_ms : ticks.at_ms[i - 1], &ticks.at_ms[i]);
        if (rc < 0)
            return err_set(err, rc, "the schedule has no further tick");
    }
    return cli_list(cli, &listing, err);
}

static int run_next(struct cli *cli, struct redrive_err *err)
{
    const struct next_options *options = invocation_options(&cli->invocation);
    int64_t after_ms = clock_wall_ms();
    struct cron cron;
    RELEASED_BY(tz_release) struct tz tz = {0};
    int rc = cron_parse(str_of(cli->invocation.args[0]), &cron, err);
    if (rc == 0)
        rc = zone_read(NULL, str_of(options->timezone), &tz, err);
    if (rc == 0 && options->after)
        rc = when_parse("--after", options->after, &tz, &after_ms, err);
    return rc == 0 ? print_ticks(cli, &cron, &tz, after_ms, err) : rc;
}

static const struct command CMD_NEXT = {
    .name = "next",
    .summary = "print when a schedule fires next",
    .arguments = "SCHEDULE",
    .description = "A schedule has five fields (minute, hour, day of the month, month, day of the "
                   "week) or is one of @hourly, @daily, @weekly, @monthly, @yearly. When clocks "
                   "change no tick is lost and none comes twice: a local time that is jumped over "
                   "fires right after the gap, one that comes twice fires the first time, and "
                   "schedules for every hour follow elapsed time.",
    OPTIONS_INTO(NEXT_OPTIONS, struct next_options),
    .examples = EXAMPLES({"redrive cron next '*/2 * * * *'", "every two minutes"},
                         {"redrive cron next '30 2 * * *' -z Europe/Berlin --after 2026-03-28",
                          "what daylight saving does to half past two"}),
    .run = run_next,
    .needs_no_store = true,
};

/* ---- list, run ------------------------------------------------------------------------------- */

struct entries_options {
    const char *tenant;
};

static const struct field OPTIONS[] = {
    TENANT_ROW(struct entries_options, "whose cron entries they are"),
    {0},
};

/* A tick of an entry on the clocks of its time zone, or in UTC where this machine does not have the
 * zone. `none`: there is no such tick. */
static const char *format_tick(const struct object *entry, const char *member, const char *none,
                               char out[WHEN_TEXT_MAX])
{
    RELEASED_BY(tz_release) struct tz zone = {0};
    const int64_t at_ms = object_time(entry, member);
    if (at_ms == 0)
        return none;
    const bool is_known =
        zone_read(getenv("TZDIR"), object_text(entry, "timezone"), &zone, NULL) == 0;
    return when_format(is_known ? &zone : tz_utc(), at_ms, out);
}

/* Where there is no store, the entries of the configuration are all there is. */
static int open_for_list(struct cli *cli, struct session *ret, struct redrive_err *err)
{
    struct redrive_err why = {0};
    int rc = session_open_existing(cli, ret, &why);
    if (rc == REDRIVE_E_NOT_FOUND && ret->config && ret->config->n_cron > 0)
        return session_go_without(ret, err);
    if (rc < 0 && err)
        *err = why;
    return rc;
}

static void add_entry(struct table *t, const struct object *entry, const void *ctx)
{
    char text[WHEN_TEXT_MAX];
    (void)ctx;
    table_add_str(t, object_text(entry, "name"));
    table_add_str(t, object_text(entry, "task"));
    table_add_str(t, object_text(entry, "schedule"));
    table_add_str(t, object_text(entry, "timezone"));
    table_add_str(t, object_text(entry, "overlap"));
    table_add_str(t, object_text(entry, "source"));
    table_add(t, format_tick(entry, "last_tick", "-", text));
    table_add(t, format_tick(entry, "next_tick", "never", text));
}

static int run_list(struct cli *cli, struct redrive_err *err)
{
    static const struct answer_table ENTRIES = {
        .columns = "NAME|TASK|SCHEDULE|TIME ZONE|OVERLAP|SOURCE|LAST TICK|NEXT TICK",
        .row = add_entry,
    };
    const struct entries_options *options = invocation_options(&cli->invocation);
    struct session session;
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = open_for_list(cli, &session, err);
    if (rc == 0)
        rc = answer_read(&session, &API_CRON, str_of(options->tenant), &answer, err);
    if (rc == 0)
        rc = answer_print_list(cli, &answer, &ENTRIES, err);
    session_close(&session);
    return rc;
}

/* Changes the entry that the command names. The path of a server has no place for an empty name. Of
 * an entry that the configuration of this machine has, the refusal names the file. */
static int change_entry(struct cli *cli, struct session *session, struct ask ask,
                        struct answer *ret, struct redrive_err *err)
{
    const struct config *config = session->config;
    ask.name = str_of(cli->invocation.args[0]);
    int rc = ask.name.len > 0 ? answer_change(session, &ask, ret, err)
                              : err_set(err, REDRIVE_E_NOT_FOUND, "there is no periodic task ''");
    if (rc == REDRIVE_E_NOT_FOUND && !err->hint[0])
        err_hint(err, "`redrive cron list` names them");
    else if (rc == REDRIVE_E_STATE && ask.operation != &API_CRON_RUN && config->path &&
             cron_entries_own(config, ask.tenant, ask.name))
        err_hint(err, "change it in %s", config->path);
    return rc;
}

static void id_as_text(struct buf *out, const struct term *term, const void *thing)
{
    (void)term;
    text_add_clean(out, object_text(&((const struct answer *)thing)->object, "id"));
    buf_putc(out, '\n');
}

static int run_by_hand(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct entries_options *options = invocation_options(&cli->invocation);
    const struct ask ask = {.operation = &API_CRON_RUN, .tenant = str_of(options->tenant)};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = change_entry(cli, session, ask, &answer, err);
    if (rc < 0)
        return rc;
    return cli->globals->json ? answer_print(cli, &answer, err)
                              : cli_show(cli, &answer, NULL, id_as_text, err);
}

static const struct command CMD_LIST = {
    .name = "list",
    .summary = "show the periodic tasks",
    .description = "Those of the configuration and those that were stored with `redrive cron set` "
                   "or over HTTP, each with its schedule, time zone and rule of overlap, the last "
                   "tick that any process has made, as the store remembers it, and the next one, "
                   "both on the clocks of its time zone.",
    OPTIONS_INTO(OPTIONS, struct entries_options),
    .examples = EXAMPLES({"redrive cron list", "what runs when"},
                         {"redrive cron list --json", "the same for programs"}),
    .run = run_list,
    .settings = SETTINGS_STORE,
    .over_http = true,
};

static const struct command CMD_RUN = {
    .name = "run",
    .summary = "submit the job of a periodic task now",
    .arguments = "NAME",
    .description = "A tick by hand: prints the id of the new job, and leaves the cron entry as it "
                   "is. The entry's rule of overlap holds: where it allows no further job, none is "
                   "made, and the exit code is 1.",
    OPTIONS_INTO(OPTIONS, struct entries_options),
    .examples = EXAMPLES({"redrive cron run fetch-joke", "do not wait for the next tick"}),
    .run_on_store = run_by_hand,
    .settings = SETTINGS_SUBMIT,
};

/* ---- set ------------------------------------------------------------------------------------- */

/* Above the limit of an entry, so that one that is too big is measured and not cut. */
#define TEXT_MAX (4u * 1024 * 1024)

static const char *const OVERLAPS[] = {"allow", "skip", "queue_one", NULL};

struct set_options {
    const char *task;
    const char *schedule;
    const char *timezone;
    const char *payload;
    int overlap;
    const char *tenant;
};

static const struct field SET_OPTIONS[] = {
    OPTION("task", 't', "TASK", "the task of the jobs it makes; required",
           INTO_STRING(struct set_options, task)),
    OPTION("schedule", 's', "SCHEDULE", "when, such as '*/15 * * * *' or @daily; required",
           INTO_STRING(struct set_options, schedule)),
    TIMEZONE_ROW(struct set_options),
    OPTION("payload", 0, "JSON", "the payload of its jobs",
           INTO_STRING(struct set_options, payload), .default_text = "null"),
    OPTION("overlap", 0, "RULE",
           "when its last job has not ended: start one all the same, skip the tick, or keep one "
           "waiting",
           INTO_CHOICE(struct set_options, overlap), .words = OVERLAPS, .default_text = "skip"),
    TENANT_ROW(struct set_options, "whose entry it is"),
    {0},
};

/* The entry in the form of the configuration, which is where its rules are. */
static int write_definition(const struct set_options *options, struct buf *out,
                            struct redrive_err *err)
{
    struct json_writer w;
    int rc = json_check(str_of(options->payload), NULL, err);
    if (rc < 0) {
        err_hint(err, "quote --payload for the shell, and a string once more: '{\"a\": 1}', "
                      "'\"text\"'");
        return rc;
    }
    json_writer_init(&w, out);
    json_begin_object(&w);
    if (options->task)
        json_field_cstr(&w, "task", options->task);
    if (options->schedule)
        json_field_cstr(&w, "schedule", options->schedule);
    json_field_cstr(&w, "timezone", options->timezone);
    json_field_cstr(&w, "overlap", OVERLAPS[options->overlap]);
    json_key(&w, "payload");
    json_put_raw(&w, str_of(options->payload));
    json_end_object(&w);
    return buf_failed(out) ? err_full(err, buf_failed(out), "the entry is too long") : 0;
}

static int say_set(struct cli *cli, const struct answer *answer, struct redrive_err *err)
{
    char text[WHEN_TEXT_MAX];
    cli_say(cli, "%s is %s; next tick %s\n", cli->invocation.args[0],
            answer->status == 201 ? "set" : "replaced",
            format_tick(&answer->object, "next_tick", "never", text));
    return answer_print(cli, answer, err);
}

/* What cannot be an entry makes no store where there is none. */
static int check_definition(const struct config *config, const char *name, struct str definition,
                            struct redrive_err *err)
{
    struct config_part *box = NULL;
    int rc = cron_parse_json(config, true, str_of(name), definition, &box, NULL, err);
    config_part_free(box);
    return rc;
}

static int put_entry(struct cli *cli, struct session *session, struct str definition,
                     struct redrive_err *err)
{
    const struct set_options *options = invocation_options(&cli->invocation);
    struct api_input input = {.body = definition};
    const struct ask ask = {
        .operation = &API_CRON_PUT, .tenant = str_of(options->tenant), .input = &input};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = change_entry(cli, session, ask, &answer, err);
    return rc == 0 ? say_set(cli, &answer, err) : rc;
}

static int run_set(struct cli *cli, struct redrive_err *err)
{
    const struct set_options *options = invocation_options(&cli->invocation);
    const struct engine_options plain = {0};
    struct session session = {0};
    RELEASED_BY(buf_release) struct buf definition = BUF_MAX(TEXT_MAX);
    int rc = write_definition(options, &definition, err);
    if (rc == 0)
        rc = session_load(cli, &session, err);
    if (rc == 0) {
        session_hush(cli, &session);
        rc = check_definition(session.config, cli->invocation.args[0], buf_str(&definition), err);
    }
    if (rc == 0)
        rc = session_connect(&session, &plain, err);
    if (rc == 0)
        rc = put_entry(cli, &session, buf_str(&definition), err);
    session_close(&session);
    return rc;
}

static const struct command CMD_SET = {
    .name = "set",
    .summary = "store a periodic task, or replace one",
    .arguments = "NAME",
    .description =
        "The entry is kept in the store: every process that works on it makes its ticks, "
        "each exactly once, from the next one on. An entry of the configuration with "
        "the same name cannot be set here. Options that are not given have their "
        "defaults, also when an entry is replaced.",
    OPTIONS_INTO(SET_OPTIONS, struct set_options),
    .examples = EXAMPLES(
        {"redrive cron set tidy --task cleanup --schedule @daily", "every day at midnight"},
        {"redrive cron set wake -t call -s '30 7 * * mon-fri' -z Europe/Berlin",
         "half past seven on working days"}),
    .run = run_set,
    .settings = SETTINGS_STORE | SETTINGS_SUBMIT,
    .over_http = true,
};

/* ---- remove ---------------------------------------------------------------------------------- */

static const struct field REMOVE_OPTIONS[] = {
    TENANT_ROW(struct entries_options, "whose entry it is"),
    {0},
};

static int run_remove(struct cli *cli, struct session *session, struct redrive_err *err)
{
    const struct entries_options *options = invocation_options(&cli->invocation);
    const struct ask ask = {.operation = &API_CRON_REMOVE, .tenant = str_of(options->tenant)};
    RELEASED_BY(answer_release) struct answer answer = {0};
    int rc = change_entry(cli, session, ask, &answer, err);
    if (rc == 0)
        cli_say(cli, "%s is removed; jobs that it has made stay\n", cli->invocation.args[0]);
    return rc;
}

static const struct command CMD_REMOVE = {
    .name = "remove",
    .summary = "remove a stored periodic task",
    .arguments = "NAME",
    .description = "Jobs that it has made stay. What the configuration has is removed there.",
    OPTIONS_INTO(REMOVE_OPTIONS, struct entries_options),
    .examples = EXAMPLES({"redrive cron remove tidy", "no more of it"}),
    .run_on_store = run_remove,
};

const struct command cmd_cron = {
    .name = "cron",
    .summary = "look at cron entries, and change them",
    .examples = EXAMPLES(
        {"redrive cron next '0 9 * * mon-fri' -z Asia/Tokyo", "nine o'clock on working days"},
        {"redrive cron list", "all of them"}),
    .commands = (const struct command *const[]){&CMD_NEXT, &CMD_LIST, &CMD_RUN, &CMD_SET,
                                                &CMD_REMOVE, NULL},
};
