#include "core/classify/fingerprint.h"

#include "base/rng.h"
#include "check.h"

static void check_form(const char *message, const char *expected)
{
    char out[FINGERPRINT_FORM_MAX];
    struct str form = {out, fingerprint_form(str_of(message), out)};
    if (!str_is(form, expected))
        fail_msg("`%s` gave `%.*s`, not `%s`", message, (int)form.len, form.ptr, expected);
}

static uint64_t of(const char *message)
{
    return fingerprint(STR("OSError"), REDRIVE_CLASS_NETWORK, str_of(message));
}

TEST(the_examples_of_the_header_hold)
{
    check_form("connect to 10.0.0.7:5432 failed after 3 tries",
               "connect to # failed after # tries");
    check_form("no row 'a42' in table \"jobs\" (id 7, 8, 9)", "no row # in table # (id #)");
    check_form("can't open /srv/7/3f2a9c1b/data.json", "can't open /srv/#/data.json");
}

TEST(numbers_are_taken_out)
{
    check_form("job 4711 failed", "job # failed");
    check_form("took 1.5s", "took #s");
    check_form("1,234,567 rows", "# rows");
    check_form("worker12 and v2beta3", "worker# and v#beta#");
    check_form("2024-03-31T02:30:00Z late", "#T#Z late");
    check_form("rows 1, 2; 3 - 4", "rows #");
    check_form("issue #42", "issue #");
    check_form("/var/spool/7/8/job-9.json", "/var/spool/#/job-#.json");
    check_form("x=1 y=2", "x=# y=#");
    check_form("12", "#");
    check_form("plain words", "plain words");
}

TEST(hexadecimal_numbers_and_ids_are_taken_out)
{
    check_form("at 0x7ffe12ab in f", "at # in f");
    check_form("at 0XABC", "at #");
    check_form("0x is not one, 0xyz neither", "#x is not one, #xyz neither");
    check_form("commit a1b2c3 and DEAD00BEEF", "commit # and #");
    check_form("a1b2c", "a#b#c");
    check_form("the facade was defaced", "the facade was defaced");
    check_form("request 01HQZX3YV5K8M2N4P6R7S9T0WX", "request #");
    check_form("internationalization", "internationalization");
    check_form("id 123e4567-e89b-12d3-a456-426614174000.", "id #.");
    check_form("id abcdefab-abcd-abcd-abcd-abcdefabcdef", "id #");
    check_form("id abcdefab-abcd-abcd-abcd-abcdefabcdefx",
               "id abcdefab-abcd-abcd-abcd-abcdefabcdefx");
    check_form("id abcdefab-abcd-abcd-abcd", "id abcdefab-abcd-abcd-abcd");
}

TEST(addresses_are_taken_out)
{
    check_form("[fe80::1ff:fe23:4567:890a]:80 is down", "[#]:# is down");
    check_form("from ::1 to ::ffff:10.0.0.1", "from # to #");
    check_form("2001:db8:: unreachable", "# unreachable");
    check_form("mac 0a:bb:cc:dd:ee:ff.", "mac #.");
    check_form("main.c:10:20: error", "main.c:#: error");
    check_form("main.c:10: error", "main.c:#: error");
    check_form("12:30:45: late", "#: late");
    check_form("std::bad_alloc", "std::bad_alloc");
    check_form("abc::def", "abc::def");
    check_form("Foo::Bar::9x", "Foo::Bar::#x");
    check_form("10:20:12345 or so", "# or so");
    check_form("a: b", "a: b");
    check_form("::", "::");
    check_form("mail to jane.doe+7@example.org bounced", "mail to # bounced");
    check_form("mail to jane@ bounced", "mail to jane@ bounced");
    check_form("@home", "@home");
}

TEST(quoted_text_is_taken_out)
{
    check_form("key 'a b' not found", "key # not found");
    check_form("key \"it's\" not found", "key # not found");
    check_form("key `x` not found", "key # not found");
    check_form("keys 'a', 'b' and 'c'", "keys # and #");
    check_form("can't or won't", "can't or won't");
    check_form("don't use 'that' here", "don't use # here");
    check_form("an 'open end", "an 'open end");
    check_form("'it's' fine", "# fine");
    check_form("''", "#");
}

TEST(only_the_first_line_counts)
{
    assert_int_equal(of("timed out\n  at f (x.c:1)"), of("timed out\r\nat g"));
    assert_int_equal(of("\n  timed out \n"), of("timed out"));
    check_form("a \t\x01  b\x7F", "a b");
    check_form("\x01 a", "a");
    check_form("", "");
    check_form(NULL, "");
}

TEST(long_messages_are_cut)
{
    char a[2000], b[2000], out[FINGERPRINT_FORM_MAX];
    memset(a, 'x', sizeof a);
    memset(b, 'x', sizeof b);
    b[FINGERPRINT_FORM_MAX] = 'y';
    assert_int_equal(fingerprint_form((struct str){a, sizeof a}, out), FINGERPRINT_FORM_MAX);
    assert_int_equal(fingerprint(STR(""), 0, (struct str){a, sizeof a}),
                     fingerprint(STR(""), 0, (struct str){b, sizeof b}));
    b[FINGERPRINT_FORM_MAX - 1] = 'y';
    assert_int_not_equal(fingerprint(STR(""), 0, (struct str){a, sizeof a}),
                         fingerprint(STR(""), 0, (struct str){b, sizeof b}));
    /* Digits shrink to nothing: here the 512 bytes end before the 256. */
    memset(a, '7', FINGERPRINT_MESSAGE_MAX);
    assert_int_equal(fingerprint_form((struct str){a, sizeof a}, out), 1);
    memset(a, ' ', sizeof a);
    memset(a, 'x', FINGERPRINT_FORM_MAX - 1);
    a[FINGERPRINT_FORM_MAX] = 'x';
    assert_int_equal(fingerprint_form((struct str){a, sizeof a}, out), FINGERPRINT_FORM_MAX - 1);
}

TEST(type_and_class_tell_errors_apart)
{
    uint64_t one = fingerprint(STR("A"), REDRIVE_CLASS_NETWORK, STR("x"));
    assert_int_not_equal(one, fingerprint(STR("B"), REDRIVE_CLASS_NETWORK, STR("x")));
    assert_int_not_equal(one, fingerprint(STR("A"), REDRIVE_CLASS_SYSTEM, STR("x")));
    assert_int_not_equal(one, fingerprint(STR("A"), REDRIVE_CLASS_NETWORK, STR("y")));
    assert_int_not_equal(one, fingerprint(STR(""), REDRIVE_CLASS_NETWORK, STR("Ax")));
    assert_int_equal(fingerprint(STR("A"), (enum redrive_class)99, STR("x")),
                     fingerprint(STR("A"), REDRIVE_CLASS_COUNT, STR("x")));
    assert_int_equal(fingerprint(str_of(NULL), 0, str_of(NULL)), fingerprint(STR(""), 0, STR("")));
}

/* Stored numbers must be found again by every later version. */
TEST(fingerprints_never_change)
{
    assert_int_equal(of("connect to 10.0.0.7:5432 failed"), UINT64_C(0x842fa5cdd27abdee));
    assert_int_equal(fingerprint(STR("ValueError"), REDRIVE_CLASS_VALIDATION,
                                 STR("invalid literal for int(): 'abc'")),
                     UINT64_C(0xb590a5fd4da72dc5));
    assert_int_equal(fingerprint(STR(""), REDRIVE_CLASS_SUCCESS, STR("")),
                     UINT64_C(0xd402a4fc8ad14cc6));
}

/* Whatever the bytes: the form is short and holds neither digits nor control characters. */
TEST(any_bytes_have_a_form)
{
    static const char ALPHABET[] = "0123456789abcdefxyzXZ  ..::--''\"`@#/_\t\n\x80\xFF";
    struct rng rng;
    rng_seed(&rng, 6);
    for (int i = 0; i < 20000; i++) {
        size_t len = rng_below(&rng, 700);
        char *message = test_malloc(len + 1), once[FINGERPRINT_FORM_MAX];
        for (size_t j = 0; j < len; j++)
            message[j] =
                i % 2 ? ALPHABET[rng_below(&rng, sizeof ALPHABET)] : (char)rng_below(&rng, 256);
        size_t n = fingerprint_form((struct str){message, len}, once);
        assert_in_range(n, 0, FINGERPRINT_FORM_MAX);
        for (size_t j = 0; j < n; j++)
            assert_true((unsigned char)once[j] >= ' ' && !(once[j] >= '0' && once[j] <= '9'));
        test_free(message);
    }
}
