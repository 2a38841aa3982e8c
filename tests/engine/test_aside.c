/* Operations that wait for locks: in which order they are tried, how often, and for how long. */
#include "engine/waits/aside.h"

#include "check.h"

#define N 6

struct field {
    struct aside aside;
    struct op ops[N];
};

static void set_up(struct field *f)
{
    *f = (struct field){0};
    aside_init(&f->aside);
    for (int i = 0; i < N; i++)
        list_init(&f->ops[i].link);
}

static size_t count(const struct list *list)
{
    size_t n = 0;
    for (const struct list *link = list->next; link != list; link = link->next)
        n++;
    return n;
}

static struct op *nth(struct list *list, size_t n)
{
    struct list *link = list->next;
    while (n-- > 0)
        link = link->next;
    return LIST_ENTRY(link, struct op, link);
}

TEST(one_after_the_other_is_tried_with_pauses)
{
    struct field f;
    set_up(&f);
    assert_int_equal(aside_in_ms(&f.aside, 0), INT64_MAX);
    for (int i = 0; i < 3; i++)
        aside_put(&f.aside, &f.ops[i], 1000);
    for (int i = 0; i < 6; i++) {
        const int64_t now_ms = 1000 + i * 100;
        struct op *op = aside_take(&f.aside, now_ms);
        assert_ptr_equal(op, &f.ops[i % 3]);
        aside_put(&f.aside, op, now_ms + 10);
        aside_rest(&f.aside, 10, now_ms + 10);
        assert_null(aside_take(&f.aside, now_ms + 99));
        assert_int_equal(aside_in_ms(&f.aside, now_ms + 10), 90);
    }
}

TEST(what_needs_the_same_lock_stands_behind_in_its_order)
{
    struct field f;
    struct list behind;
    set_up(&f);
    list_init(&behind);
    f.ops[0].lock = f.ops[2].lock = f.ops[3].lock = 7;
    f.ops[1].lock = 8;
    assert_false(aside_join(&f.aside, &f.ops[0], 0));
    aside_put(&f.aside, &f.ops[0], 1);
    assert_false(aside_join(&f.aside, &f.ops[1], 1));
    assert_false(aside_join(&f.aside, &f.ops[4], 1)); /* not known */
    assert_true(aside_join(&f.aside, &f.ops[2], 1));
    aside_put(&f.aside, &f.ops[3], 1);
    assert_int_equal(count(&f.aside.ops), 1);
    struct op *op = aside_take(&f.aside, 1);
    assert_ptr_equal(op, &f.ops[0]);
    assert_true(aside_is_empty(&f.aside));
    aside_let_go(op, &behind);
    assert_int_equal(count(&behind), 2);
    assert_ptr_equal(nth(&behind, 0), &f.ops[2]);
    assert_ptr_equal(nth(&behind, 1), &f.ops[3]);
}

TEST(each_has_a_time_of_its_own)
{
    struct field f;
    struct list over;
    set_up(&f);
    list_init(&over);
    for (int i = 0; i < 3; i++)
        f.ops[i].lock = 7;
    aside_put(&f.aside, &f.ops[0], 100);
    aside_put(&f.aside, &f.ops[1], 100);
    aside_put(&f.aside, &f.ops[2], 200);
    aside_put(&f.aside, &f.ops[3], 300);
    f.aside.next_ms = 1000000;
    assert_int_equal(aside_in_ms(&f.aside, 100), ASIDE_MAX_MS);
    aside_expire(&f.aside, 99 + ASIDE_MAX_MS, &over);
    assert_int_equal(count(&over), 0);
    aside_expire(&f.aside, 100 + ASIDE_MAX_MS, &over);
    assert_int_equal(count(&over), 2);
    assert_ptr_equal(nth(&over, 1), &f.ops[1]);
    assert_ptr_equal(nth(&f.aside.ops, 0), &f.ops[2]); /* in its place */
    assert_int_equal(count(&f.aside.ops), 2);
    aside_expire(&f.aside, INT64_MAX, &over);
    assert_int_equal(count(&over), 4);
    assert_true(aside_is_empty(&f.aside));
}

TEST(a_try_in_vain_does_not_begin_the_time_anew)
{
    struct field f;
    struct list over;
    set_up(&f);
    list_init(&over);
    aside_put(&f.aside, &f.ops[0], 100);
    f.ops[1].lock = f.ops[0].lock = 7;
    aside_put(&f.aside, &f.ops[1], 150);
    struct op *op = aside_take(&f.aside, 3000);
    aside_put(&f.aside, op, 3010);
    assert_int_equal(count(&op->behind), 1);
    aside_expire(&f.aside, 150 + ASIDE_MAX_MS, &over);
    assert_int_equal(count(&over), 2);
}

TEST(who_is_given_up_is_told_what_the_first_of_the_lock_was_told)
{
    struct field f;
    set_up(&f);
    f.ops[0].lock = f.ops[1].lock = 7;
    f.ops[0].err = (struct redrive_err){REDRIVE_E_CANCELLED, "in the way", "here", "wait"};
    aside_put(&f.aside, &f.ops[0], 100);
    assert_true(aside_join(&f.aside, &f.ops[1], 200));
    aside_give_up(&f.ops[1], 5200);
    assert_int_equal(f.ops[1].code, REDRIVE_E_IO);
    assert_int_equal(f.ops[1].err.code, REDRIVE_E_IO);
    assert_string_equal(f.ops[1].err.message, "in the way");
    assert_string_equal(f.ops[1].err.detail, "here; tried for 5000 ms; nothing was changed");
    assert_string_equal(f.ops[1].err.hint, "wait");
}
