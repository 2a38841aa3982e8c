#include "check.h"

#include <errno.h>

#include "sim/service.h"

static struct service service;

static void given(struct service_config config)
{
    service_init(&service, &config, 1);
}

TEST(a_sound_service_answers)
{
    given((struct service_config){.latency_ms = 50});
    int64_t sum = 0;
    for (int i = 0; i < 10000; i++) {
        struct service_answer answer = service_call(&service, i);
        assert_null(answer.failure);
        assert_true(answer.takes_ms >= 25);
        sum += answer.takes_ms;
    }
    assert_in_range(sum / 10000, 48, 52);
}

TEST(an_outage_refuses_from_its_first_to_its_last_millisecond)
{
    struct service_outage outage = {1000, 500};
    given((struct service_config){.outages = &outage, .n_outages = 1});
    assert_null(service_call(&service, 999).failure);
    assert_int_equal(service_call(&service, 1000).failure->errnum, ECONNREFUSED);
    assert_int_equal(service_call(&service, 1499).failure->errnum, ECONNREFUSED);
    assert_null(service_call(&service, 1500).failure);
}

TEST(an_outage_may_hang_until_the_time_out)
{
    struct service_outage outage = {0, 500};
    given((struct service_config){
        .outages = &outage, .n_outages = 1, .outage_hangs = true, .timeout_ms = 3000});
    struct service_answer answer = service_call(&service, 1);
    assert_int_equal(answer.takes_ms, 3000);
    assert_int_equal(answer.failure->errnum, ETIMEDOUT);
}

TEST(what_is_beyond_the_rate_limit_is_told_when_to_return)
{
    given((struct service_config){.rate_limit = 10, .retry_after_ms = 2000});
    for (int i = 0; i < 10; i++)
        assert_null(service_call(&service, 0).failure);
    const struct redrive_failure *failure = service_call(&service, 0).failure;
    assert_int_equal(failure->http_status, 429);
    assert_int_equal(failure->retry_after_ms, 2000);
    assert_non_null(service_call(&service, 99).failure);
    assert_null(service_call(&service, 100).failure);
}

TEST(what_is_beyond_its_capacity_fails)
{
    given((struct service_config){.capacity = 20});
    uint32_t failed = 0;
    for (int64_t ms = 0; ms < 10000; ms += 25) /* 40 calls/s, twice what it can take */
        failed += service_call(&service, ms).failure != NULL;
    assert_in_range(failed, 175, 200);
}

TEST(errors_come_at_their_rate_and_by_weight)
{
    const struct service_fault faults[] = {
        {{.http_status = 500}, 3},
        {{.http_status = 404}, 1},
    };
    given((struct service_config){.error_rate = 0.4, .faults = faults, .n_faults = 2});
    uint32_t n500 = 0;
    uint32_t n404 = 0;
    for (int i = 0; i < 10000; i++) {
        const struct redrive_failure *failure = service_call(&service, i).failure;
        n500 += failure && failure->http_status == 500;
        n404 += failure && failure->http_status == 404;
    }
    assert_in_range(n500, 2800, 3200);
    assert_in_range(n404, 850, 1150);
}

TEST(slow_calls_time_out)
{
    given((struct service_config){.slow_rate = 1, .slow_ms = 5000, .timeout_ms = 1000});
    struct service_answer answer = service_call(&service, 0);
    assert_int_equal(answer.takes_ms, 1000);
    assert_int_equal(answer.failure->errnum, ETIMEDOUT);
}

TEST(all_faults_stop_at_once)
{
    struct service_outage outage = {0, 5000};
    given((struct service_config){
        .outages = &outage, .n_outages = 1, .error_rate = 1, .capacity = 1, .sound_from_ms = 100});
    assert_non_null(service_call(&service, 99).failure);
    for (int i = 0; i < 10; i++)
        assert_null(service_call(&service, 100).failure);
}
