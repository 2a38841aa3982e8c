/* A command line, a word in each line: it is read, or refused with a message of one line. */
#include "fuzz.h"

#include <string.h>

#include "cli/commands/commands.h"
#include "cli/frame/options.h"

#define MAX_WORDS 64

static const struct command *const COMMANDS[] = {
    &cmd_enqueue, &cmd_work,  &cmd_serve,  &cmd_batch,    &cmd_jobs,   &cmd_dlq,
    &cmd_queues,  &cmd_cron,  &cmd_policy, &cmd_simulate, &cmd_config, &cmd_breakers,
    &cmd_move,    &cmd_stats, &cmd_backup, &cmd_export,   &cmd_import, NULL,
};

static const struct command ROOT = {.name = "redrive", .commands = COMMANDS};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *words[MAX_WORDS];
    size_t n = 0;
    struct invocation line = {0};
    struct redrive_err err = {0};
    char *text = malloc(size + 1), *at = text;
    FUZZ_CHECK(text);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    for (char *word; n < MAX_WORDS && (word = strsep(&at, "\n"));)
        words[n++] = word;
    int rc = invocation_parse(&line, &ROOT, NULL, words, n, &err);
    if (rc == 0)
        rc = invocation_check(&line, &err);
    FUZZ_CHECK(rc <= 0);
    if (rc < 0) {
        FUZZ_CHECK(err.code == rc && err.message[0] != '\0');
        FUZZ_CHECK(!strchr(err.message, '\n') && !strchr(err.detail, '\n'));
    }
    invocation_release(&line);
    free(text);
    return 0;
}
