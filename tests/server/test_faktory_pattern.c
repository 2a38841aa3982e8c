#include "check.h"

#include "base/json/json.h"
#include "base/rng.h"
#include "server/faktory/admin/admin.h"
#include "server/faktory/format/request.h"

static bool fits(const char *pattern, struct str text)
{
    struct faktory_pattern p;
    assert_true(faktory_pattern_init(&p, str_of(pattern)));
    return faktory_pattern_fits(&p, text);
}

TEST(a_pattern_fits_the_whole_text)
{
    assert_true(fits("a?c", STR("abc")));
    assert_true(fits("*", STR("")));
    assert_true(fits("", STR("")));
    assert_true(fits("a*b*c", STR("aXbYbZc")));
    assert_true(fits("*find me*", STR("{\"args\":[\"find me\"]}")));
    assert_true(fits("**a**", STR("bab")));
    assert_true(fits("*\xc3?", STR("z\xc3\xa4")));
    assert_false(fits("abc", STR("abcd")));
    assert_false(fits("bc", STR("abc")));
    assert_false(fits("a?c", STR("ac")));
    assert_false(fits("", STR("a")));
    assert_false(fits("a*b", STR("ac")));
    assert_false(fits("?", STR("")));
}

/* Short texts of few letters, so that many fit. */
static struct str draw(struct rng *rng, const char *letters, unsigned n_letters, size_t max,
                       char *out)
{
    const size_t len = rng_below(rng, max + 1);
    for (size_t i = 0; i < len; i++)
        out[i] = letters[rng_below(rng, n_letters)];
    out[len] = '\0';
    return (struct str){out, len};
}

TEST(it_agrees_with_the_plain_way)
{
    struct rng rng;
    char pattern[16], text[16];
    unsigned n_fit = 0;
    rng_seed(&rng, 7);
    for (int i = 0; i < 20000; i++) {
        (void)draw(&rng, "ab?*", 4, 10, pattern);
        const struct str s = draw(&rng, "ab", 2, 12, text);
        const bool expected = str_glob(pattern, s);
        if (fits(pattern, s) != expected)
            fail_msg("'%s' and '%s'", pattern, text);
        n_fit += expected;
    }
    assert_in_range(n_fit, 1000, 19000);
}

TEST(the_longest_pattern_uses_every_bit)
{
    char text[FAKTORY_PATTERN_MAX + 2];
    struct faktory_pattern p;
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 26);
    text[100] = '?';
    assert_true(faktory_pattern_init(&p, (struct str){text, FAKTORY_PATTERN_MAX}));
    text[100] = 'x';
    assert_true(faktory_pattern_fits(&p, (struct str){text, FAKTORY_PATTERN_MAX}));
    assert_false(faktory_pattern_fits(&p, (struct str){text, FAKTORY_PATTERN_MAX - 1}));
    assert_false(faktory_pattern_fits(&p, (struct str){text, FAKTORY_PATTERN_MAX + 1}));
    text[FAKTORY_PATTERN_MAX - 1] = '!';
    assert_false(faktory_pattern_fits(&p, (struct str){text, FAKTORY_PATTERN_MAX}));
}

TEST(a_longer_pattern_is_refused)
{
    char text[FAKTORY_PATTERN_MAX + 1] = {0};
    struct faktory_pattern p;
    memset(text, '*', sizeof text);
    assert_false(faktory_pattern_init(&p, (struct str){text, sizeof text}));
}

/* Leaves bytes on the stack that are no pointer. */
static void __attribute__((noinline)) spoil_the_stack(void)
{
    volatile char bytes[64 * 1024];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = 0x5a;
}

/* A payload may be as deep as JSON is read, and is deeper still within a job. */
TEST(what_is_too_deep_to_read_is_left_out)
{
    struct buf job, normal;
    buf_init(&job, 1024);
    buf_init(&normal, 1024);
    buf_puts(&job, "{\"jid\": \"a\", \"args\": ");
    for (size_t i = 0; i < JSON_MAX_DEPTH; i++)
        buf_putc(&job, '[');
    for (size_t i = 0; i < JSON_MAX_DEPTH; i++)
        buf_putc(&job, ']');
    buf_puts(&job, ", \"queue\": \"q\"}");
    spoil_the_stack();
    faktory_normalise(buf_str(&job), &normal);
    assert_string_equal(buf_cstr(&normal), "{\"jid\":\"a\"}");
    buf_release(&job);
    buf_release(&normal);
}
