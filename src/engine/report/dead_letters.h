/* dead_letters.h - how many dead letters there are, by class, reason, task and type; groups of them
 * whose errors look alike. */
#ifndef ENGINE_REPORT_DEAD_LETTERS_H
#define ENGINE_REPORT_DEAD_LETTERS_H

#include "base/json/writer.h"
#include "base/mem/map.h"
#include "store/store.h"

enum dead_by {
    DEAD_BY_CLASS,
    DEAD_BY_REASON,
    DEAD_BY_TASK,
    DEAD_BY_TYPE,
    DEAD_BY_COUNT
};

struct dead_counts {
    uint64_t total;
    bool hides_types; /* set before they are read: all types of errors are counted as one */
    struct name_counts by[DEAD_BY_COUNT];
    struct arena arena;
};

/* The seed is one that clients cannot know. */
void dead_counts_init(struct dead_counts *counts, uint64_t seed);
void dead_counts_release(struct dead_counts *counts);

/* Counts the dead letters that match, where they are kept. */
int dead_counts_read(struct dead_counts *counts, struct store *store,
                     const struct job_filter *filter, struct redrive_err *err);

/* The key under which the counts of one kind are written. */
const char *dead_counts_key(enum dead_by by);

/* {"total_jobs":…,"failure_type_counts":{…},"by_reason":{…},"by_task":{…},"by_type":{…}}, the
 * largest of each first. */
void dead_counts_write(struct json_writer *w, const struct dead_counts *counts);

/* {"fingerprint":…,"count":…,"first_seen":…,"last_seen":…,"task":…,"example_id":…,"example":{…}} */
void group_write_json(struct json_writer *w, const struct group_count *group);

#endif
