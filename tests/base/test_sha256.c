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

static void check_hmac(struct str key, struct str data, const char *expected)
{
    uint8_t out[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    const struct str parts[] = {{data.ptr, 3}, {data.ptr + 3, data.len - 3}};
    hmac_sha256(key, parts, 2, out);
    for (size_t i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", out[i]);
    assert_string_equal(hex, expected);
}

/* The examples of FIPS 180-4. */
TEST(published_examples_match)
{
    check_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(a_million_bytes_match)
{
    char *bytes = malloc(1000000);
    assert_non_null(bytes);
    memset(bytes, 'a', 1000000);
    check_hash(bytes, 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(bytes);
}

/* The length has room in the last block, or just not. */
TEST(every_way_to_end_matches)
{
    static const char BYTES[64] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    check_hash(BYTES, 55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
    check_hash(BYTES, 56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a");
    check_hash(BYTES, 63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
}

/* Cases 1, 2, 3 and 6 of RFC 4231. */
TEST(published_signatures_match)
{
    char key[131], data[50];
    memset(data, 0xdd, sizeof data);
    memset(key, 0x0b, 20);
    check_hmac((struct str){key, 20}, STR("Hi There"),
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac(STR("Jefe"), STR("what do ya want for nothing?"),
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    check_hmac((struct str){key, 20}, (struct str){data, sizeof data},
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    check_hmac((struct str){key, sizeof key},
               STR("Test Using Larger Than Block-Size Key - Hash Key First"),
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* However the bytes are cut. */
TEST(pieces_give_the_hash_of_the_whole)
{
    uint8_t bytes[300], whole[SHA256_BYTES], pieces[SHA256_BYTES];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7);
    sha256(bytes, sizeof bytes, whole);
    for (size_t step = 1; step <= 130; step++) {
        struct sha256 s;
        sha256_init(&s);
        for (size_t at = 0; at < sizeof bytes; at += step)
            sha256_add(&s, bytes + at, at + step < sizeof bytes ? step : sizeof bytes - at);
        sha256_end(&s, pieces);
        assert_memory_equal(pieces, whole, sizeof whole);
    }
}

TEST(a_difference_is_seen_wherever_it_is)
{
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
