/* scenario.h - the lives of a dozen jobs, written down step by step.
 *
 * Each step is a transaction. A step that fails is rolled back and left behind, as by a worker that
 * shrugs and goes on; later steps take what they find. So the same script runs on a store that
 * works and on one that does not.
 */
#ifndef TESTS_STORE_SCENARIO_H
#define TESTS_STORE_SCENARIO_H

#include "store/store.h"

void scenario_run(struct store *store);

/* After the script, on a store that works again: time passes until every job has ended. Fails the
 * test when some never do. */
void scenario_drain(struct store *store);

#endif
