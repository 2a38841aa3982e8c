/* health.c - `redrive health`: one number for how well the work goes. */
#include "cli/commands/commands.h"

#include "base/err.h"
#include "base/json/writer.h"
#include "cli/frame/cli.h"
#include "cli/output/figures.h"
#include "cli/shared/session.h"
#include "engine/report/stats.h"

#define OUTPUT_MAX 65536

static void put_json(const struct redrive_health *health, const struct worker_page *workers,
                     struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    health_write_json(&w, health, workers);
    buf_putc(out, '\n');
}

static void put_text(const struct redrive_health *h, const struct worker_page *workers, bool color,
                     struct buf *out)
{
    style_add(out, color, figure_health_style(h->status), str_of(h->status));
    buf_printf(out, "\n  score          %.3f\n", h->health_score);
    if (workers->n == 0) {
        buf_puts(out, "  success rate   - (no workers)\n");
    } else {
        buf_printf(out, "  success rate   %.1f %% of about the last minute\n",
                   100 * h->success_rate);
        buf_printf(out, "  latency        %.2f of what is usual\n", h->latency_factor);
    }
    buf_printf(out, "  breakers open  %u of %u\n", h->breakers_open, h->breakers);
    buf_printf(out, "  workers        %zu\n", workers->n);
}

static int run_health(struct cli *cli, struct redrive_err *err)
{
    struct session session;
    struct redrive_health health = {.status = ""};
    struct worker_page workers = {0};
    int rc = session_open_existing(cli, &session, err);
    if (rc == 0)
        rc = stats_health(session.store, &session.config->health, engine_now_ms(session.engine),
                          &health, &workers, err);
    if (rc == 0) {
        struct buf out;
        buf_init(&out, OUTPUT_MAX);
        if (cli->globals->json)
            put_json(&health, &workers, &out);
        else
            put_text(&health, &workers, cli->out.color, &out);
        rc = cli_print(cli, &out, err);
    }
    if (rc == 0 && strcmp(health.status, "unhealthy") == 0) {
        rc = err_set(err, REDRIVE_E_STATE, "the queue is unhealthy");
        err_detail(err, "health_score is %.3f", health.health_score);
        err_hint(err, health.breakers_open ? "see which: redrive breakers list"
                                           : "see what fails: redrive stats");
    }
    worker_page_release(&workers);
    session_close(&session);
    return rc;
}

const struct command cmd_health = {
    .name = "health",
    .summary = "print how well the work goes",
    .description = "The health score is the success rate of about the last minute, times the share "
                   "of breakers that are not open, times how usual the run times are. The exit "
                   "code is 0 when healthy (from 0.8) or degraded (from 0.5), and 1 when "
                   "unhealthy; `health` in the configuration has the bounds. Without workers "
                   "and without breakers all is well.",
    .examples =
        (const struct example[]){
            {"redrive health", "for people"},
            {"redrive health --json", "for a monitoring system"},
            {0},
        },
    .run = run_health,
};
