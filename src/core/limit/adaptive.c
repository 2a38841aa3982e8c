/* adaptive.c - a limit that follows what a service can take. */
#include "core/limit/adaptive.h"

bool adaptive_config_is_valid(const struct adaptive_config *c)
{
    return (c->floor == 0 && c->ceiling == 0) ||
           (c->floor >= 1 && c->floor <= c->ceiling && c->ceiling <= ADAPTIVE_MOST);
}

void adaptive_init(struct adaptive *a, const struct adaptive_config *config)
{
    *a = (struct adaptive){.limit = config->floor};
}

/* Floor and ceiling may have changed. */
uint32_t adaptive_limit(const struct adaptive *a, const struct adaptive_config *config)
{
    if (a->limit < config->floor)
        return config->floor;
    return a->limit > config->ceiling ? config->ceiling : a->limit;
}

void adaptive_succeeded(struct adaptive *a, const struct adaptive_config *config, uint32_t running)
{
    const uint32_t limit = adaptive_limit(a, config);
    if (limit == config->ceiling || running < (limit + 1) / 2)
        return;
    a->grown += a->cut_ms == 0 ? 1 : 1.0 / ((double)limit * ADAPTIVE_ROUNDS);
    if (a->grown < 1)
        return;
    a->limit = limit + 1;
    a->grown = 0;
}

void adaptive_overloaded(struct adaptive *a, const struct adaptive_config *config,
                         int64_t started_ms, int64_t now_ms)
{
    if (a->cut_ms != 0 && started_ms <= a->cut_ms && a->cut_ms <= now_ms)
        return;
    a->limit = (uint32_t)(adaptive_limit(a, config) * ADAPTIVE_CUT);
    a->limit = adaptive_limit(a, config);
    a->cut_ms = now_ms;
    a->grown = 0;
}
