#include "check.h"

#include "base/text/url_mask.h"

static void check_shown(void (*mask)(struct buf *, struct str), const char *url, const char *shown)
{
    struct buf out;
    buf_init(&out, 1024);
    mask(&out, str_of(url));
    assert_string_equal(buf_cstr(&out), shown);
    buf_release(&out);
}

TEST(passwords_are_hidden)
{
    check_shown(url_mask, "rediss://ann:s3cret@r/1?prefix=a&sslkey=/k.pem&server_name=r&sentinel=b",
                "rediss://ann:***@r/1?prefix=a&sslkey=/k.pem&server_name=r&sentinel=b");
    check_shown(url_mask, "postgres://ann:s3cret@db:5432/jobs", "postgres://ann:***@db:5432/jobs");
    check_shown(url_mask, "redis://:s3cret@cache/1", "redis://:***@cache/1");
    check_shown(url_mask, "postgres://db/jobs?password=s3cret", "postgres://db/jobs?password=***");
    check_shown(url_mask, "postgres://ann:@db", "postgres://ann:***@db");
}

TEST(settings_are_shown_if_they_are_harmless)
{
    check_shown(url_mask, "redis://:s3cret@cache/1?prefix=team-a",
                "redis://:***@cache/1?prefix=team-a");
    check_shown(url_mask, "postgres://db/jobs?sslmode=require&sslpassword=s3cret&passfile=/a/b",
                "postgres://db/jobs?sslmode=require&sslpassword=***&passfile=/a/b");
    check_shown(url_mask, "postgres://db/jobs?options=s3cret&new_one=s3cret",
                "postgres://db/jobs?options=***&new_one=***");
    check_shown(url_mask, "postgres://db/jobs?pass%77ord=s3cret", "postgres://db/jobs?***");
    check_shown(url_mask, "postgres://db/jobs?PASSWORD=s3cret", "postgres://db/jobs?***");
    check_shown(url_mask, "postgres://db/jobs?s3cret", "postgres://db/jobs?***");
    check_shown(url_mask, "postgres://db/jobs?s3cret=", "postgres://db/jobs?***");
    check_shown(url_mask, "postgres://db/jobs?", "postgres://db/jobs?***");
    check_shown(url_mask, "postgres://db/jobs?sslmode=a&&=s3cret",
                "postgres://db/jobs?sslmode=a&***&***");
    check_shown(url_mask, "postgres://db/jobs#s3cret?prefix=a", "postgres://db/jobs?***");
    check_shown(url_mask, "redis://db?prefix=a#s3cret", "redis://db?prefix=***");
    check_shown(url_mask, "redis://:s3cret?prefix=s3cret@db", "redis://***");
}

TEST(queries_of_the_web_are_hidden)
{
    check_shown(url_mask, "https://api/?prefix=s3cret", "https://api/?***");
}

TEST(what_has_no_secret_is_shown)
{
    check_shown(url_mask, "postgres://ann@db/jobs", "postgres://ann@db/jobs");
    check_shown(url_mask, "redis://cache", "redis://cache");
    check_shown(url_mask, "sqlite:/var/lib/a@b:c?.db", "sqlite:/var/lib/a@b:c?.db");
    check_shown(url_mask, "memory:", "memory:");
    check_shown(url_mask, "memory", "memory");
    check_shown(url_mask, "", "");
}

/* Signs that should have been escaped, and that clients of databases let pass. */
TEST(a_password_with_loose_signs_is_hidden)
{
    check_shown(url_mask, "postgres://ann:s3/cret@db/jobs", "postgres://ann:***@db/jobs");
    check_shown(url_mask, "postgres://ann:s3?cret@db/jobs", "postgres://***");
    check_shown(url_mask, "postgres://ann:s3#cret@db/jobs", "postgres://ann:***@db/jobs");
    check_shown(url_mask, "postgres://ann:s3@cret@db/jobs", "postgres://ann:***@db/jobs");
    check_shown(url_mask, "postgres://ann:s3:cret@db/jobs", "postgres://ann:***@db/jobs");
    check_shown(url_mask, "postgres://ann:s3cret@db/jobs?a=b@c",
                "postgres://ann:***@db/jobs?a=***");
}

TEST(an_at_sign_in_a_query_hides_all_where_there_is_no_login)
{
    check_shown(url_mask, "postgres://h/db?user=u&password=s3@cret", "postgres://***");
    check_shown(url_mask, "postgres://h:5432/db?password=s3@cret", "postgres://***");
    check_shown(url_mask, "postgres://h?password=s3@cret", "postgres://***");
    check_shown(url_mask, "postgres:///db?host=/run&user=u&password=s3@cret", "postgres://***");
    check_shown(url_mask, "postgres://?password=s3@cret", "postgres://***");
    check_shown(url_mask, "postgres://h/db?password=s3:c@ret", "postgres://***");
    check_shown(url_mask, "postgres://h/db?password=s3@c@ret", "postgres://***");
    check_shown(url_mask, "redis://h/0?password=@s3cret", "redis://***");
    check_shown(url_mask, "postgres://h/db#s3@cret", "postgres://***");
    check_shown(url_mask, "postgres://h/s3@cret", "postgres://***");
    check_shown(url_mask, "postgres://u@h/db?user=u&password=s3@cret",
                "postgres://u@h/db?user=u&password=***");
}

TEST(an_at_sign_in_a_path_of_the_web_is_no_login)
{
    check_shown(url_mask, "http://api:80/@ann:1", "http://api:80/@ann:1");
    check_shown(url_mask, "https://a:b@api:80/@ann:1", "https://a:***@api:80/@ann:1");
}

TEST(a_secret_path_is_hidden)
{
    check_shown(url_mask_path, "https://chat.example/hook/s3cret?x", "https://chat.example/***");
    check_shown(url_mask_path, "https://ann:s3cret@chat.example/h", "https://***@chat.example/***");
    check_shown(url_mask_path, "https://chat.example/", "https://chat.example/");
    check_shown(url_mask_path, "https://chat.example?s3cret", "https://chat.example/***");
    check_shown(url_mask_path, "https://chat.example", "https://chat.example");
}
