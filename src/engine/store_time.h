/* store_time.h - what time it is, for who has a store and no engine on it.
 *
 * A store on a server has a clock of its own, and every time in it goes by that one. Whoever has an
 * engine asks engine_now_ms.
 */
#ifndef ENGINE_STORE_TIME_H
#define ENGINE_STORE_TIME_H

#include "store/store.h"

/* By the store's clock; `now_ms`, which is ours, if it has none or does not answer. Outside of a
 * transaction. */
int64_t store_time_ms(struct store *store, int64_t now_ms);

#endif
