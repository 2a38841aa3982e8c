/* cron.c - `redrive cron`: when does a schedule fire? */
#include "cli/commands/commands.h"

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "base/time/duration.h"
#include "cli/frame/cli.h"
#include "cli/frame/when.h"
#include "cli/output/listing.h"
#include "cli/output/table.h"
#include "config/schema/zone.h"
#include "core/cron/cron.h"
#include "core/time/tz.h"

#define OUTPUT_MAX (1024 * 1024)

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
     .max = 1000,
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
    const struct cron *cron;
    const struct tz *tz;
    int64_t after_ms;
    int64_t count;
};

static int put_json(const struct ticks *ticks, struct buf *out)
{
    struct json_writer w;
    char text[WHEN_TEXT_MAX];
    int64_t at_ms = ticks->after_ms;
    listing_begin(&w, out);
    for (int64_t i = 0; i < ticks->count; i++) {
        int rc = cron_next(ticks->cron, ticks->tz, at_ms, &at_ms);
        if (rc < 0)
            return rc;
        json_begin_object(&w);
        json_field_cstr(&w, "local", when_format(ticks->tz, at_ms, text));
        json_field_cstr(&w, "utc", when_format(tz_utc(), at_ms, text));
        json_field_int(&w, "at_ms", at_ms);
        json_end_object(&w);
    }
    listing_end(&w, NULL);
    return buf_failed(out);
}

static int put_table(const struct ticks *ticks, const struct term *term, struct buf *out)
{
    static const struct table_column COLUMNS[] = {
        {"LOCAL", ALIGN_LEFT}, {"UTC", ALIGN_LEFT}, {"AFTER THE LAST", ALIGN_RIGHT}};
    struct table t;
    int64_t at_ms = ticks->after_ms;
    int rc = 0;
    table_init(&t, COLUMNS, 3);
    for (int64_t i = 0; i < ticks->count && rc == 0; i++) {
        char text[WHEN_TEXT_MAX], span[DURATION_TEXT_MAX];
        int64_t last_ms = at_ms;
        rc = cron_next(ticks->cron, ticks->tz, at_ms, &at_ms);
        if (rc < 0)
            break;
        table_add(&t, when_format(ticks->tz, at_ms, text));
        table_add(&t, when_format(tz_utc(), at_ms, text));
        table_add(&t, i == 0 ? "-" : duration_format(at_ms - last_ms, span));
    }
    if (rc == 0)
        rc = table_render(&t, term->width, term->color, out);
    table_release(&t);
    return rc;
}

static int print_ticks(struct cli *cli, const struct ticks *ticks, struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    int rc = cli->globals->json ? put_json(ticks, &out) : put_table(ticks, &cli->out, &out);
    if (rc < 0) {
        buf_release(&out);
        return err_set(err, rc, "the schedule has no further tick");
    }
    return cli_print(cli, &out, err);
}

static int run_next(struct cli *cli, struct redrive_err *err)
{
    const struct next_options *options = invocation_options(&cli->invocation);
    struct cron cron;
    struct tz tz = {0};
    int rc = cron_parse(str_of(cli->invocation.args[0]), &cron, err);
    if (rc == 0)
        rc = zone_read(NULL, str_of(options->timezone), &tz, err);

    struct ticks ticks = {&cron, &tz, clock_wall_ms(), options->count};
    if (rc == 0 && options->after)
        rc = when_parse("--after", options->after, &tz, &ticks.after_ms, err);
    if (rc == 0)
        rc = print_ticks(cli, &ticks, err);
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
