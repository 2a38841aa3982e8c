/* jobs.c - jobs of a server, read back into what the stores give. */
#include "cli/remote/remote.h"

#include "base/err.h"

/* ---- Changes --------------------------------------------------------------------------------- */

int remote_job_change(struct remote *remote, const char *method, const char *before, struct str id,
                      const char *after, struct str body, enum redrive_state *ret_state,
                      struct redrive_err *err)
{
    static const struct unpack STATE[] = {{"state", UNPACK_WORD, 0, .words = VOCABULARY_STATE},
                                          {0}};
    const struct remote_request request = {method, before, id, after, body};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int state = -1;
    int rc = remote_ask(remote, &request, STATE, &arena, &state, err);
    if (rc >= 0 && state >= 0)
        *ret_state = (enum redrive_state)state;
    return rc < 0 ? rc : 0;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

int remote_tasks(struct remote *remote, struct arena *arena, struct remote_task **ret,
                 size_t *ret_n, struct redrive_err *err)
{
    static const struct unpack COUNTERS[] = {
        {.key = "jobs_started", UNPACK_U64, offsetof(struct remote_task, started)}, {0}};
    static const struct unpack TASKS[] = {
        {.key = "task", UNPACK_STR, offsetof(struct remote_task, name)},
        {.key = "declared", UNPACK_BOOL, offsetof(struct remote_task, is_declared)},
        {.key = "counters", UNPACK_OBJECT, 0, .object = COUNTERS},
        {0},
    };
    struct unpack_list list = {0};
    int rc = remote_get_list(remote, "/tasks", TASKS, sizeof **ret, NULL, arena, &list, err);
    *ret = list.rows;
    *ret_n = rc < 0 ? 0 : list.n;
    return rc;
}
