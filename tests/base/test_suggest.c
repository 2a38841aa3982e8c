#include "base/text/str.h"

#include "check.h"

static const char *const WORDS[] = {"max_delay", "max_retries", "min_delay", "multiplier"};

static const char *meant(const char *given)
{
    return suggest(str_of(given), WORDS, 4);
}

TEST(typos_find_their_word)
{
    assert_string_equal(meant("max_dealy"), "max_delay");
    assert_string_equal(meant("maxdelay"), "max_delay");
    assert_string_equal(meant("max-retrys"), "max_retries");
    assert_string_equal(meant("Multiplyer"), "multiplier");
}

TEST(other_words_find_nothing)
{
    assert_null(meant("colour"));
    assert_null(meant("x"));
    assert_null(suggest(STR("nope"), (const char *const[]){"joke"}, 1));
    assert_null(meant(""));
    assert_null(
        meant("a word that is far longer than any key could ever be, even a very long one"));
    assert_null(suggest(STR("max_delay"), NULL, 0));
}

TEST(the_only_word_with_this_beginning_is_meant)
{
    assert_string_equal(meant("mu"), "multiplier");
    assert_string_equal(meant("max_r"), "max_retries");
    assert_null(meant("max")); /* of two words */
}

TEST(a_beginning_is_not_a_misspelling)
{
    assert_null(nearest(STR("mu"), WORDS, 4));
    assert_string_equal(nearest(STR("max_dealy"), WORDS, 4), "max_delay");
}
