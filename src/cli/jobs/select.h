/* select.h - the options that say which jobs are meant.
 *
 * Shared by every command that lists, counts, exports or changes jobs by their properties: a struct
 * job_select inside the options of the command, the rows in its table, and job_select_read, which
 * makes a filter of what was given.
 *
 *     struct job_list_options {
 *         struct job_select select;
 *     };
 *     static const struct option OPTIONS[] = {
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

#define JOB_SELECT_TENANT_ROW(S, m)                                        \
    {                                                                      \
        .name = "tenant", INTO_STRING(S, m.tenant), .placeholder = "NAME", \
        .help = "of this tenant; all tenants unless given"                 \
    }

#define JOB_SELECT_STATE_ROW(S, m)                                                             \
    {                                                                                          \
        .name = "state", INTO_STRINGS(S, m.states), .choices = JOB_SELECT_STATES,              \
        .placeholder = "STATE", .help = "in this state, or one of several with commas between" \
    }

#define JOB_SELECT_OLDER_ROW(S, m)                                                \
    {                                                                             \
        .name = "older-than", INTO_STRING(S, m.older_than), .placeholder = "AGE", \
        .help = "that ended at least AGE ago, such as 90m, 24h or 30d"            \
    }

/* All but the state and the age that is required elsewhere. */
#define JOB_SELECT_ROWS(S, m)                                                                    \
    JOB_SELECT_TENANT_ROW(S, m),                                                                 \
        {.name = "task",                                                                         \
         .letter = 't',                                                                          \
         INTO_STRING(S, m.task),                                                                 \
         .placeholder = "NAME",                                                                  \
         .help = "of this task"},                                                                \
        {.name = "queue",                                                                        \
         .letter = 'q',                                                                          \
         INTO_STRING(S, m.queue),                                                                \
         .placeholder = "NAME",                                                                  \
         .help = "in this queue"},                                                               \
        {.name = "class",                                                                        \
         INTO_STRINGS(S, m.classes),                                                             \
         .choices = JOB_SELECT_CLASSES + 1,                                                      \
         .placeholder = "CLASS",                                                                 \
         .help = "whose last error is of this class, or one of several"},                        \
        {.name = "type",                                                                         \
         INTO_STRING(S, m.type),                                                                 \
         .placeholder = "NAME",                                                                  \
         .help = "whose last error has exactly this type"},                                      \
        {.name = "reason",                                                                       \
         INTO_STRINGS(S, m.reasons),                                                             \
         .choices = JOB_SELECT_REASONS + 1,                                                      \
         .placeholder = "REASON",                                                                \
         .help = "that ended for this reason, or one of several"},                               \
        {.name = "text",                                                                         \
         INTO_STRING(S, m.text),                                                                 \
         .placeholder = "TEXT",                                                                  \
         .help = "with TEXT in the message of the last error, case and all"},                    \
        {.name = "user", INTO_STRING(S, m.user), .placeholder = "NAME", .help = "of this user"}, \
        {.name = "group",                                                                        \
         INTO_STRING(S, m.group),                                                                \
         .placeholder = "FINGERPRINT",                                                           \
         .help = "whose errors look alike: 16 digits, see `redrive dlq groups`"},                \
        JOB_SELECT_OLDER_ROW(S, m),                                                              \
    {                                                                                            \
        .name = "newer-than", INTO_STRING(S, m.newer_than), .placeholder = "AGE",                \
        .help = "that ended at most AGE ago"                                                     \
    }

/* Makes a filter: what was not given matches everything. Its strings are borrowed from the command
 * line. Fails with REDRIVE_E_USAGE, for an empty value too: `--task "$TASK"` with nothing in it
 * must not mean every task. Ages are checked, but count only after job_select_date. */
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
