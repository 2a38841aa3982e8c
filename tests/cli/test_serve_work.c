/* When a reload replaces the pool. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands/serve/private.h"

#define TASK "tasks: {mail: {run: {exec: ['true']}"

static struct config *load(const char *yaml)
{
    char path[] = "/tmp/redrive-work-XXXXXX";
    struct config *config = NULL;
    struct config_report report;
    const struct config_sources sources = {.path = path, .path_required = true};
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, yaml, strlen(yaml)), strlen(yaml));
    close(fd);
    if (config_load(&sources, &config, &report) < 0)
        fail_msg("%s: %s", report.errors[0].message, report.errors[0].detail);
    (void)unlink(path);
    return config;
}

static bool same_work(const char *yaml, const char *other)
{
    struct config *a = load(yaml), *b = load(other);
    const bool same = serve_same_work(a, b);
    assert_int_equal(serve_same_work(b, a), same);
    config_free(a);
    config_free(b);
    return same;
}

TEST(what_a_pool_does_not_look_at_leaves_it)
{
    assert_true(same_work(TASK "}}", TASK "}}"));
    assert_true(same_work(TASK "}}", TASK ", retry: {max_attempts: 3}}}"));
    assert_true(same_work(TASK "}}", TASK "}}\nalerts: [{when: 'dead_letters > 1'}]"));
}

TEST(another_way_to_run_replaces_the_pool)
{
    assert_false(same_work(TASK "}}", "tasks: {mail: {run: {exec: ['false']}}}"));
    assert_false(same_work(TASK "}}", TASK ", lease: 7s}}"));
    assert_false(same_work(TASK "}}", "tasks: {mail: {}}"));
}

/* Whether jobs are claimed ahead is decided when a pool starts. */
TEST(a_rule_that_forbids_to_claim_ahead_replaces_the_pool)
{
    assert_false(same_work(TASK "}}", TASK ", limits: {concurrency: 1}}}"));
    assert_false(same_work(TASK "}}", TASK ", retry: {max_attempts: 1}}}"));
    assert_true(
        same_work(TASK ", limits: {concurrency: 1}}}", TASK ", limits: {concurrency: 2}}}"));
}
