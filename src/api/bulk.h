/* bulk.h - one verb over all jobs that a filter selects: what was asked for, the moves that do it,
 * and how many jobs that are.
 *
 *     {"verb":"cancel","filter":{…},"rate":"10/s","dry_run":true}
 *
 * A plan is read from such a body, which a client sends and the command line makes of its options.
 * `"all":true` may stand in place of the filter. The chunks of its parts (engine/verbs/change.h)
 * are carried out one after the other: by a timer of the server (server/bulk_runs.h), within a
 * request, or by the loop of a command.
 */
#ifndef API_BULK_H
#define API_BULK_H

#include "api/api.h"

enum bulk_verb {
    BULK_CANCEL,
    BULK_RETRY,   /* runs those that wait for their time now, then redrives those that have ended */
    BULK_REMOVE,  /* those that have ended */
    BULK_REDRIVE, /* dead letters; the verb of the routes about dead letters only */
};

const char *bulk_verb_name(enum bulk_verb verb);

#define BULK_PARTS_MAX 2
/* A run keeps its filter. A longer one is refused. */
#define BULK_FILTER_MAX_BYTES 65536
/* Jobs that a request counts one by one. The answer says when there are more: counting holds one of
 * the few threads that read. */
#define BULK_COUNT_MAX 10000

struct bulk_plan {
    enum bulk_verb verb;
    struct str filter; /* as it was sent; absent: all */
    struct rate rate;  /* count 0: as fast as it goes */
    bool dry_run;      /* count only */
    struct job_query query;
    struct bulk parts[BULK_PARTS_MAX]; /* one after the other */
    size_t n_parts;

    /* bulk_plan_count */
    uint64_t matched;
    uint64_t refused;      /* of these; */
    bool refused_is_known; /* they were all looked at */
    bool is_at_least;      /* there are more than were counted */
};

/* The members of a body about dead letters; API_BULK has the verb besides. */
extern const struct field BULK_FIELDS[];

/* Reads the body of the context's input. `letters`: a body without a verb, which redrives dead
 * letters, and whose filter has no state. The place at fault is in the input. */
int bulk_plan_read(struct bulk_plan *plan, const struct api_context *c, bool letters,
                   struct redrive_err *err);

/* The parameters of a removal of dead letters. */
#define BULK_PURGE_USES (JOB_QUERY_JOBS | JOB_QUERY_PURGE)

/* The removal of dead letters that the parameters of the input select, which must say an age: a
 * missing parameter must not remove everything. */
int bulk_plan_read_purge(struct bulk_plan *plan, const struct api_context *c,
                         struct redrive_err *err);

/* Counts the jobs that match, `max` one by one at the most; where the store has counts for the
 * filter it knows them all. Those that will be refused are counted only if they are `wanted`. */
int bulk_plan_count(struct bulk_plan *plan, struct store *store, uint64_t max, bool wanted,
                    struct redrive_err *err);

/* The part that is under way, or NULL after the last one. */
struct bulk *bulk_part(struct bulk *parts, size_t n);
/* How many jobs all parts have changed so far, and refused. */
uint64_t bulk_changed(const struct bulk *parts, size_t n);
uint64_t bulk_refused(const struct bulk *parts, size_t n);

/* What only a server has: a run that goes on after its answer. They have no functions here.
 * POST {"id":…,"verb":…,"dry_run":…,"matched":…,"at_least":…}, without an id where nothing runs,
 * and of a dry run also "refused"; GET one that goes on or has ended lately; DELETE stops it. */
extern const struct operation API_BULK;
extern const struct operation API_BULK_RUN;
extern const struct operation API_BULK_STOP;

#endif
