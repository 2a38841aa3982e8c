/* edges.h - what a job waits for, and what waits for it, for people and programs. */
#ifndef ENGINE_REPORT_EDGES_H
#define ENGINE_REPORT_EDGES_H

#include "base/json/writer.h"
#include "store/store.h"

/* How many of a job's edges are shown; the counts say how many there are. */
#define EDGES_SHOWN 100

/* An edge, and the job at its other end. */
struct edge_view {
    struct job_edge edge;
    struct str id; /* absent: the job was removed */
    struct str task;
    enum redrive_state state;
};

struct edge_views {
    struct edge_view *parents; /* those that are open come first */
    size_t n_parents;
    struct edge_view *children;
    size_t n_children;
    struct arena arena;
};

/* Reads up to EDGES_SHOWN of each side; the job is one that was just read. */
int edge_views_read(struct store *store, const struct job *job, struct edge_views *ret,
                    struct redrive_err *err);
void edge_views_release(struct edge_views *views);

/* The members "after" and "followers" of the job's object: {"id":…,"on":…,"on_dead":…,
 * "outcome":…,"state":…}; the id and the state of a job that was removed are null. */
void edge_views_write_json(struct json_writer *w, const struct edge_views *views);

#endif
