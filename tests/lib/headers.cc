// The headers, as a C++ program sees them: it may have an XX of its own, calls structs by their
// bare names, and if it wishes its compiler asks for callbacks that do not throw as soon as it can.
#define XX 42
#define REDRIVE_STRICT_CALLBACKS
#include <redrive.h>
#include <redrive_queue.h>

#include <type_traits>

static_assert(XX == 42, "the program's own macro");
#undef XX

struct everything {
    redrive_err err;
    redrive_jitter jitter;
    redrive_backoff backoff;
    redrive_class_rule rule;
    redrive_match match;
    redrive_policy policy;
    redrive_breaker_config breaker;
    redrive_breaker_status breaker_status;
    redrive_failure failure;
    redrive_classify_row row;
    redrive_event event;
    redrive_clock clock;
    redrive_handler_options options;
    redrive_job job;
    redrive_result result;
    redrive_attempt_info attempt;
    redrive_dead_letter letter;
    redrive_dlq_filter filter;
    redrive_dlq_stats stats;
    redrive_dlq_group group;
    redrive_health health;
    redrive_metrics metrics;
    redrive_queue_options queue_options;
    redrive_job_spec spec;
    redrive_submitted submitted;
    redrive_job_status status;
    redrive_handle_options handle_options;
    redrive_handler *handler;
    redrive_queue *queue;
};

// A function that may throw is taken only by a compiler that cannot tell it from others.
#ifdef __cpp_noexcept_function_type
static const bool takes_any = false;
#else
static const bool takes_any = true;
#endif
#define ASKS(type, ...) \
    static_assert(std::is_convertible<__VA_ARGS__, type>::value == takes_any, #type)
ASKS(redrive_fn, int (*)(redrive_run *, void *));
ASKS(redrive_task_fn, int (*)(redrive_task_run *, void *));
ASKS(redrive_delay_fn, int64_t (*)(uint32_t, uint64_t, void *));
ASKS(redrive_monitor_fn, void (*)(const redrive_event *, void *));
ASKS(redrive_dlq_fn, int (*)(const redrive_dead_letter *, void *));
ASKS(redrive_dlq_group_fn, int (*)(const redrive_dlq_group *, void *));
ASKS(redrive_log_fn, void (*)(const char *, size_t, void *));
ASKS(decltype(redrive_clock::now_ms), int64_t (*)(void *));
ASKS(decltype(redrive_clock::wait_ms), void (*)(int64_t, void *));

static int work(redrive_run *, void *) noexcept
{
    return 0;
}

static int work_job(redrive_task_run *, void *) noexcept
{
    return 0;
}

int main()
{
    everything e = {};
    redrive_health_get(e.handler, &e.health);
    redrive_metrics_get(e.handler, &e.metrics);
    redrive_dlq_stats_get(e.handler, &e.stats);
    redrive_queue_handle(e.queue, "t", work_job, nullptr, nullptr, nullptr);
    return redrive_call(nullptr, "t", work, nullptr, nullptr);
}
