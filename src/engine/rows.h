/* rows.h - the rows of a store as operations read and change them.
 *
 * Reads first, writes last: a scan (store/page.h) gives jobs as they are, and the move is made of
 * those that may make it. A job that the store refuses all the same, because it has moved since, is
 * left out.
 */
#ifndef ENGINE_ROWS_H
#define ENGINE_ROWS_H

#include "store/store.h"

struct engine;

/* Reads one job, by its number or, when that is 0, by tenant and id (no tenant: of any): 1, 0 when
 * there is none, or a negative code; REDRIVE_E_CORRUPT if its row cannot be read. The page is the
 * caller's to release. */
int engine_find(struct engine *e, struct str tenant, struct str id, int64_t seq,
                struct job_page *ret, struct redrive_err *err);

/* Scans. Jobs whose rows cannot be read are left out; the log says so, as after engine_note_page.
 */
int engine_scan(struct engine *e, struct scan *scan, struct job_page *ret, struct redrive_err *err);
/* Logs why the first job was left out of a page of ready jobs or of a scan, once for each cause
 * and process. */
void engine_note_page(struct engine *e, const struct job_page *page);

/* What has become of a scan. */
struct scan_outcome {
    size_t moved; /* or removed */
    bool more;    /* the index has further jobs */
};

/* Makes one move of all jobs that the scan gives. `how` has its kind, and what that needs beside
 * the seqs. */
int scan_and_move(struct engine *e, struct scan *scan, struct move_list how,
                  struct scan_outcome *ret, struct redrive_err *err);
/* The same of the first `most` that `goes` says. `more` is also true when it left some. */
int scan_and_move_some(struct engine *e, struct scan *scan, struct move_list how, size_t most,
                       bool (*goes)(const struct job *job), struct scan_outcome *ret,
                       struct redrive_err *err);

/* Puts one shared row, or takes it away. False in `ret_won`, which may be NULL: the row is no
 * longer at that version, because another process has put it. */
int shared_row_put(struct engine *e, const struct shared_row *row, bool *ret_won,
                   struct redrive_err *err);

/* The first row of a key in a page; NULL: there is none. */
const struct shared_row *shared_row_find(const struct shared_page *page, struct str key);

/* Reads members of a row's JSON object by name, and skips all others. What the row lacks is left as
 * it is. False: it is not JSON, or a member is of another type. */
enum row_type {
    ROW_INT, /* int64_t */
    ROW_BOOL,
    ROW_DOUBLE,
};
struct row_field {
    const char *name;
    enum row_type type;
    void *ret;
};
bool shared_value_read(struct str json, const struct row_field *fields, size_t n);

#endif
