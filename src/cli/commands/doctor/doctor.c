/* doctor.c - `redrive doctor`: is everything in order? */
#include "cli/commands/commands.h"

#include <stdlib.h>

#include "base/err.h"
#include "cli/commands/doctor/private.h"
#include "cli/output/table.h"
#include "cli/output/term.h"
#include "cli/shared/session.h"

#define OUTPUT_MAX (256u * 1024)

static const struct {
    const char *word;
    enum style style;
} LEVELS[] = {
    [DOCTOR_OK] = {"ok", STYLE_GREEN},
    [DOCTOR_WARN] = {"warn", STYLE_YELLOW},
    [DOCTOR_FAIL] = {"fail", STYLE_RED},
};

/* ---- Findings -------------------------------------------------------------------------------- */

static void check_config(struct doctor *d)
{
    struct redrive_err err = {0};
    if (load_config(d->cli, &d->config, &err) < 0) {
        doctor_blame(d, "configuration", &err);
        return;
    }
    const char *path = d->config->path ? d->config->path : "defaults, no file";
    if (d->config->n_warnings == 0) {
        doctor_say(d, DOCTOR_OK, "configuration", "%s; tasks: %zu", path, d->config->n_tasks);
    } else {
        doctor_say(d, DOCTOR_WARN, "configuration", "%s; warnings: %zu, the first: %s", path,
                   d->config->n_warnings, d->config->warnings[0].message);
        doctor_hint(d, "`redrive config check` shows all of them");
    }
}

/* ---- Output ---------------------------------------------------------------------------------- */

static size_t count(const struct doctor *d, enum health_level level)
{
    size_t n = 0;
    for (size_t i = 0; i < d->n; i++)
        n += d->findings[i].level == level;
    return n;
}

static void put_repair(const struct doctor *d, struct json_writer *w)
{
    json_field_int(w, "set_aside", (int64_t)d->repaired.jobs);
    json_field_int(w, "entries", (int64_t)d->repaired.entries);
    json_field_int(w, "counts", (int64_t)d->repaired.counts);
    json_field_cstr(w, "file", d->aside);
}

static void put_json(const struct doctor *d, struct buf *out)
{
    struct json_writer w;
    listing_begin(&w, out);
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->findings[i];
        json_begin_object(&w);
        json_field_cstr(&w, "check", f->check);
        json_field_cstr(&w, "status", LEVELS[f->level].word);
        json_field_cstr(&w, "text", f->text);
        json_field_cstr(&w, "hint", f->hint[0] ? f->hint : NULL);
        if (i + 1 == d->repair_finding)
            put_repair(d, &w);
        json_end_object(&w);
    }
    listing_end(&w, NULL);
}

static void put_text(const struct doctor *d, bool color, struct buf *out)
{
    for (size_t i = 0; i < d->n; i++) {
        const struct finding *f = &d->findings[i];
        const char *word = LEVELS[f->level].word;
        style_add(out, color, LEVELS[f->level].style, str_of(word));
        buf_printf(out, "%*s%-14s ", (int)(6 - strlen(word)), "", f->check);
        text_add_clean(out, str_of(f->text));
        buf_putc(out, '\n');
        if (f->hint[0]) {
            buf_puts(out, "      hint: ");
            text_add_clean(out, str_of(f->hint));
            buf_putc(out, '\n');
        }
    }
}

static int print_findings(const struct doctor *d, struct redrive_err *err)
{
    struct buf out;
    buf_init(&out, OUTPUT_MAX);
    if (d->cli->globals->json)
        put_json(d, &out);
    else
        put_text(d, d->cli->out.color, &out);
    int rc = cli_print(d->cli, &out, err);
    size_t failed = count(d, DOCTOR_FAIL);
    if (rc == 0 && failed > 0)
        rc = err_set(err, REDRIVE_E_STATE, "%zu check%s failed", failed, failed == 1 ? "" : "s");
    return rc;
}

struct doctor_options {
    bool repair;
    const char *aside;
};

static const struct field DOCTOR_OPTIONS[] = {
    OPTION("repair", 0, NULL,
           "first set jobs aside that cannot be read, and put right what still names them",
           INTO_FLAG(struct doctor_options, repair)),
    OPTION("aside", 0, "FILE", "add what is left of them to this file, a line of JSON for each job",
           INTO_STRING(struct doctor_options, aside), .default_text = "redrive-damaged.jsonl",
           .needs = "repair"),
    {0},
};

static int run_doctor(struct cli *cli, struct redrive_err *err)
{
    struct doctor *d = calloc(1, sizeof *d);
    if (!d)
        return err_nomem(err);
    d->cli = cli;
    check_config(d);
    const struct doctor_options *options = invocation_options(&cli->invocation);
    if (d->config && options->repair)
        doctor_repair(d, options->aside);
    if (d->config) {
        doctor_check_store(d);
        doctor_check_disk(d);
        doctor_check_jobs(d);
        doctor_check_programs(d);
        doctor_check_tls(d);
        doctor_check_secrets(d);
    }
    doctor_check_limits(d);
    doctor_check_zones(d);
    int rc = print_findings(d, err);
    store_close(d->store);
    config_free(d->config);
    free(d);
    return rc;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .summary = "look whether configuration, store and machine are in order",
    .description =
        "One line for each check: ok, warn or fail, with a hint where there is something to do. "
        "The exit code is 1 when a check fails. Looked at are the configuration, the schema of the "
        "store and whether it is whole, what would survive a crash, how long its disk takes to "
        "make a write durable, free space, which users can read the file and other files with "
        "secrets, the length of its log, programs of tasks, open files, time zones, running jobs "
        "whose lease has ended, queued jobs of undeclared tasks, and the clock. Nothing in the "
        "store is changed, whichever version it has, unless --repair is given. A store that is not "
        "set up yet is a warning, and stays as it is.\n"
        "\n"
        "With --repair jobs that cannot be read, because their rows are damaged, are set aside "
        "first: what is left of each is added to a file, and is durable there before the job is "
        "removed. Then indexes, unique keys and counts are made to agree with the jobs that are "
        "there. Processes that use the store go on. After an interruption run it again.",
    .examples = EXAMPLES(
        {"redrive doctor", "before it matters"},
        {"redrive doctor --json", "for a monitoring system"},
        {"redrive doctor --repair --aside damaged.jsonl", "take jobs out that cannot be read"}),
    OPTIONS_INTO(DOCTOR_OPTIONS, struct doctor_options),
    .run = run_doctor,
    .settings = SETTINGS_ALL,
};
