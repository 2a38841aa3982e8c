#include "check.h"

#include <ctype.h>

#include "sim/compare.h"

#define MAX_BYTES (1u << 20)

static void draw(const struct compare_options *options, struct buf *out)
{
    struct comparison comparison;
    assert_int_equal(compare_run(options, &comparison, NULL), 0);
    buf_init(out, MAX_BYTES);
    assert_int_equal(chart_svg(&comparison, out), 0);
    comparison_release(&comparison);
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word))
        n++;
    return n;
}

/* Every tag is closed, in order, and every quote within a tag. */
static void check_well_formed(const char *at)
{
    char open[8][16];
    size_t depth = 0;
    while ((at = strchr(at, '<'))) {
        char name[16] = "";
        bool closes = at[1] == '/';
        at += closes ? 2 : 1;
        for (size_t i = 0; i + 1 < sizeof name && isalpha((unsigned char)*at); i++)
            name[i] = *at++;
        bool quoted = false;
        for (; quoted || *at != '>'; at++) {
            assert_int_not_equal(*at, '\0');
            assert_int_not_equal(*at, '<');
            quoted ^= *at == '"';
        }
        if (closes) {
            assert_true(depth > 0);
            assert_string_equal(open[--depth], name);
        } else if (at[-1] != '/') {
            assert_true(depth < 8);
            memcpy(open[depth++], name, sizeof name);
        }
    }
    assert_int_equal(depth, 0);
}

static void check_numbers(const char *svg)
{
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
    assert_null(strstr(svg, "=\"-"));
}

TEST(every_strategy_has_its_line_and_its_legend)
{
    struct compare_options options;
    struct buf svg;
    compare_options_init(&options);
    draw(&options, &svg);
    check_well_formed(buf_cstr(&svg));
    check_numbers(buf_cstr(&svg));
    assert_int_equal(count(buf_cstr(&svg), "<polyline"), options.n_strategies);
    for (size_t i = 0; i < options.n_strategies; i++)
        assert_non_null(strstr(buf_cstr(&svg), options.strategies[i]->title));
    assert_non_null(strstr(buf_cstr(&svg), "time (s)"));
    assert_non_null(strstr(buf_cstr(&svg), "calls per second"));
    assert_non_null(strstr(buf_cstr(&svg), "the service is down"));
    buf_release(&svg);
}

TEST(the_same_seed_draws_the_same_bytes)
{
    struct compare_options options;
    struct buf a;
    struct buf b;
    struct buf other;
    compare_options_init(&options);
    options.outage_ms = 60 * 1000;
    draw(&options, &a);
    draw(&options, &b);
    options.seed++;
    draw(&options, &other);
    assert_true(str_eq(buf_str(&a), buf_str(&b)));
    assert_false(str_eq(buf_str(&a), buf_str(&other)));
    buf_release(&a);
    buf_release(&b);
    buf_release(&other);
}

/* The stroke of the line of one strategy, which must not depend on its company. */
TEST(a_strategy_looks_the_same_in_any_company)
{
    struct compare_options options;
    struct buf svg;
    compare_options_init(&options);
    options.outage_ms = 30 * 1000;
    options.strategies[0] = options.strategies[options.n_strategies - 1];
    options.n_strategies = 1;
    draw(&options, &svg);
    assert_non_null(strstr(buf_cstr(&svg), "<polyline fill=\"none\" stroke=\"#0072b2\""));
    buf_release(&svg);
}

TEST(without_an_outage_none_is_named)
{
    struct compare_options options;
    struct buf svg;
    compare_options_init(&options);
    options.outage_ms = 0;
    options.attempts = 1;
    draw(&options, &svg);
    assert_non_null(strstr(buf_cstr(&svg), "<title>Calls per second without an outage</title>"));
    assert_non_null(strstr(buf_cstr(&svg), "each has 1 attempt;"));
    /* 80 calls/s are above the picture. */
    assert_null(strstr(buf_cstr(&svg), "capacity of the service"));
    buf_release(&svg);
}

TEST(odd_runs_can_be_drawn_too)
{
    struct compare_options options;
    struct buf svg;
    compare_options_init(&options);
    options.outage_ms = 0;
    options.duration_ms = 1000;
    options.jobs_per_s = 0.1; /* no job at all */
    options.capacity_per_s = 0;
    draw(&options, &svg);
    check_well_formed(buf_cstr(&svg));
    check_numbers(buf_cstr(&svg));
    assert_null(strstr(buf_cstr(&svg), "the service is down"));
    buf_release(&svg);

    compare_options_init(&options);
    options.outage_ms = 3600 * 1000;
    options.jobs_per_s = 1;
    draw(&options, &svg);
    check_well_formed(buf_cstr(&svg));
    check_numbers(buf_cstr(&svg));
    assert_non_null(strstr(buf_cstr(&svg), "time (min)"));
    buf_release(&svg);
}
