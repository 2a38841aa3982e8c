#include "fake.h"

#include <stdio.h>

#include "base/err.h"

static const char *const STRATEGIES[] = {"exponential", "linear", "fixed", NULL};

static const struct field GLOBALS[] = {
    {.name = "config",
     .letter = 'c',
     INTO_STRING(struct fake_globals, config),
     .placeholder = "FILE",
     .help = "read FILE"},
    {.name = "json", INTO_FLAG(struct fake_globals, json), .help = "print JSON"},
    {.name = "help", .letter = 'h', INTO_FLAG(struct fake_globals, help), .help = "show help"},
    {0},
};

static const struct field SIMULATE_OPTIONS[] = {
    {.name = "profile",
     .letter = 'p',
     INTO_STRING(struct fake_options, profile),
     .placeholder = "NAME",
     .help = "use the profile NAME"},
    {.name = "count",
     .letter = 'n',
     INTO_INT(struct fake_options, count),
     .min = 1,
     .max = 100,
     .placeholder = "N",
     .default_text = "10",
     .help = "how many"},
    {.name = "any", INTO_INT(struct fake_options, any), .help = "a number without bounds"},
    {.name = "rate",
     INTO_DOUBLE(struct fake_options, rate),
     .min_double = 0,
     .max_double = 1,
     .placeholder = "SHARE",
     .default_text = "0.5",
     .help = "share of calls that fail"},
    {.name = "delay",
     INTO_DURATION(struct fake_options, delay_ms),
     .min = 100,
     .max = 60000,
     .placeholder = "TIME",
     .default_text = "1s",
     .help = "how long to wait"},
    {.name = "strategy",
     INTO_CHOICE(struct fake_options, strategy),
     .words = STRATEGIES,
     .placeholder = "NAME",
     .default_text = "linear",
     .help = "how delays grow"},
    {.name = "mode",
     INTO_CHOICE(struct fake_options, mode),
     .words = STRATEGIES,
     .help = "a choice without a default"},
    {.name = "label",
     .letter = 'l',
     INTO_STRINGS(struct fake_options, labels),
     .placeholder = "WORD",
     .help = "mark the run with WORD"},
    {.name = "jitter",
     .letter = 'j',
     INTO_FLAG(struct fake_options, jitter),
     .negatable = true,
     .help = "spread the delays"},
    {.name = "verbose", .letter = 'v', INTO_FLAG(struct fake_options, verbose), .help = "say more"},
    {0},
};

static int run_nothing(struct cli *cli, struct redrive_err *err)
{
    (void)cli;
    (void)err;
    return 0;
}

static const struct command SIMULATE = {
    .name = "simulate",
    .summary = "run a task in virtual time",
    .arguments = "TASK [FILE...]",
    .options = SIMULATE_OPTIONS,
    .options_size = sizeof(struct fake_options),
    .examples = (const struct example[]){{"fake simulate t", "run t"}, {0}},
    .run = run_nothing,
};

static const struct command EXPLAIN = {
    .name = "explain",
    .summary = "explain a policy",
    .arguments = "TASK",
    .run = run_nothing,
};

static const struct command SHOW = {
    .name = "show",
    .summary = "show all policies",
    .run = run_nothing,
};

static const struct command POLICY = {
    .name = "policy",
    .summary = "look at policies",
    .commands = (const struct command *const[]){&EXPLAIN, &SHOW, NULL},
};

static const struct command GHOST = {
    .name = "ghost",
    .summary = "not listed",
    .hidden = true,
    .run = run_nothing,
};

const struct command FAKE_ROOT = {
    .name = "fake",
    .summary = "a program for tests",
    .options = GLOBALS,
    .options_size = sizeof(struct fake_globals),
    .commands = (const struct command *const[]){&SIMULATE, &POLICY, &GHOST, NULL},
};

/* ---- The source ------------------------------------------------------------------------------ */

char fake_source_log[256];

static const struct field FLAGS[] = {
    {.name = "retry-max-delay", .placeholder = "TIME", .help = "longest delay"},
    {.name = "retry-mode", .words = STRATEGIES, .help = "mode of the delays"},
    {.name = "queue-file", .placeholder = "FILE", .help = "where queues are"},
};

static bool fake_enumerate(void *ctx, size_t index, struct field *ret)
{
    (void)ctx;
    if (index >= sizeof FLAGS / sizeof FLAGS[0])
        return false;
    *ret = FLAGS[index];
    ret->kind = &OPTION_STRING;
    return true;
}

static bool fake_known(void *ctx, struct str name)
{
    (void)ctx;
    for (size_t i = 0; i < sizeof FLAGS / sizeof FLAGS[0]; i++)
        if (str_is(name, FLAGS[i].name))
            return true;
    return false;
}

static int fake_set(void *ctx, struct str name, const char *value, struct redrive_err *err)
{
    (void)ctx;
    if (strcmp(value, "wrong") == 0) {
        err_set(err, REDRIVE_E_CONFIG, "'%s' is no duration", value);
        err_detail(err, "retry.max_delay is one");
        err_hint(err, "write 30s");
        return REDRIVE_E_CONFIG;
    }
    size_t len = strlen(fake_source_log);
    snprintf(fake_source_log + len, sizeof fake_source_log - len, "%.*s=%s;", (int)name.len,
             name.ptr, value);
    return 0;
}

const struct option_source FAKE_SOURCE = {
    .known = fake_known,
    .set = fake_set,
    .enumerate = fake_enumerate,
};
