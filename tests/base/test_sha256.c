#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/sha256.h"

static void check_hash(const void *bytes, size_t len, const char *expected)
{
    uint8_t out[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    sha256(bytes, len, out);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", out[i]);
    assert_string_equal(hex, expected);
}

/* The examples of FIPS 180-4. */
static void published_examples_match(void **state)
{
    (void)state;
    check_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_million_bytes_match(void **state)
{
    (void)state;
    char *bytes = malloc(1000000);
    assert_non_null(bytes);
    memset(bytes, 'a', 1000000);
    check_hash(bytes, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(bytes);
}

/* The length has room in the last block, or just not. */
static void every_way_to_end_matches(void **state)
{
    (void)state;
    static const char BYTES[64] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    check_hash(BYTES, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    check_hash(BYTES, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    check_hash(BYTES, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
}

static void a_difference_is_seen_wherever_it_is(void **state)
{
    (void)state;
    uint8_t a[SHA256_BYTES];
    uint8_t b[SHA256_BYTES];
    sha256("secret", 6, a);
    memcpy(b, a, sizeof b);
    assert_true(mem_equal_ct(a, b, sizeof a));
    assert_true(mem_equal_ct(a, "", 0));
    for (size_t i = 0; i < 8 * sizeof a; i++) {
        b[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_false(mem_equal_ct(a, b, sizeof a));
        b[i / 8] = a[i / 8];
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(published_examples_match),
        T(a_million_bytes_match),
        T(every_way_to_end_matches),
        T(a_difference_is_seen_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
