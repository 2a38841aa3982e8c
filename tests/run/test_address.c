#include "check.h"

#include <arpa/inet.h>

#include "run/http/url.h"

static bool is_public(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return address_is_public((struct sockaddr *)&in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return address_is_public((struct sockaddr *)&in6);
}

TEST(hosts_of_the_internet_are_public)
{
    static const char *const addresses[] = {
        "1.1.1.1",     "9.255.255.255", "11.0.0.0",     "100.63.255.255",  "100.128.0.0",
        "126.0.0.1",   "128.0.0.1",     "169.253.0.1",  "172.15.255.255",  "172.32.0.0",
        "192.167.0.1", "198.17.0.1",    "198.20.0.0",   "223.255.255.255", "2606:4700::1111",
        "2a00::1",     "3ffe::1",       "2001:4860::1", "::ffff:8.8.8.8",
    };
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        if (!is_public(addresses[i]))
            fail_msg("%s", addresses[i]);
}

TEST(everything_else_is_not)
{
    static const char *const addresses[] = {
        "0.0.0.0",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.255",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a00:1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "ff02::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff:fff::1",
        "4000::1",
    };
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++)
        if (is_public(addresses[i]))
            fail_msg("%s", addresses[i]);
    struct sockaddr local = {.sa_family = AF_UNIX};
    assert_false(address_is_public(&local));
}
