#include "store/server_time.h"

#define NS_IN_MS 1000000

/* The clocks of two machines may part by a millisecond a second: NTP slews by half of that. */
#define DRIFT 1000

/* An answer that took longer is asked for again: spans that count from the upper bound would be
 * longer by as much. */
#define VAGUE_NS (INT64_C(1000) * NS_IN_MS)

/* The server's clock was set back if it is behind by more than this. */
#define BACK_MS 1000

void server_time_hear(struct server_time *time, int64_t answer_ms, int64_t sent_ns,
                      int64_t heard_ns)
{
    time->answer_ms = answer_ms;
    time->sent_ns = sent_ns;
    time->heard_ns = heard_ns;
}

void server_time_forget(struct server_time *time)
{
    time->heard_ns = 0;
}

int64_t server_time_age_ms(const struct server_time *time, int64_t mono_ns)
{
    if (time->heard_ns == 0 || time->heard_ns - time->sent_ns > VAGUE_NS)
        return INT64_MAX;
    return (mono_ns - time->heard_ns) / NS_IN_MS;
}

struct store_time server_time_at(struct server_time *time, int64_t mono_ns)
{
    const int64_t heard_ns = mono_ns - time->heard_ns, sent_ns = mono_ns - time->sent_ns;
    const int64_t now_ms = time->answer_ms + (heard_ns - heard_ns / DRIFT) / NS_IN_MS;
    const int64_t most_ms = (sent_ns + sent_ns / DRIFT + NS_IN_MS - 1) / NS_IN_MS;
    const int64_t latest_ms = time->answer_ms + 1 + most_ms;
    const bool goes_back = now_ms < time->last_ms && time->last_ms - now_ms <= BACK_MS;
    if (!goes_back)
        time->last_ms = now_ms;
    return (struct store_time){time->last_ms,
                               latest_ms > time->last_ms ? latest_ms : time->last_ms};
}
