/* cron_entries.h - the periodic tasks as an engine knows them: those of its configuration, and
 * those that were stored at run time.
 *
 * An entry has a shared row with its last tick. The row of a stored entry also has its definition:
 *
 *     {"last_tick_ms":…,"entry":{"task":…,"schedule":…,…}}
 *
 * An entry of the configuration belongs to the default tenant and wins over a stored one of the
 * same name there. It leaves the definition in the row alone, so that the stored entry is back when
 * the configuration no longer has one. A row without a definition is a mark and nothing more. A
 * definition that this program does not understand is left to those that do.
 *
 * A mark belongs to a schedule. A process that starts, or is given another configuration, and finds
 * the mark of another schedule marks the entry anew with the time and makes no job: no tick of the
 * schedule that is now in force has been missed. It does so once. Processes with different
 * schedules for one entry go by the last tick of either.
 */
#ifndef ENGINE_CLOCK_CRON_ENTRIES_H
#define ENGINE_CLOCK_CRON_ENTRIES_H

#include "base/json/json.h"
#include "base/json/writer.h"
#include "config/config.h"
#include "store/store.h"

struct cron_entries; /* state.h */
struct engine;

#define CRON_ENTRY_MAX_BYTES (64u * 1024) /* of a stored definition */
#define CRON_STORED_MAX      1000         /* entries of a tenant: every process holds them all */

struct cron_entry {
    char *tenant; /* owned, as all that follows but `own` */
    char *name;
    const struct config_cron *own; /* the configuration's entry */
    struct config_part *box;       /* the stored one where there is no `own` */
    char *definition;              /* as the row has it; NULL: none */
    char *declared_by;             /* the application, as the row has it; NULL: none */
    int64_t version;               /* of the row; 0: there is none yet */
    int64_t unmarked_version; /* at which the row has no mark of this schedule: 0, or of a row that
                               * had another schedule when this process first saw it, or is
                               * damaged */
    int64_t last_ms;          /* the last tick that was made, or when the schedule was first seen */
    int64_t next_ms;          /* the first tick after that; 0: the schedule has not been seen yet */
    bool has_moved;           /* while a table is loaded: into the new one */
};

void cron_entries_release(struct cron_entries *table);

/* Reads the rows that have changed and puts the entries of the configuration in. */
int cron_entries_load(struct engine *e, struct redrive_err *err);
/* What is known of rows may not have been so: all of them are read at the next load. */
void cron_entries_forget(struct cron_entries *table);

/* NULL: there is no such entry. It holds until the next load. */
struct cron_entry *cron_entries_find(const struct cron_entries *table, struct str tenant,
                                     struct str name);
/* The definition that is in force; NULL: it is not understood here. */
const struct config_cron *cron_entry_config(const struct cron_entry *slot);
/* The configuration's entry of that name, if it is a matter of this tenant. */
const struct config_cron *cron_entries_own(const struct config *config, struct str tenant,
                                           struct str name);

/* Whether the schedule that is in force has not been seen yet: no tick of it has been missed. */
bool cron_entry_is_unmarked(const struct cron_entry *slot);
/* Moves the mark of an entry. False in `ret_won`: another process was faster. */
int cron_entries_mark(struct engine *e, struct cron_entry *slot, int64_t last_ms, bool *ret_won,
                      struct redrive_err *err);

/* ---- Rows ------------------------------------------------------------------------------------ */

/* What a row says; `definition` is absent in a mark. The schedule and the time zone are those that
 * an entry of the configuration was marked with. False: it is damaged, and says nothing. */
struct cron_entry_row {
    int64_t last_ms;
    struct str definition;
    struct str declared_by; /* the application that has declared it; it needs no escapes */
    struct json_string schedule, timezone;
};
bool cron_entry_row_read(struct str json, struct cron_entry_row *ret);

/* Puts a row, or takes it away when `row` is NULL. False in `ret_won`: it is no longer at
 * `version`. */
int cron_entry_row_put(struct engine *e, struct str tenant, struct str name, int64_t version,
                       const struct cron_entry_row *row, const struct config_cron *own,
                       bool *ret_won, struct redrive_err *err);

#endif
