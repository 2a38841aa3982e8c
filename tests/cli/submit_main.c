/* submit_main.c - puts jobs into a store for the black-box tests of workers:
 *
 *     submit CONFIG STORE TASK PAYLOAD COUNT DELAY_MS
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/time/clock.h"
#include "engine/engine.h"
#include "engine/verbs/submit.h"

static int fail(const char *what)
{
    fprintf(stderr, "submit: %s\n", what);
    return 1;
}

static int submit(struct engine *engine, const struct job_spec *spec)
{
    struct submit_op op;
    struct redrive_err err = {0};
    if (submit_op_init(&op, engine, spec, 1, &err) < 0 ||
        engine_apply_one(engine, &op.op, &err) < 0)
        return fail(err.message);
    int code = op.answers[0].code;
    if (code < 0)
        (void)fail(op.answers[0].err->message);
    submit_op_release(&op);
    return code < 0;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        return fail("wrong usage");
    const struct config_sources sources = {.path = argv[1], .path_required = true};
    const struct store_options store_options = {.create = true};
    struct config *config;
    struct config_report report;
    struct redrive_err err = {0};
    if (config_load(&sources, &config, &report) < 0)
        return fail(report.errors[0].message);
    struct engine_options options = {.config = config};
    struct engine *engine;
    if (store_open(argv[2], &store_options, &options.store, &err) < 0 ||
        engine_open(&options, &engine, &err) < 0)
        return fail(err.message);
    const long delay_ms = strtol(argv[6], NULL, 10);
    const struct job_spec spec = {
        .task = str_of(argv[3]),
        .payload = str_of(argv[4]),
        .process_after_ms = delay_ms ? clock_wall_ms() + delay_ms : 0,
    };
    int rc = 0;
    for (long i = strtol(argv[5], NULL, 10); i > 0 && rc == 0; i--)
        rc = submit(engine, &spec);
    engine_close(engine);
    config_free(config);
    return rc;
}
