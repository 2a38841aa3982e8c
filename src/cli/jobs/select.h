/* select.h - the options that say which jobs are meant.
 *
 * Shared by every command that lists, counts, exports or changes jobs by their properties: a struct
 * job_select inside the options of the command, the rows in its table, and job_select_read, which
 * makes a filter of what was given.
 *
 *     struct job_list_options {
 *         struct job_select select;
 *     };
 *     static const struct field OPTIONS[] = {
 *         JOB_SELECT_ROWS(struct job_list_options, select),
 *         {0},
 *     };
 */
#ifndef CLI_JOBS_SELECT_H
#define CLI_JOBS_SELECT_H

#include "cli/frame/cli.h"
#include "store/store.h"

/* What is not given is NULL, or a list without items. */
struct job_select {
    const char *tenant;
    const char *task;
    const char *queue;
    const char *user;
    const char *type;
    const char *text;
    const char *group;
    struct option_strings states;
    struct option_strings classes;
    struct option_strings reasons;
    const char *older_than;
    const char *newer_than;
};

/* The words of the lists, for their rows; each ends with NULL. The first class and the first reason
 * mean that there is none. */
extern const char *const JOB_SELECT_STATES[];
extern const char *const JOB_SELECT_CLASSES[];
extern const char *const JOB_SELECT_REASONS[];

#define JOB_SELECT_TENANT_ROW(S, m)                                         \
    OPTION("tenant", 0, "NAME", "of this tenant; all tenants unless given", \
           INTO_STRING(S, m.tenant))

#define JOB_SELECT_STATE_ROW(S, m)                                                      \
    OPTION("state", 0, "STATE", "in this state, or one of several with commas between", \
           INTO_STRINGS(S, m.states), .words = JOB_SELECT_STATES)

#define JOB_SELECT_OLDER_ROW(S, m)                                                         \
    OPTION("older-than", 0, "AGE", "that ended at least AGE ago, such as 90m, 24h or 30d", \
           INTO_STRING(S, m.older_than))

/* All but the state and the age that is required elsewhere. */
#define JOB_SELECT_ROWS(S, m)                                                                   \
    JOB_SELECT_TENANT_ROW(S, m),                                                                \
        OPTION("task", 't', "NAME", "of this task", INTO_STRING(S, m.task)),                    \
        OPTION("queue", 'q', "NAME", "in this queue", INTO_STRING(S, m.queue)),                 \
        OPTION("class", 0, "CLASS", "whose last error is of this class, or one of several",     \
               INTO_STRINGS(S, m.classes), .words = JOB_SELECT_CLASSES + 1),                    \
        OPTION("type", 0, "NAME", "whose last error has exactly this type",                     \
               INTO_STRING(S, m.type)),                                                         \
        OPTION("reason", 0, "REASON", "that ended for this reason, or one of several",          \
               INTO_STRINGS(S, m.reasons), .words = JOB_SELECT_REASONS + 1),                    \
        OPTION("text", 0, "TEXT", "with TEXT in the message of the last error, case-sensitive", \
               INTO_STRING(S, m.text)),                                                         \
        OPTION("user", 0, "NAME", "of this user", INTO_STRING(S, m.user)),                      \
        OPTION("group", 0, "FINGERPRINT",                                                       \
               "whose errors look alike: 16 digits, see `redrive dlq groups`",                  \
               INTO_STRING(S, m.group)),                                                        \
        JOB_SELECT_OLDER_ROW(S, m),                                                             \
        OPTION("newer-than", 0, "AGE", "that ended at most AGE ago", INTO_STRING(S, m.newer_than))

/* Makes a filter: what was not given matches everything. Its strings are borrowed from the command
 * line. Fails with REDRIVE_E_USAGE. Ages are checked, but count only after job_select_date. */
int job_select_read(const struct job_select *select, struct job_filter *ret,
                    struct redrive_err *err);
/* Once the store is open, and with it the time by which its jobs ended: the ages, as bounds of a
 * filter that job_select_read has made. */
void job_select_date(const struct job_select *select, int64_t now_ms, struct job_filter *filter);

/* For commands whose options begin with a struct job_select: its check, before the store is opened,
 * and then the filter. A variant other than 0 is the mask of the states that the command is about,
 * whatever --state says. */
int job_select_check(struct cli *cli, struct redrive_err *err);
void job_select_filter(const struct cli *cli, int64_t now_ms, struct job_filter *ret);

/* Adds the same to the path of a request as parameters (docs/http.md); the tenant is that of the
 * token. `states` as the variant above. */
void job_select_query(const struct job_select *select, uint32_t states, struct buf *path);

/* Whether none of the options was given. */
bool job_select_is_empty(const struct job_select *select);

#endif
