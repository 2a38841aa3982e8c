/* select.h - the options that say which jobs are meant.
 *
 * Shared by every command that lists, counts, exports or changes jobs by their properties: a struct
 * job_select inside the options of the command, and the rows in its table. What was given becomes
 * the parameters of an operation, which has the rules.
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

#include "api/api.h"
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

/* Hands over what was given as the parameters of an operation (api/job_query.h), but for the
 * tenant. `states` other than 0 is the mask of the states that are meant, whatever --state says.
 * False: `take` has refused one. */
bool job_select_each(const struct job_select *select, uint32_t states, api_take_fn take, void *ctx);

/* Makes a filter of it, without a limit: what was not given matches everything. Its strings are
 * borrowed from the command line. `now_ms` is the time by which jobs ended. REDRIVE_E_USAGE. */
int job_select_read(const struct job_select *select, uint32_t states, int64_t now_ms,
                    struct job_filter *ret, struct redrive_err *err);

/* For commands whose options begin with a struct job_select: its check, before the store is opened,
 * and then the filter. A variant other than 0 is the mask of the states that the command is about.
 */
int job_select_check(struct cli *cli, struct redrive_err *err);
void job_select_filter(const struct cli *cli, int64_t now_ms, struct job_filter *ret);

/* Whether none of the options was given. */
bool job_select_is_empty(const struct job_select *select);

#endif
