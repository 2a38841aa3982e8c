#include "base/text/str.h"

#include "check.h"

static const char *const WORDS[] = {"max_delay", "max_retries", "min_delay", "multiplier"};

static const char *nearest(const char *given)
{
    return suggest(str_of(given), WORDS, 4);
}

TEST(typos_find_their_word)
{
    assert_string_equal(nearest("max_dealy"), "max_delay");
    assert_string_equal(nearest("maxdelay"), "max_delay");
    assert_string_equal(nearest("max-retrys"), "max_retries");
    assert_string_equal(nearest("Multiplyer"), "multiplier");
}

TEST(other_words_find_nothing)
{
    assert_null(nearest("colour"));
    assert_null(nearest("x"));
    assert_null(suggest(STR("nope"), (const char *const[]){"joke"}, 1));
    assert_null(nearest(""));
    assert_null(
        nearest("a word that is far longer than any key could ever be, even a very long one"));
    assert_null(suggest(STR("max_delay"), NULL, 0));
}
