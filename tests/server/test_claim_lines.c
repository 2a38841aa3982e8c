#include "check.h"

#include "server/claim_lines.h"

#define WIDTH 4

static struct claim_lines lines;
static struct claim_turn turns[8];
static struct claim_turn *stubborn; /* cannot ask */
static struct claim_turn *asked[32];
static size_t n_asked;

static bool ask(struct claim_turn *turn, void *ctx)
{
    assert_ptr_equal(ctx, &lines);
    if (turn == stubborn)
        return false;
    asked[n_asked++] = turn;
    return true;
}

static int setup(void **state)
{
    (void)state;
    memset(turns, 0, sizeof turns);
    stubborn = NULL;
    n_asked = 0;
    claim_lines_init(&lines, WIDTH, ask, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof turns / sizeof turns[0]; i++)
        (void)claim_lines_leave(&lines, &turns[i]);
    assert_int_equal(lines.lines.count, 0);
    claim_lines_release(&lines);
    return 0;
}

static void join(size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        assert_true(claim_lines_join(&lines, str_of(key), &turns[i]));
}

/* It was given jobs, and is answered. */
static void leave_with_jobs(struct claim_turn *turn)
{
    claim_turn_answered(&lines, turn, true);
    claim_line_ask(&lines, claim_lines_leave(&lines, turn), &lines);
}

#define FIXTURE_TEST(test) TEST_AROUND(test, setup, teardown)

FIXTURE_TEST(one_of_a_line_asks)
{
    join(5, "a");
    assert_true(claim_lines_join(&lines, STR("b"), &turns[5]));
    claim_lines_ready(&lines, &lines);
    assert_int_equal(n_asked, 2);
    assert_true(turns[0].asks && turns[5].asks);
    claim_lines_ready(&lines, &lines);
    assert_int_equal(n_asked, 2);
}

FIXTURE_TEST(twice_as_many_ask_when_there_was_something)
{
    join(8, "a");
    claim_lines_ready(&lines, &lines);
    leave_with_jobs(&turns[0]);
    assert_int_equal(n_asked, 3);
    leave_with_jobs(&turns[1]);
    assert_int_equal(n_asked, 6);
    leave_with_jobs(&turns[2]);
    assert_int_equal(n_asked, 7); /* of four at one time */
}

FIXTURE_TEST(a_line_that_found_nothing_sleeps_in_its_order)
{
    join(3, "a");
    claim_lines_ready(&lines, &lines);
    claim_turn_answered(&lines, &turns[0], false);
    claim_line_ask(&lines, turns[0].line, &lines);
    assert_int_equal(n_asked, 1);
    claim_lines_ready(&lines, &lines);
    assert_int_equal(n_asked, 2);
    assert_ptr_equal(asked[1], &turns[0]);
}

FIXTURE_TEST(jobs_that_come_while_one_asks_are_asked_for)
{
    join(2, "a");
    claim_lines_ready(&lines, &lines);
    claim_lines_ready(&lines, &lines);
    claim_turn_answered(&lines, &turns[0], false);
    claim_line_ask(&lines, turns[0].line, &lines);
    assert_int_equal(n_asked, 2);
}

/* They would ask for ever, each in the place that another one has just left. */
FIXTURE_TEST(those_that_find_nothing_do_not_take_turns)
{
    join(3, "a");
    claim_lines_ready(&lines, &lines);
    leave_with_jobs(&turns[0]);
    assert_int_equal(n_asked, 3);
    for (size_t i = 1; i < 3; i++) {
        claim_turn_answered(&lines, &turns[i], false);
        claim_line_ask(&lines, turns[i].line, &lines);
    }
    assert_int_equal(n_asked, 3);
    claim_lines_ready(&lines, &lines);
    assert_int_equal(n_asked, 4);
}

FIXTURE_TEST(jobs_that_come_while_several_ask_are_asked_for_once)
{
    join(3, "a");
    claim_lines_ready(&lines, &lines);
    leave_with_jobs(&turns[0]);
    claim_lines_ready(&lines, &lines);
    for (size_t i = 1; i < 3; i++) {
        claim_turn_answered(&lines, &turns[i], false);
        claim_line_ask(&lines, turns[i].line, &lines);
    }
    assert_int_equal(n_asked, 4);
}

FIXTURE_TEST(one_that_cannot_ask_is_passed_over)
{
    join(2, "a");
    stubborn = &turns[0];
    claim_lines_ready(&lines, &lines);
    assert_int_equal(n_asked, 1);
    assert_ptr_equal(asked[0], &turns[1]);
    assert_false(turns[0].asks);
}

FIXTURE_TEST(one_that_leaves_while_it_asks_leaves_room)
{
    join(2, "a");
    claim_lines_ready(&lines, &lines);
    claim_line_ask(&lines, claim_lines_leave(&lines, &turns[0]), &lines);
    assert_int_equal(n_asked, 2);
    assert_null(claim_lines_leave(&lines, &turns[0]));
    assert_null(claim_lines_leave(&lines, &turns[1]));
}

FIXTURE_TEST(the_order_of_queues_does_not_matter)
{
    struct str one[] = {STR("a"), STR("b"), STR("c")};
    struct str other[] = {STR("c"), STR("a"), STR("b"), STR("a")};
    struct str fewer[] = {STR("a"), STR("bc")};
    struct buf key, same;
    buf_init(&key, 100);
    buf_init(&same, 100);
    (void)claim_lines_key(&key, STR("t"), one, 3);
    assert_true(str_eq(claim_lines_key(&same, STR("t"), other, 4), buf_str(&key)));
    assert_false(str_eq(claim_lines_key(&same, STR("t"), fewer, 2), buf_str(&key)));
    assert_false(str_eq(claim_lines_key(&same, STR("u"), one, 3), buf_str(&key)));
    buf_release(&key);
    buf_release(&same);
}
