/* audit.c - writes the log lines of administrators' actions and of refusals. */
#include "server/auth/audit.h"

#include "base/time/clock.h"

#define REFUSAL_EVERY_MS 1000

void audit_action(const struct log *log, const struct audit *what, const char *result)
{
    log_event(log, LOG_LEVEL_INFO, clock_wall_ms(), "admin_action",
              LOG_S("interface", what->interface), LOG_S("token", what->token ? what->token : ""),
              LOG_STR("tenant", what->tenant), LOG_S("client", what->client),
              LOG_S("action", what->action), LOG_STR("target", what->target),
              LOG_S("result", result));
}

void audit_refusal(const struct log *log, struct log_pace *pace, const struct audit *what,
                   const char *why)
{
    int64_t held_back;
    if (!log_pace_allows(pace, clock_monotonic_ms(), REFUSAL_EVERY_MS, &held_back))
        return;
    log_event(log, LOG_LEVEL_WARNING, clock_wall_ms(), "access_refused",
              LOG_S("interface", what->interface), LOG_S("token", what->token ? what->token : ""),
              LOG_S("client", what->client), LOG_S("action", what->action), LOG_S("error", why),
              LOG_I("more", held_back));
}
