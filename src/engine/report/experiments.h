/* experiments.h - the figures of experiments: counters of their arms, read back and compared.
 *
 * The counters of an arm have the label `arm:EXPERIMENT/ARM` and stay when the experiment has been
 * taken out of the configuration, so that it can still be reported on. Which experiments are
 * running is known from the configuration and from the definitions of tasks that processes share.
 */
#ifndef ENGINE_REPORT_EXPERIMENTS_H
#define ENGINE_REPORT_EXPERIMENTS_H

#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "config/config.h"
#include "core/experiment/figures.h"
#include "store/store.h"

struct engine_event;

struct arm_row {
    struct str name;
    double share; /* of new jobs; 0: they get this arm no more */
    struct arm_figures figures;
};

struct experiment_row {
    struct str name;
    struct str task; /* absent: it is not running */
    struct arm_row *arms;
    size_t n_arms;
};

struct experiment_page {
    struct experiment_row *rows; /* by name */
    size_t n;
    struct arena arena;
};

/* Those of the configuration (may be NULL), of published tasks and of counters. Figures are of the
 * tenant's jobs; absent: of all. Needs no transaction. */
int experiments_read(struct store *store, struct str tenant, const struct config *config,
                     struct experiment_page *ret, struct redrive_err *err);
void experiment_page_release(struct experiment_page *page);

/* The figures that counters have, without definitions: no experiment has a task, no arm a share.
 * Adds to the page; running out of memory shows in its arena. */
void experiments_count(const struct counter_page *counters, struct experiment_page *page);

/* NULL: there is none of that name. */
const struct experiment_row *experiment_find(const struct experiment_page *page, struct str name);

/* A definition as a row without figures; `arms` has room for EXPERIMENT_ARMS_MAX. Borrows both. */
struct experiment_row experiment_defined(const struct experiment *experiment, struct arm_row *arms);

/* {"name":…,"task":…,"running":…,"base":…,"arms":[{…,"against_base":{…}}]}; times in seconds. */
void experiment_write_json(struct json_writer *w, const struct experiment_row *row);

/* ---- Within the engine ----------------------------------------------------------------------- */

/* A counter of arms, and where its number stands in struct arm_figures. */
struct arm_counter {
    const char *name;
    size_t offset;
};
#define ARM_COUNTERS 10
extern const struct arm_counter ARM_COUNTER[ARM_COUNTERS];
#define ARM_LABEL "arm:"

/* What an event of a job with an arm adds to the figures of the arm. */
struct arm_figures arm_event_figures(const struct engine_event *event);

#endif
