/* gates.h - the breakers and limits of an engine: read from the store, met by jobs, and written
 * once a transaction. What a single one does is in gate.h. */
#ifndef ENGINE_GATES_GATES_H
#define ENGINE_GATES_GATES_H

#include "base/mem/arena.h"
#include "config/config.h"
#include "engine/gates/gate.h"
#include "store/store.h"

struct engine;

/* ---- In a transaction ------------------------------------------------------------------------ */

/* Reads all gates from the store, and adds what it does not have yet. What an open transaction has
 * changed is forgotten. */
int gates_load(struct engine *e, struct redrive_err *err);
/* Writes the marked ones. REDRIVE_E_CANCELLED: another process was faster, see store.h. */
int gates_save(struct engine *e, struct redrive_err *err);
/* What was seen of the store may not be so any more: STORE_VERSION_UNKNOWN. */
void gates_distrust(struct gates *gates);
/* After gates_save: the transaction is committed. */
void gates_commit(struct engine *e);
/* Or it has failed. Nothing here may be used until gates_load has read it again. */
void gates_rollback(struct gates *gates);

/* Marks up to `limit` gates that are spent, to be removed at the transaction's end, and tells how
 * many. */
int gates_sweep(struct engine *e, size_t limit, size_t *ret_n, struct redrive_err *err);

/* Has a gate follow a clock that was set back, and marks it if that changes it. */
int gate_to_now(struct engine *e, struct gate *gate, struct redrive_err *err);

/* The gate of a key, new if need be; its configuration is the one given (NULL: as it is), or the
 * one that the job's task has. */
int gate_breaker(struct engine *e, struct str tenant, struct str key,
                 const struct redrive_breaker_config *config, struct gate **ret,
                 struct redrive_err *err);
int gate_limit(struct engine *e, const struct job *job, struct gate **ret, struct redrive_err *err);
/* What the task of one of its jobs has now holds for the limit from now on. */
int limit_renew(struct engine *e, struct gate *gate, struct str task, struct redrive_err *err);

/* ---- The sums of limits: limit.c ------------------------------------------------------------- */

/* Makes sure that the slots in use of all limits have been counted, by the jobs that run, since the
 * store was opened or connected to. A limit's row has the sum of all starts and ends under it: a
 * single transaction that was lost in part would make it wrong for good. The difference is added,
 * so that what other processes add meanwhile is not lost; the row's version is compared, so that
 * two processes do not both add it. It can only be done before a transaction has moved a job: else
 * REDRIVE_E_CANCELLED, and the transaction is made again. */
int gates_need_slots(struct engine *e, struct redrive_err *err);
/* When a transaction begins: counts them if they are needed. */
int gates_count_slots(struct engine *e, struct redrive_err *err);

/* Takes over the sums of limits as the store has them now. */
void gates_see(struct engine *e, const struct limit_sums *limits, size_t n);
/* Reads those of all limits, if jobs are parked under some and that was a while ago. */
int gates_look(struct engine *e, struct redrive_err *err);

/* For gates.c: whether there is nothing to put; what a put adds and asks; that it is committed;
 * that its row was read. */
bool limit_says_nothing(const struct gate *gate);
void limit_fill_row(struct gate *gate, struct shared_row *row);
void limit_is_saved(struct engine *e, struct gate *gate);
void limit_is_loaded(struct gate *gate, struct gate_sums sums);

/* ---- How parked jobs come back to the queue: parked.c ---------------------------------------- */

/* Does what is due and asks to be woken for the rest.
 *
 * An open breaker whose time has come gets as many candidates for its probes as it lets through,
 * chosen as core/breaker/breaker.h says. One that has closed lets its jobs go at the pace that it
 * says, the oldest first; while the latest of them have failed, from both ends in
 * turn, so that a run of jobs that are bad themselves does not open it again before a good one was
 * tried. A limit that has room again gets as many as it has room for.
 *
 * A parked job meets its limit only when that has room. So what a reload, a restart or another
 * process has changed of its task reaches the limit here: after each change of the tasks, by the
 * oldest job that is parked under it. */
int parked_release(struct engine *e, struct redrive_err *err);

/* ---- Which breaker and which limit a job falls under: keys.c --------------------------------- */

/* A key is a template of the configuration with the job's own names filled in. What a job does not
 * have is empty. Control characters become `_`, so that a key is always one line of text. It is
 * absent when the task has no breaker or no limits, and lives in the arena. REDRIVE_E_NOMEM, or
 * REDRIVE_E_TOO_BIG when a key would be longer than KEY_MAX_LEN. */
#define KEY_MAX_LEN 512
int key_of_breaker(const struct config_task *task, const struct job_spec *spec, struct arena *arena,
                   struct str *ret, struct redrive_err *err);
int key_of_limit(const struct config_task *task, const struct job_spec *spec, struct arena *arena,
                 struct str *ret, struct redrive_err *err);

#endif
