/* bench_core - what one decision costs.
 *
 * Measures the path that every job takes through the core, on one thread, and counts the
 * allocations made on it. Each figure is the median of several rounds, because these are short
 * and machines are shared.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/time/clock.h"
#include "core/breaker/breaker.h"
#include "core/decide.h"
#include "core/retry/backoff.h"

#define ROUNDS     11
#define ITERATIONS 2000000

/* Every allocation of the program passes through here, so that none can go unseen. */
static unsigned long allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *malloc(size_t size);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t size);

void *malloc(size_t size)
{
    allocations++;
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    allocations++;
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    allocations++;
    return __libc_realloc(p, size);
}

/* What the compiler must not see through. */
static volatile int64_t sink;

struct inputs {
    struct redrive_policy policy;
    struct redrive_breaker_config config;
    struct breaker breaker;
    struct outcome outcomes[8];
};

static void inputs_init(struct inputs *s)
{
    redrive_policy_init(&s->policy);
    redrive_breaker_config_init(&s->config);
    breaker_init(&s->breaker, 1);
    memset(s->outcomes, 0, sizeof s->outcomes);
    s->outcomes[3].failure.http_status = 503;
    s->outcomes[6].failure.http_status = 429;
    for (int i = 0; i < 8; i++)
        if (!s->outcomes[i].failure.http_status)
            s->outcomes[i].failure.http_status = 200;
}

/* Leave from the breaker, the decision, the report: three successes to each failure or so. */
static void decide_and_breaker(struct inputs *s, int64_t iterations)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < iterations; i++) {
        struct breaker_permit permit;
        int64_t now_ms = i / 1000;
        if (!breaker_allow(&s->breaker, &s->config, now_ms, &permit))
            continue;
        struct job_facts job = {
            .attempts = 1 + (uint32_t)(i & 3), .deadline_in_ms = INT64_MAX, .seed = (uint64_t)i};
        struct decision d = decide(&job, &s->outcomes[i & 7], &s->policy, NULL);
        breaker_record(&s->breaker, &s->config, permit, d.breaker, 0, now_ms);
        sum += d.delay_ms;
    }
    sink = sum;
}

/* The same, when every job fails by an error type that must be looked up. */
static void decide_by_error_type(struct inputs *s, int64_t iterations)
{
    static const char *const TYPES[] = {"requests.exceptions.ConnectionError", "TimeoutError",
                                        "java.net.SocketTimeoutException", "ValueError"};
    struct outcome outcome = {0};
    int64_t sum = 0;
    for (int64_t i = 0; i < iterations; i++) {
        struct job_facts job = {
            .attempts = 1 + (uint32_t)(i & 3), .deadline_in_ms = INT64_MAX, .seed = (uint64_t)i};
        outcome.failure.error_type = TYPES[i & 3];
        sum += decide(&job, &outcome, &s->policy, NULL).delay_ms;
    }
    sink = sum;
}

static void open_breaker_check(struct inputs *s, int64_t iterations)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < iterations; i++) {
        struct breaker_permit permit;
        sum += breaker_allow(&s->breaker, &s->config, i & 0xff, &permit);
        /* Memory may have changed: the next check must look again. */
        __asm__ volatile("" : : "r"(&s->breaker) : "memory");
    }
    sink = sum;
}

/* The same as people use breakers elsewhere: shared by threads, and asking for the time. */
static void guarded_breaker(struct inputs *s, int64_t iterations)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    for (int64_t i = 0; i < iterations; i++) {
        struct breaker_permit permit;
        pthread_mutex_lock(&lock);
        bool allowed = breaker_allow(&s->breaker, &s->config, clock_monotonic_ms(), &permit);
        pthread_mutex_unlock(&lock);
        if (!allowed)
            continue;
        pthread_mutex_lock(&lock);
        breaker_record(&s->breaker, &s->config, permit, BREAKER_SUCCESS, 0, clock_monotonic_ms());
        pthread_mutex_unlock(&lock);
    }
    sink = (int64_t)s->breaker.generation;
}

static void closed_breaker(struct inputs *s, int64_t iterations)
{
    for (int64_t i = 0; i < iterations; i++) {
        struct breaker_permit permit;
        if (breaker_allow(&s->breaker, &s->config, i / 1000, &permit))
            breaker_record(&s->breaker, &s->config, permit, BREAKER_SUCCESS, 0, i / 1000);
    }
    sink = (int64_t)s->breaker.generation;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Processor time of this thread: what others do on the machine should not count. */
static int64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static double median_ns(void (*run)(struct inputs *, int64_t), struct inputs *s)
{
    double rounds[ROUNDS];
    run(s, ITERATIONS / 10);
    for (int i = 0; i < ROUNDS; i++) {
        int64_t start = cpu_ns();
        run(s, ITERATIONS);
        rounds[i] = (double)(cpu_ns() - start) / ITERATIONS;
    }
    qsort(rounds, ROUNDS, sizeof rounds[0], compare);
    return rounds[ROUNDS / 2];
}

int main(void)
{
    struct inputs s;
    inputs_init(&s);

    unsigned long before = allocations;
    double decide_ns = median_ns(decide_and_breaker, &s);
    unsigned long counted = allocations - before;
    double type_ns = median_ns(decide_by_error_type, &s);

    inputs_init(&s);
    double closed_ns = median_ns(closed_breaker, &s);
    inputs_init(&s);
    double guarded_ns = median_ns(guarded_breaker, &s);
    breaker_trip(&s.breaker, 0);
    s.breaker.state = REDRIVE_BREAKER_OPEN;
    s.breaker.retry_at_ms = INT64_MAX;
    double open_ns = median_ns(open_breaker_check, &s);

    printf("{\"rows\":[");
    printf("{\"name\":\"core.decide_breaker\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":"
           "null},",
           decide_ns);
    printf("{\"name\":\"core.decide_error_type\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":"
           "null},",
           type_ns);
    printf("{\"name\":\"core.breaker_closed\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":"
           "null},",
           closed_ns);
    printf("{\"name\":\"core.breaker_guarded\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":"
           "null},",
           guarded_ns);
    printf("{\"name\":\"core.breaker_open\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":null},",
           open_ns);
    printf("{\"name\":\"core.allocations\",\"value\":%lu,\"unit\":\"count\",\"durable\":null}",
           counted);
    printf("]}\n");
    return 0;
}
