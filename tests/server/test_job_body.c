#include "check.h"

#include "server/rest/body/job.h"

/* What a body may have is in the transcripts http-jobs*.md. */

#define NOW INT64_C(1767225600000) /* 2026-01-01T00:00:00Z */

TEST(an_array_has_a_limit)
{
    struct arena arena;
    struct job_body body;
    struct redrive_err err = {0};
    struct buf text;
    arena_init(&arena);
    buf_init(&text, 1u << 20);
    for (int i = 0; i <= JOB_BODY_MAX; i++)
        buf_puts(&text, i == 0 ? "[{\"task\":\"a\"}" : ",{\"task\":\"a\"}");
    buf_puts(&text, "]");
    assert_int_equal(
        job_body_read(buf_str(&text), STR("acme"), (struct str){0}, NOW, &arena, &body, &err),
        REDRIVE_E_RANGE);
    buf_release(&text);
    arena_release(&arena);
}

TEST_MAIN(argc, argv)
{
    return check_run(NULL, NULL);
}
