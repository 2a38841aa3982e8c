/* fake.h - a small program for tests: one option of every type, commands on three levels, and a
 * source of options that remembers what it was given. */
#ifndef TESTS_CLI_FAKE_H
#define TESTS_CLI_FAKE_H

#include "cli/frame/command.h"

struct fake_globals {
    const char *config;
    bool json;
    bool help;
};

struct fake_options {
    const char *profile;
    int64_t count;
    int64_t any;
    double rate;
    int64_t delay_ms;
    int strategy;
    int mode;
    struct option_strings labels;
    bool jitter;
    bool verbose;
};

/* fake [-c FILE] [--json] [-h]
 *   simulate TASK [FILE...]   every option above
 *   policy explain TASK
 *   policy show
 *   ghost                     hidden */
extern const struct command FAKE_ROOT;

/* Knows retry-max-delay (any value but "wrong"), retry-mode (a choice) and queue-file. */
extern const struct option_source FAKE_SOURCE;
extern char fake_source_log[256]; /* "name=value;" for each one set */

#endif
