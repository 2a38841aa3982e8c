/* uv_time.c - the timers of a libuv loop, by the session's clock. */
#include "uv_time.h"

#include <uv.h>

#include "session.h"

#define MAX_TIMERS 4

static struct timer_row {
    uv_timer_t *timer; /* NULL: free */
    uv_timer_cb fire;
    int64_t at_ms;
    uint64_t repeat_ms;
} timers[MAX_TIMERS];

uint64_t __wrap_uv_now(const uv_loop_t *of);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fire, uint64_t in_ms, uint64_t repeat_ms);
int __wrap_uv_is_active(const uv_handle_t *handle);
void __real_uv_close(uv_handle_t *handle, uv_close_cb closed);
void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed);

uint64_t __wrap_uv_now(const uv_loop_t *of)
{
    (void)of;
    return (uint64_t)session_now_ms();
}

/* The timer's row, or (NULL) a free one; NULL: there is none. */
static struct timer_row *row_of(const void *timer)
{
    for (size_t i = 0; i < MAX_TIMERS; i++)
        if (timers[i].timer == timer)
            return &timers[i];
    return NULL;
}

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb fire, uint64_t in_ms, uint64_t repeat_ms)
{
    struct timer_row *row = row_of(timer) ? row_of(timer) : row_of(NULL);
    FUZZ_CHECK(row);
    *row = (struct timer_row){timer, fire, session_now_ms() + (int64_t)in_ms, repeat_ms};
    return 0;
}

int __wrap_uv_is_active(const uv_handle_t *handle)
{
    FUZZ_CHECK(handle->type == UV_TIMER);
    return row_of(handle) != NULL;
}

void __wrap_uv_close(uv_handle_t *handle, uv_close_cb closed)
{
    struct timer_row *row = row_of(handle);
    if (row)
        row->timer = NULL;
    __real_uv_close(handle, closed);
}

bool uv_time_fire(void)
{
    bool any = false;
    for (size_t i = 0; i < MAX_TIMERS; i++) {
        struct timer_row row = timers[i];
        if (!row.timer || row.at_ms > session_now_ms())
            continue;
        any = true;
        timers[i].at_ms = session_now_ms() + (int64_t)row.repeat_ms;
        if (row.repeat_ms == 0)
            timers[i].timer = NULL;
        row.fire(row.timer);
    }
    return any;
}

void uv_time_reset(void)
{
    memset(timers, 0, sizeof timers);
}
