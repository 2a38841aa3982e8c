/* A page of rows of which some cannot be read, as the SQL stores make it. */
#include "check.h"
#include "store/page.h"

#define ROWS_MAX 12

static bool is_bad[ROWS_MAX];
static size_t n_rows;
static int n_calls;

/* As a statement with LIMIT one more than the limit, of rows 1, 2, 3 and so on. SQLite looks at
 * each row that it is given, and PostgreSQL at as many as the limit. */
static bool looks_at_all;

static int list(struct store *store, const struct job_filter *filter, struct job_page *ret,
                struct redrive_err *err)
{
    const size_t n_given = n_rows < filter->limit + 1 ? n_rows : filter->limit + 1;
    const size_t n_seen = looks_at_all || n_given <= filter->limit ? n_given : filter->limit;
    (void)store;
    (void)err;
    n_calls++;
    *ret = (struct job_page){.more = n_seen < n_given};
    ret->jobs = arena_array(&ret->arena, ROWS_MAX, sizeof *ret->jobs);
    assert_non_null(ret->jobs);
    for (size_t i = 0; i < n_seen; i++) {
        if (is_bad[i])
            ret->n_unreadable++;
        else if (ret->n == filter->limit)
            ret->more = true;
        else
            ret->jobs[ret->n++].status.seq = (int64_t)i + 1;
    }
    return 0;
}

/* The rows that can be read, up to the limit, and whether there are more of them. */
static void check_page(size_t limit)
{
    const struct job_filter filter = {.limit = limit};
    struct job_page page = {0};
    size_t n = 0, n_good = 0;
    n_calls = 0;
    assert_int_equal(job_page_list(NULL, &filter, list, &page, NULL), 0);
    for (size_t i = 0; i < n_rows; i++) {
        n_good += !is_bad[i];
        if (!is_bad[i] && n < limit)
            assert_int_equal(page.jobs[n++].status.seq, (int64_t)i + 1);
    }
    assert_int_equal(page.n, n);
    if (n_good > limit)
        assert_true(page.more);
    if (page.more) /* perhaps only rows that cannot be read */
        assert_true(n == limit && n_rows > limit);
    assert_in_range(n_calls, 1, ROWS_MAX);
    job_page_release(&page);
}

static void check_all(void)
{
    for (n_rows = 0; n_rows <= 9; n_rows++)
        for (unsigned bad = 0; bad < 1u << n_rows; bad++)
            for (size_t limit = 1; limit <= 6; limit++) {
                for (size_t i = 0; i < n_rows; i++)
                    is_bad[i] = (bad >> i & 1) != 0;
                check_page(limit);
            }
}

TEST(rows_that_cannot_be_read_end_no_page_early)
{
    looks_at_all = true;
    check_all();
    looks_at_all = false;
    check_all();
}
