/* move.c - `redrive move`: everything of one store into another. */
#include "cli/commands/commands.h"

#include <inttypes.h>

#include "base/err.h"
#include "base/json/writer.h"
#include "base/time/clock.h"
#include "cli/commands/move/ends.h"
#include "cli/frame/cli.h"
#include "cli/frame/interrupt.h"
#include "cli/output/figures.h"
#include "cli/output/progress.h"
#include "cli/output/text.h"
#include "engine/copy/copy.h"

#define OUTPUT_MAX (64u * 1024)

struct move_options {
    const char *from;
    const char *to;
    bool dry_run;
    bool force;
    bool into_existing;
};

static const struct option OPTIONS[] = {
    {.name = "from",
     INTO_STRING(struct move_options, from),
     .placeholder = "URL",
     .help = "the store to copy; it is only read"},
    {.name = "to",
     INTO_STRING(struct move_options, to),
     .placeholder = "URL",
     .help = "the store to copy into; it is set up if it is not there"},
    {.name = "dry-run",
     .letter = 'n',
     INTO_FLAG(struct move_options, dry_run),
     .help = "say what would be moved, and write nothing"},
    {.name = "force",
     INTO_FLAG(struct move_options, force),
     .help = "go on although workers are alive on one of them"},
    {.name = "into-existing",
     INTO_FLAG(struct move_options, into_existing),
     .help = "add to a store that has jobs of its own"},
    {0},
};

/* ---- Output ---------------------------------------------------------------------------------- */

struct store_move {
    const struct move_options *options;
    const struct move_end *from;
    const struct move_end *to;
    struct copy_report report;
    int64_t took_ms;
};

static const struct {
    enum shared_kind kind;
    const char *key;
    const char *text;
} ROWS[] = {
    {SHARED_BREAKER, "breakers", "breakers"}, {SHARED_BUCKET, "limits", "limits"},
    {SHARED_PAUSE, "pauses", "pauses"},       {SHARED_TASK, "tasks", "task definitions"},
    {SHARED_CRON, "cron", "cron entries"},    {SHARED_ALERT, "alerts", "alerts"},
    {SHARED_CANCEL, "cancels", "cancels"},
};
#define N_ROWS (sizeof ROWS / sizeof ROWS[0])

static void put_number(struct json_writer *w, const char *name, uint64_t value)
{
    json_field_int(w, name, (int64_t)value);
}

static void put_json(const struct store_move *o, struct buf *out)
{
    const struct copy_report *r = &o->report;
    char hash[CONTENT_TEXT_MAX];
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_cstr(&w, "from", buf_cstr(&o->from->name));
    json_field_cstr(&w, "to", buf_cstr(&o->to->name));
    json_field_bool(&w, "dry_run", o->options->dry_run);
    put_number(&w, "jobs", r->jobs);
    put_number(&w, "copied", r->copied);
    put_number(&w, "attempts", r->attempts);
    put_number(&w, "dead_letters", r->by_state[REDRIVE_STATE_DEAD_LETTER]);
    json_key(&w, "by_state");
    json_begin_object(&w);
    for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
        put_number(&w, redrive_state_name((enum redrive_state)state), r->by_state[state]);
    json_end_object(&w);
    for (size_t i = 0; i < N_ROWS; i++)
        put_number(&w, ROWS[i].key, r->rows[ROWS[i].kind]);
    put_number(&w, "counters", r->counters);
    put_number(&w, "remembered_keys", r->remembered_keys);
    put_number(&w, "differing", r->differing);
    put_number(&w, "missing", r->missing);
    put_number(&w, "other_differences", r->others);
    json_field_cstr(&w, "difference", r->difference[0] ? r->difference : NULL);
    json_field_cstr(&w, "hash_from", content_text(&r->from, hash));
    json_field_cstr(&w, "hash_to", o->options->dry_run ? NULL : content_text(&r->to, hash));
    json_field_double(&w, "seconds", (double)o->took_ms / 1000);
    json_end_object(&w);
    buf_putc(out, '\n');
}

static void put_text(const struct store_move *o, struct buf *out)
{
    const struct copy_report *r = &o->report;
    char span[FIGURE_MAX], hash[CONTENT_TEXT_MAX];
    const bool dry_run = o->options->dry_run;
    buf_printf(out, "%s %" PRIu64 " job%s", dry_run ? "would move" : "moved",
               dry_run ? r->jobs : r->copied, (dry_run ? r->jobs : r->copied) == 1 ? "" : "s");
    if (!dry_run && r->copied + r->missing < r->jobs)
        buf_printf(out, ", %" PRIu64 " were there already,", r->jobs - r->copied - r->missing);
    buf_puts(out, " from ");
    text_add_clean(out, buf_str(&o->from->name));
    buf_puts(out, " to ");
    text_add_clean(out, buf_str(&o->to->name));
    if (!dry_run)
        buf_printf(out, " in %s", figure_span(o->took_ms, span));
    buf_printf(out, "\n  jobs %" PRIu64 ", attempts %" PRIu64 ", dead letters %" PRIu64 "\n ",
               r->jobs, r->attempts, r->by_state[REDRIVE_STATE_DEAD_LETTER]);
    for (size_t i = 0; i < N_ROWS; i++)
        buf_printf(out, " %s %" PRIu64 ",", ROWS[i].text, r->rows[ROWS[i].kind]);
    buf_printf(out, " counters %" PRIu64 ", remembered keys %" PRIu64 "\n", r->counters,
               r->remembered_keys);
    buf_printf(out, "  hash %s", content_text(&r->from, hash));
    if (!dry_run)
        buf_puts(out, copy_is_same(r) ? ", checked in both" : ", not the same in both");
    buf_putc(out, '\n');
}

static int print_move(struct cli *cli, const struct store_move *o, struct redrive_err *err)
{
    const struct copy_report *r = &o->report;
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (cli->globals->json)
        put_json(o, &out);
    else
        put_text(o, &out);
    int rc = cli_print(cli, &out, err);
    if (rc < 0 || copy_is_same(r))
        return rc;
    err_set(err, REDRIVE_E_STATE,
            "the destination is not as the source: %" PRIu64 " jobs differ, %" PRIu64
            " are missing, %" PRIu64 " other differences",
            r->differing, r->missing, r->others);
    err_detail(err, "the first: %s", r->difference);
    err_hint(err, "did a process use one of the stores meanwhile? Nothing was overwritten");
    return REDRIVE_E_STATE;
}

/* ---- The command ----------------------------------------------------------------------------- */

struct bar {
    struct cli *cli;
    struct progress progress;
};

static bool show(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct bar *bar = ctx;
    progress_phase(&bar->progress, &bar->cli->err, phase, done, total);
    return !interrupt_asked();
}

static int transfer(struct cli *cli, struct store_move *o, struct redrive_err *err)
{
    struct bar bar = {.cli = cli};
    struct interrupt interrupt;
    const int64_t started_ms = clock_monotonic_ms();
    const struct copy_options options = {
        .from = o->from->store,
        .to = o->to->store,
        .name = buf_cstr(&o->from->name),
        .now_ms = clock_wall_ms(),
        .dry_run = o->options->dry_run,
        .despite_workers = o->options->force,
        .into_existing = o->options->into_existing,
        .progress = show,
        .ctx = &bar,
    };
    interrupt_catch(&interrupt);
    int rc = copy_run(&options, &o->report, err);
    interrupt_release(&interrupt);
    progress_clear(&bar.progress);
    o->took_ms = clock_monotonic_ms() - started_ms;
    return rc;
}

static int run_move(struct cli *cli, struct redrive_err *err)
{
    const struct move_options *options = invocation_options(&cli->invocation);
    if (!options->from || !options->to) {
        err_set(err, REDRIVE_E_USAGE, "%s is missing", options->from ? "--to" : "--from");
        err_hint(err, "redrive move --from sqlite:old.db --to sqlite:new.db");
        return REDRIVE_E_USAGE;
    }
    struct move_end from, to;
    struct store_move move = {.options = options, .from = &from, .to = &to};
    move_end_init(&from, options->from, "source");
    move_end_init(&to, options->to, "destination");
    int rc = move_ends_look(&from, &to, err);
    if (rc == 0)
        rc = move_ends_open(&from, &to, options->dry_run, options->force, err);
    if (rc == 0)
        rc = transfer(cli, &move, err);
    if (rc == 0)
        rc = print_move(cli, &move, err);
    move_end_release(&from);
    move_end_release(&to);
    return rc;
}

const struct command cmd_move = {
    .name = "move",
    .summary = "copy everything from one store into another, and check it",
    .description =
        "Copies every job with its history, dead letters, breakers, limits, pauses, definitions "
        "of tasks, the cron entries, counters and the keys that are unique for ever. The source is "
        "only read: remove it when the new store is in use.\n"
        "\n"
        "Stop every process that uses one of the two stores first: a worker that is alive is a "
        "reason to refuse. The copy goes in whole transactions, so that it may be interrupted "
        "in any way; the same command then goes on with the rest. What the destination has is "
        "never overwritten. At the end both stores are read again and compared, by counts and by "
        "a hash over everything; the exit code is 1 when they differ, and what differs first is "
        "named.",
    .options = OPTIONS,
    .options_size = sizeof(struct move_options),
    .examples =
        (const struct example[]){
            {"redrive move --from sqlite:old.db --to sqlite:new.db --dry-run", "what is there?"},
            {"redrive move --from sqlite:old.db --to sqlite:new.db", "copy and check"},
            {"redrive move --from sqlite:a.db --to sqlite:all.db --into-existing",
             "add to a store that has jobs already"},
            {0},
        },
    .run = run_move,
};
