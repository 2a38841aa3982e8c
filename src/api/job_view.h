/* job_view.h - what a job looks like to clients: one object, written from its row. */
#ifndef API_JOB_VIEW_H
#define API_JOB_VIEW_H

#include "base/json/writer.h"
#include "engine/gates/view.h"
#include "engine/report/edges.h"
#include "store/store.h"

/* The job as everywhere (store/job_json.h), and under the names that other systems know it by:
 * job_id, task_name, status, scheduled_at; and how long payload and result are as they were given.
 * `history` may be NULL. */
void view_job(struct json_writer *w, const struct job *job, const struct attempt_page *history);
/* One job with all there is to tell: also what holds it if it is parked, what it waits for, whether
 * the queue that it waits in is paused, and the fingerprint of its group. */
struct whole_job {
    const struct job *job;
    const struct attempt_page *history;
    const struct gate_info *gate;
    const struct edge_views *edges;
    bool is_paused;
    bool is_letter; /* with the names that view_dead_letter adds */
};
void view_whole_job(struct json_writer *w, const struct whole_job *whole);

/* view_job for a dead letter, with task_id, error_message, error_type, retry_count, failed_at and
 * the fingerprint of its group. */
void view_dead_letter(struct json_writer *w, const struct job *job,
                      const struct attempt_page *history);

#endif
