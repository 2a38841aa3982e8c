/* cron.c - `redrive cron`: when does a schedule fire? */
#include "cli/commands/commands.h"

#include "base/err.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/frame/cli.h"
#include "cli/output/figures.h"
#include "config/config.h"
#include "core/cron/cron.h"
#include "core/time/tz.h"

/* The most ticks that are printed. */
#define COUNT_MAX 1000

struct next_options {
    int64_t count;
    const char *timezone;
    const char *after;
};

static const struct option NEXT_OPTIONS[] = {
    {.name = "count",
     .letter = 'n',
     INTO_INT(struct next_options, count),
     .min = 1,
     .max = COUNT_MAX,
     .placeholder = "N",
     .default_text = "5",
     .help = "how many ticks to print"},
    {.name = "timezone",
     .letter = 'z',
     INTO_STRING(struct next_options, timezone),
     .placeholder = "ZONE",
     .default_text = "UTC",
     .help = "the time zone of the schedule, such as Europe/Berlin"},
    {.name = "after",
     INTO_STRING(struct next_options, after),
     .placeholder = "TIME",
     .help = "start after this local time, 2026-03-28 or 2026-03-28T12:00, instead of now"},
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
    static const struct table_column COLUMNS[] = {
        {"LOCAL", ALIGN_LEFT}, {"UTC", ALIGN_LEFT}, {"AFTER THE LAST", ALIGN_RIGHT}};
    const struct next_options *options = invocation_options(&cli->invocation);
    struct ticks ticks = {.tz = tz};
    const struct listing listing = {
        .columns = COLUMNS,
        .n_columns = sizeof COLUMNS / sizeof COLUMNS[0],
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
    struct tz tz = {0};
    int rc = cron_parse(str_of(cli->invocation.args[0]), &cron, err);
    if (rc == 0)
        rc = zone_read(NULL, str_of(options->timezone), &tz, err);
    if (rc == 0 && options->after)
        rc = when_parse("--after", options->after, &tz, &after_ms, err);
    if (rc == 0)
        rc = print_ticks(cli, &cron, &tz, after_ms, err);
    tz_release(&tz);
    return rc;
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
    .options = NEXT_OPTIONS,
    .options_size = sizeof(struct next_options),
    .examples =
        (const struct example[]){
            {"redrive cron next '*/2 * * * *'", "every two minutes"},
            {"redrive cron next '30 2 * * *' -z Europe/Berlin --after 2026-03-28",
             "what daylight saving does to half past two"},
            {0},
        },
    .run = run_next,
};

const struct command cmd_cron = {
    .name = "cron",
    .summary = "look at cron entries, and change them",
    .examples =
        (const struct example[]){
            {"redrive cron next '0 9 * * mon-fri' -z Asia/Tokyo", "nine o'clock on working days"},
            {"redrive cron list", "all of them"},
            {0},
        },
    .commands = (const struct command *const[]){&CMD_NEXT, &cmd_cron_list, &cmd_cron_run,
                                                &cmd_cron_set, &cmd_cron_remove, NULL},
};
