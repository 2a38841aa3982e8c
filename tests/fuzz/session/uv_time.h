/* uv_time.h - a libuv loop without a time of its own: its timers go by the session's clock. */
#ifndef TESTS_FUZZ_SESSION_UV_TIME_H
#define TESTS_FUZZ_SESSION_UV_TIME_H

#include <stdbool.h>

/* For a new loop. */
void uv_time_reset(void);
/* Fires the timers whose time has come; false: there is none. */
bool uv_time_fire(void);

#endif
