#include "engine/store_time.h"

int64_t store_time_ms(struct store *store, int64_t now_ms)
{
    const struct store_ops *ops = store_ops(store);
    int64_t store_ms, version;
    if (!(ops->capabilities & STORE_SERVER_TIME) ||
        ops->begin(store, now_ms, &store_ms, &version, NULL) != 0)
        return now_ms;
    ops->rollback(store);
    return store_ms;
}
