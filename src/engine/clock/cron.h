/* cron.h - periodic tasks: each tick once, however many processes run; set, removed and listed at
 * run time.
 *
 * Which entries there are is in clock/cron_entries.h. The last tick of an entry is in its shared
 * row. A tick compares and sets it in the transaction that submits the job: both happen or neither,
 * and only one process wins. Of ticks that were missed only the last is made up for; an entry that
 * is seen for the first time starts with its next tick.
 *
 * A job does not name the entry that made it. With skip and queue_one its unique key does:
 * `cron:NAME`, or `cron:NAME:next` for the one that waits; with allow it has none.
 *
 * overlap   allow      every tick makes a job
 *           skip       none while the last one's job has not ended
 *           queue_one  one job at most waits for the one that runs, and starts when that has ended
 */
#ifndef ENGINE_CLOCK_CRON_H
#define ENGINE_CLOCK_CRON_H

#include "base/json/writer.h"
#include "config/config.h"
#include "engine/op.h"
#include "store/store.h"

struct engine;

/* Makes the ticks that are due and asks to be woken for the next. */
int cron_ticks(struct engine *e, struct redrive_err *err);

/* A tick by hand: the job of an entry, now, under its rule of overlap. The schedule is not
 * changed. REDRIVE_E_NOT_FOUND: there is no such entry; REDRIVE_E_STATE: the rule
 * allows no further job; `id` and `state` are then those of the job that is in the way. Any other
 * refusal is that of the job. */
#define CRON_ID_MAX 256
struct cron_op {
    struct op op;
    struct str tenant;
    struct str name;
    char id[CRON_ID_MAX]; /* the answer */
    enum redrive_state state;
};
void cron_op_init(struct cron_op *op, struct str tenant, struct str name);

/* ---- Looking --------------------------------------------------------------------------------- */

struct cron_item {
    const struct config_cron *entry;
    bool is_stored;          /* else the configuration's */
    int64_t last_ms;         /* 0: it has not ticked yet */
    int64_t next_ms;         /* 0: never again */
    const char *declared_by; /* a stored one: the application that declares it; NULL: none */
};

struct cron_page {
    struct cron_item *items; /* the configuration's in its order, then the stored ones by name */
    size_t n;
    struct config_part **boxes; /* what stored items point to */
    size_t n_boxes;
};

/* The entries of a tenant, through any store handle: no engine is needed. Entries point into
 * `config`. Stored ones that are not understood here are left out. After a failure the page is
 * empty. */
int cron_page_read(struct store *store, const struct config *config, struct str tenant,
                   int64_t now_ms, struct cron_page *ret, struct redrive_err *err);
void cron_page_release(struct cron_page *page);

/* An entry whose mark is `mark_ms`; 0: it has none. It is declared by no application. */
struct cron_item cron_item_of(const struct config_cron *entry, bool is_stored, int64_t mark_ms,
                              int64_t now_ms);

/* One object; times are text. */
void cron_item_write_json(struct json_writer *w, const struct cron_item *item);

/* ---- Changing -------------------------------------------------------------------------------- */

/*     struct cron_put_op op;
 *     rc = cron_put_op_init(&op, engine, tenant, name, json, err);   op.field: what is at fault
 *     if (rc == 0)
 *         rc = engine_apply_one(engine, &op.op, err);
 *     … op.created, op.shown …
 *     cron_put_op_release(&op);
 *
 * A stored entry belongs to a tenant, is known to all processes on the store as soon as it is
 * committed, and stays until it is removed. Its jobs are the tenant's. What the configuration has
 * cannot be set or removed here: REDRIVE_E_STATE.
 */
struct cron_put_op {
    struct op op;
    struct str tenant;
    struct str name;
    struct str declared_by; /* empty: an operator has set it, and no application declares it */
    char field[CONFIG_FIELD_MAX]; /* of a definition that was refused: what is at fault, or "" */
    struct config *config;        /* what it was checked by */
    struct config_part *box;
    struct buf definition;
    /* The answer. */
    bool created;
    struct cron_item shown;
};

/* Reads and checks the definition, in the form of the configuration's; may read the file of a time
 * zone. Any thread. Tenant and name are borrowed until release. The operation answers
 * REDRIVE_E_STATE also when a tenant has CRON_STORED_MAX entries. An entry that is replaced starts
 * with the next tick of its schedule if that, or its time zone, is another than before; one that is
 * the same is left as it is. */
int cron_put_op_init(struct cron_put_op *op, const struct engine *engine, struct str tenant,
                     struct str name, struct str json, struct redrive_err *err);
/* Accepts one whose init has failed. */
void cron_put_op_release(struct cron_put_op *op);

/* Declares all entries of an application, in the form of the configuration's section `cron`. Those
 * that it has declared before and are not among them are removed; entries of the same name that an
 * operator or another application has set are taken over. What the configuration has is left as it
 * is. */
struct cron_declare_op {
    struct op op;
    struct str tenant;
    struct str declared_by;
    char field[CONFIG_FIELD_MAX]; /* of what was refused: what is at fault, or "" */
    struct arena arena;
    struct cron_put_op *puts;
    size_t n;
    /* The answer. */
    size_t n_removed;
    size_t n_configured; /* entries that the configuration has */
};
/* As cron_put_op_init; tenant, application and JSON are borrowed until release. */
int cron_declare_op_init(struct cron_declare_op *op, const struct engine *engine, struct str tenant,
                         struct str declared_by, struct str json, struct redrive_err *err);
/* Accepts one whose init has failed. */
void cron_declare_op_release(struct cron_declare_op *op);

/* Answers REDRIVE_E_NOT_FOUND with the nearest name. */
void cron_answer_unknown(const struct engine *e, struct op *op, struct str tenant, struct str name);

/* REDRIVE_E_NOT_FOUND: there is no such entry. Jobs that it has made stay. */
struct cron_remove_op {
    struct op op;
    struct str tenant;
    struct str name;
};
void cron_remove_op_init(struct cron_remove_op *op, struct str tenant, struct str name);

#endif
