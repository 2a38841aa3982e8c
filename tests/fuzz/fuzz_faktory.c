/* Bytes are taken line by line to their end or to a line that is too long, whatever they are; a job
 * that is taken can be looked up among declared tasks and handed out again as JSON that a worker
 * can read; errors have a text. */
#include "fuzz.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/json/json.h"
#include "config/config.h"
#include "server/faktory/format/job.h"
#include "server/faktory/format/request.h"

#define LINE_MAX_BYTES 4096

/* A configuration with declared tasks, loaded once. */
static const struct config *declared_tasks(void)
{
    static const char TEXT[] = "tasks: {mail: {}, mailbox: {}, report: {}}\n";
    static struct config *config;
    if (config)
        return config;
    static struct config_report report;
    char path[64];
    int fd = memfd_create("config", 0);
    FUZZ_CHECK(fd >= 0 && write(fd, TEXT, sizeof TEXT - 1) == sizeof TEXT - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    const struct config_sources sources = {.path = path, .path_required = true};
    FUZZ_CHECK(config_load(&sources, &config, &report) == 0);
    close(fd);
    return config;
}

/* Any text may be looked up, also one that no check has let pass. */
static void check_looked_up(struct str type)
{
    const struct config_task *task = config_task(declared_tasks(), type);
    FUZZ_CHECK(!*task->name || str_is(type, task->name));
}

static void check_handed_out(const struct faktory_job *job, struct arena *arena)
{
    struct job claimed = {.status = {.attempts = 2, .created_ms = 1}};
    struct faktory_job again;
    struct buf out;
    faktory_job_spec(job, STR("t"), FAKTORY_POLICY_CLIENT, arena, &claimed.spec);
    claimed.status.error = (struct job_error){
        .class_ = REDRIVE_CLASS_TRANSIENT, .type = job->type, .message = job->text};
    buf_init(&out, 1 << 20);
    FUZZ_CHECK(faktory_job_write(&claimed, &out) == 0);
    FUZZ_CHECK(faktory_job_read(buf_str(&out), arena, &again, NULL) == 0);
    FUZZ_CHECK(str_eq(again.jid, job->jid) && str_eq(again.queue, job->queue));
    FUZZ_CHECK(again.at_ms == job->at_ms);
    int64_t lease_ms = faktory_job_lease_ms(&claimed);
    FUZZ_CHECK(lease_ms >= FAKTORY_RESERVE_MIN_MS && lease_ms <= FAKTORY_RESERVE_MAX_MS);
    buf_release(&out);
}

static void try_args(struct str args)
{
    struct arena arena;
    struct redrive_err err = {0};
    struct faktory_job job;
    struct faktory_hello hello;
    struct faktory_fail fail;
    struct faktory_beat beat;
    struct faktory_mutation mutation;
    struct str text;
    arena_init(&arena);
    int rc = faktory_job_read(args, &arena, &job, &err);
    check_looked_up(args);
    if (rc == 0) {
        check_looked_up(job.type);
        check_handed_out(&job, &arena);
    } else {
        FUZZ_CHECK(err.message[0] != '\0');
    }
    (void)faktory_hello_read(args, &arena, &hello, NULL);
    (void)faktory_ack_read(args, &arena, &text, NULL);
    if (faktory_fail_read(args, &arena, &fail, NULL) == 0)
        FUZZ_CHECK(fail.error_type[0] != '\0' && fail.message[0] != '\0');
    (void)faktory_beat_read(args, &arena, &beat, NULL);
    (void)faktory_mutation_read(args, &arena, &mutation, NULL);
    while (faktory_word_next(&args, &text))
        FUZZ_CHECK(text.len > 0);
    arena_release(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    struct faktory_line line;
    size_t scanned = 0, used = 0;
    int rc;
    while ((rc = faktory_line_next(rest, LINE_MAX_BYTES, &scanned, &line, &used)) > 0) {
        FUZZ_CHECK(used > 0 && used <= rest.len && scanned == 0);
        FUZZ_CHECK(line.verb.len + line.args.len < used);
        try_args(line.args);
        rest.ptr += used;
        rest.len -= used;
    }
    FUZZ_CHECK(rc < 0 || (scanned == rest.len && rest.len <= LINE_MAX_BYTES + 1));
    return 0;
}
