/* How many connections each address has. */
#include "check.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "server/listen/endpoint.h"

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_storage storage = {0};
    struct sockaddr_in *v4 = (void *)&storage;
    struct sockaddr_in6 *v6 = (void *)&storage;
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1)
        storage.ss_family = AF_INET;
    else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1)
        storage.ss_family = AF_INET6;
    return storage;
}

static void enter(struct address_counts *counts, const char *text)
{
    const struct sockaddr_storage address = address_of(text);
    address_counts_enter(counts, (const void *)&address);
}

static void leave(struct address_counts *counts, const char *text)
{
    const struct sockaddr_storage address = address_of(text);
    address_counts_leave(counts, (const void *)&address);
}

static bool is_full(const struct address_counts *counts, const char *text)
{
    const struct sockaddr_storage address = address_of(text);
    return address_counts_full(counts, (const void *)&address);
}

TEST(each_address_has_its_own_limit)
{
    struct address_counts counts;
    address_counts_init(&counts, 2);
    assert_false(is_full(&counts, "10.0.0.1"));
    enter(&counts, "10.0.0.1");
    enter(&counts, "::ffff:10.0.0.1"); /* the same, on a socket for both */
    assert_true(is_full(&counts, "10.0.0.1"));
    assert_false(is_full(&counts, "10.0.0.2"));
    leave(&counts, "10.0.0.1");
    assert_false(is_full(&counts, "10.0.0.1"));
    leave(&counts, "10.0.0.1");
    leave(&counts, "10.0.0.1"); /* one too many does no harm */
    assert_int_equal(counts.counts.count, 0);
    address_counts_release(&counts);
}

TEST(half_of_an_ipv6_address_counts)
{
    struct address_counts counts;
    address_counts_init(&counts, 2);
    enter(&counts, "2001:db8:0:1::1");
    enter(&counts, "2001:db8:0:1:ffff::2");
    assert_true(is_full(&counts, "2001:db8:0:1::3"));
    assert_false(is_full(&counts, "2001:db8:0:2::1"));
    address_counts_release(&counts);
}

TEST(what_has_no_address_is_not_counted)
{
    struct address_counts counts;
    const struct sockaddr unix_address = {.sa_family = AF_UNIX};
    char text[ADDRESS_TEXT_MAX];
    address_counts_init(&counts, 1);
    for (int i = 0; i < 3; i++)
        address_counts_enter(&counts, &unix_address);
    assert_false(address_counts_full(&counts, &unix_address));
    assert_false(address_counts_full(&counts, NULL));
    assert_false(address_same(&unix_address, &unix_address));
    assert_string_equal(address_text(&unix_address, text), "unix");
    address_counts_release(&counts);
}

TEST(by_default_a_quarter_is_left_to_others)
{
    assert_int_equal(address_counts_default(1), 1);
    assert_int_equal(address_counts_default(4), 3);
    assert_int_equal(address_counts_default(10000), 7500);
}
