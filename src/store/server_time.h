/* server_time.h - the time of a server, as far as its last answer tells. For stores whose server
 * has a clock of its own.
 *
 * An answer carries the time that the clock has shown, cut to whole milliseconds. The clock was
 * read after the request was sent and before the answer came. So at any moment after that the
 * server's time is at least what the answer says and what has passed since it came, and at most
 * what it says, a millisecond, and what has passed since the request was sent. Neither bound needs
 * a request. Time that passes is that of this machine's monotonic clock; DRIFT allows for the two
 * clocks to run at different speeds, as while one of them is slewed.
 *
 * What does not hold: if the server's clock is set while an answer is in use, or this machine has
 * slept, both bounds are off by as much. Commits compare the transaction's time with the server's,
 * and refuse one that is off by more than a second.
 *
 * Pure: the monotonic time is an argument.
 */
#ifndef STORE_SERVER_TIME_H
#define STORE_SERVER_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "store/transition.h"

struct server_time {
    int64_t sent_ns;   /* monotonic: the request of the last answer was not sent before */
    int64_t heard_ns;  /* monotonic: the answer was there; 0: there is none */
    int64_t answer_ms; /* the server's time in it */
    int64_t last_ms;   /* the latest now_ms that was given */
};

/* An answer has come. */
void server_time_hear(struct server_time *time, int64_t answer_ms, int64_t sent_ns,
                      int64_t heard_ns);
/* The last answer cannot be relied upon: the next one may be another server's. */
void server_time_forget(struct server_time *time);

/* How old the last answer is; INT64_MAX: there is none, or it took so long to come that a new one
 * is worth a request. */
int64_t server_time_age_ms(const struct server_time *time, int64_t mono_ns);

/* The server's time at this moment. now_ms is never earlier than it was given before, unless the
 * server's clock was set back by more than a second. There is an answer. */
struct store_time server_time_at(struct server_time *time, int64_t mono_ns);

#endif
