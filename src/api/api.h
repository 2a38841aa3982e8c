/* api.h - the operations that people and programs ask for, each said once.
 *
 * An operation is a row and a function. The server carries it over HTTP, and the command line calls
 * it in its own process or over HTTP: the answer is the same JSON, byte for byte, for the same
 * store, tenant and time.
 *
 * A read is done with a store handle of the caller, on the thread of the caller, and may wait for
 * the store. What it has written when it fails is no answer.
 *
 * A change waits for nothing: `begin` makes an operation of the engine, which the caller has
 * committed, and `end` makes the answer of what it has become, or asks for another commit.
 */
#ifndef API_API_H
#define API_API_H

#include <stdint.h>

#include "api/job_query.h"
#include "base/json/writer.h"
#include "base/mem/arena.h"
#include "config/config.h"
#include "engine/verbs/change.h"
#include "engine/clock/cron.h"
#include "engine/tasks.h"
#include "engine/verbs/control.h"
#include "engine/verbs/submit.h"
#include "fields/describe.h"
#include "fields/field.h"
#include "redrive.h"
#include "store/store.h"

/* What an operation is given besides the name in its path. `each` hands parameters over one by one
 * until one is refused, for which `take` returns false. */
typedef bool (*api_take_fn)(struct str name, struct str value, void *ctx);
struct api_input {
    void (*each)(void *from, api_take_fn take, void *ctx); /* NULL: there are no parameters */
    void *from;
    struct str body; /* absent or empty: there is none */
    /* A repeated submit with the same key makes no other jobs (API_KEY_NAME over HTTP); absent: the
     * submit has none. */
    struct str key;
    struct str traceparent; /* the trace that new jobs belong to; absent: none */
    /* After a failure: the parameter, or the place in the body; "": it is none of them. */
    char at_fault[FIELD_PLACE_MAX];
};

struct api_context {
    struct store *store; /* NULL for a change, unless its `begin` waits */
    const struct config *config;
    const struct config_strings *redact; /* hidden from the client (redact.h); NULL: nothing */
    /* The operation is about this tenant; absent: about all tenants. A server always names one. */
    struct str tenant;
    struct str name;             /* in place of the placeholder of the path */
    struct api_input *input;     /* NULL: neither parameters nor a body */
    const struct engine *engine; /* that will do a change; NULL for a read */
    struct arena *arena;         /* for as long as the answer is made */
    int64_t now_ms;
    bool tells_places; /* the client may know of files and addresses in errors */
    /* Writes how long the attempts of a task ran that this process has seen end: an object, or null
     * if there are none. NULL: the process runs nothing and serves no workers. */
    void (*write_run_time)(void *run_times, struct str tenant, struct str task,
                           struct json_writer *w);
    void *run_times;
};

struct job_change {
    struct change_op op;
    struct change_item item;
};

/* A change that is under way. It borrows the texts of its context, which live until api_end has
 * answered; it may be in the context's arena itself. */
struct api_change {
    const struct operation *operation;
    struct arena *arena; /* that of the context */
    int status;          /* of an HTTP answer that is no failure; 204: nothing is written */
    union {
        struct op op; /* the other members begin with one */
        struct pause_op pause;
        struct breaker_op breaker;
        struct job_change job;
        struct cron_put_op cron_put;
        struct cron_declare_op cron_declare;
        struct cron_remove_op cron_remove;
        struct cron_op cron_run;
        struct declare_op declare;
        struct {
            struct submit_op submit;
            bool is_array; /* the body was one, and so is the answer */
        };
    };
    struct str job_id; /* of the one job that there is now, once it is answered; absent: none */
};

enum api_method {
    API_GET,
    API_POST,
    API_PUT,
    API_PATCH,
    API_DELETE
};

struct operation {
    enum api_method method;  /* API_GET of a read, and no other of a change */
    const char *path;        /* below /v1: "/queues/{queue}/pause" */
    const char *summary;     /* one line, as docs/openapi.yaml has it */
    enum config_scope scope; /* the scope that a client needs, or several, of which it needs one */
    /* A read. */
    int (*read)(const struct api_context *c, struct json_writer *w, struct redrive_err *err);
    /* A change: makes its operation of the engine, or refuses. A path without a placeholder has the
     * name in `parameter` of the query. */
    int (*begin)(const struct api_context *c, struct api_change *change, struct redrive_err *err);
    const char *parameter;
    /* What may be in the query, unless it is `parameter`, and in the body, for descriptions: the
     * tables by which the functions of the row read them. No table: nothing, or what no table
     * knows. */
    struct field_part parameters;
    struct field_part body;
    bool begin_waits; /* `begin` reads files, or the store: not on a thread that must not wait */
    /* Looks at the change after a commit, also after one that failed. Returns API_ANSWERED,
     * API_GOES_ON, or the code of a refusal; then `ret_field` is the parameter at fault (a literal,
     * or in the arena), or NULL. */
    int (*end)(struct api_change *change, struct json_writer *w, const char **ret_field,
               struct redrive_err *err);
    void (*release)(struct api_change *change); /* what `begin` has made; NULL: nothing */
    int variant; /* tells operations apart that share their functions */
};

enum {
    API_ANSWERED = 0, /* the answer is written */
    API_GOES_ON = 1,  /* the change must be committed once more */
};

/* Begins a change. After a refusal nothing is under way, and the input says what was at fault. */
int api_begin(const struct operation *operation, const struct api_context *c,
              struct api_change *ret, struct redrive_err *err);
/* The change after a commit, as `end` of its row: unless the change goes on it is over, and what it
 * has made is released. */
int api_end(struct api_change *change, struct json_writer *w, const char **ret_field,
            struct redrive_err *err);

/* ---- Queues, breakers, limits (control.c) ---------------------------------------------------- */

/* {"items":[…],"next":null}, all of them. */
extern const struct operation API_QUEUES;   /* with the jobs of each by state */
extern const struct operation API_BREAKERS; /* also those that no job has met and a task declares */
extern const struct operation API_LIMITS;   /* that a job has met */

/* {"queue":…,"paused":…}. A name that no queue can have is refused. */
extern const struct operation API_PAUSE;
extern const struct operation API_RESUME;

/* {"key":…,"state":…} and the counts of the breaker. Only one that is there or that a task declares
 * can be reset, or be told of a failure. */
extern const struct operation API_BREAKER_RESET;
extern const struct operation API_BREAKER_TRIP;
extern const struct operation API_BREAKER_DISABLE;
extern const struct operation API_BREAKER_FAILURE;

/* ---- Jobs (jobs.c, change.c) ----------------------------------------------------------------- */

/* {"items":[…],"next":…}: the jobs that the parameters select (job_query.h), each as view_job
 * writes it. A page of large jobs ends before its limit, and so does one of jobs that are rare
 * (search.h) or in which much is to be hidden; `next` goes on from there, as the parameter
 * `cursor`. With jobs that cannot be read also "unreadable", how many, and "unreadable_first", why
 * the first.
 *
 * A client from which values are hidden may not search in errors: it could find out what is hidden.
 */
extern const struct operation API_JOBS;
/* One job, by its id: all there is to tell (job_view.h). REDRIVE_E_NOT_FOUND; REDRIVE_E_USAGE when
 * it is about all tenants and several have such a job. */
extern const struct operation API_JOB;
/* The jobs that edges connect with this one. */
extern const struct operation API_WORKFLOW;

/* {"id":…,"tenant":…,"state":…} of a job after its change (change.c). REDRIVE_E_STATE, with the
 * state that it is in, when the change is not possible from there.
 *
 * A job that waits for its time runs now, a dead or failed one is redriven. */
extern const struct operation API_CANCEL;
extern const struct operation API_RETRY;

/* ---- New jobs (submit.c) --------------------------------------------------------------------- */

/* {"id":…,"state":…,"existed":…} of the job of the body (new_job.h), or of those of an array
 * {"items":[…]}: all of them, or none. Both operations need an input. */
extern const struct operation API_SUBMIT;
/* The same of a job of the task of the path, whose payload is the body. */
extern const struct operation API_SUBMIT_TASK;

#define API_KEY_NAME "Idempotency-Key"
/* Bytes of a key: it is an id, less what an array adds. */
#define API_KEY_MAX 200

/* ---- Dead letters (dead.c, change.c) --------------------------------------------------------- */

extern const struct operation API_DEAD_LETTERS; /* as API_JOBS, those that died last first */
extern const struct operation API_DEAD_LETTER;
extern const struct operation API_DEAD_GROUPS; /* by fingerprint, the largest first */
extern const struct operation API_DEAD_STATS;  /* counts by class, reason, task and type */

/* As the changes of jobs; of other jobs than dead letters REDRIVE_E_STATE. */
extern const struct operation API_RETRY_LETTER;
extern const struct operation API_EDIT_LETTER;   /* the body is {"payload":…} */
extern const struct operation API_REMOVE_LETTER; /* for good; answers with nothing */

/* ---- Cron entries (cron.c) ------------------------------------------------------------------- */

/* {"items":[…],"next":null}: the entries of the tenant, those of the configuration first. */
extern const struct operation API_CRON;
/* The body is an entry in the form of the configuration's. The answer is the entry, with 201 if it
 * is new. */
extern const struct operation API_CRON_PUT;
extern const struct operation API_CRON_REMOVE; /* answers with nothing */
/* {"id":…,"state":…} of the job that was made. */
extern const struct operation API_CRON_RUN;
/* {"declared":…,"configured":…,"removed":…}. The body is all entries of the application that is
 * named, in the form of the configuration's section. */
extern const struct operation API_CRON_DECLARE;

/* ---- Tasks (tasks.c) ------------------------------------------------------------------------- */

/* {"items":[…],"next":null}: the tasks of the configuration, those that processes have published,
 * and others that have or had jobs, each with its definition in force, its jobs and its counters.
 */
extern const struct operation API_TASKS;
/* A task by its definition in force; `class` is how its attempts fail. */
extern const struct operation API_TASK;
/* {"declared":…,"changed":…}. The body has the form of the configuration's section. */
extern const struct operation API_TASKS_DECLARE;

/* ---- What a store counts (figures.c) --------------------------------------------------------- */

/* Counters, jobs by state and queue, breakers by state, workers, health: docs/monitoring.md. */
extern const struct operation API_STATS;
extern const struct operation API_RETRY_STATS; /* rates in percent, open breakers, dead letters */
extern const struct operation API_WORKERS;     /* that are alive */

/* What `redrive top` shows besides dead letters; with the parameter `breakers` also those that are
 * not closed, for which parked jobs are counted one by one. */
extern const struct operation API_TOP;

/* {"status":…,"health_score":…,…,"store":{"status":"ok"}}: how well the work of all tenants goes. A
 * server does not call this read, which waits for the store. */
extern const struct operation API_HEALTH;

/* What that object tells. */
struct api_health {
    const struct redrive_health *figures; /* NULL: they cannot be read, for `error` */
    size_t workers;
    const char *store;       /* its status; "ok", and then nothing of what follows */
    int64_t since_ms;        /* since when it is not ok */
    const char *store_error; /* why; NULL: it is ok */
    const char *error;
};
void api_write_health(struct json_writer *w, const struct api_health *health);

/* Those of the configuration, of published tasks and of counters, with the figures of their arms.
 */
extern const struct operation API_EXPERIMENTS;
extern const struct operation API_EXPERIMENT; /* by its name; REDRIVE_E_NOT_FOUND */

/* ---- For operations -------------------------------------------------------------------------- */

/* The jobs that the parameters select; `order` unless they say another. */
int api_query(const struct api_context *c, unsigned uses, enum job_order order,
              struct job_query *ret, struct redrive_err *err);

/* The page of a filter, each job as `view` writes it. */
typedef void (*api_view_fn)(struct json_writer *w, const struct job *job,
                            const struct attempt_page *history);
int api_write_page(const struct api_context *c, const struct job_filter *filter, api_view_fn view,
                   struct json_writer *w, struct redrive_err *err);

/* The job of the context's name. With `states` (bit mask; 0: any, else dead letters) a job in
 * another state is REDRIVE_E_STATE. */
int api_find_job(const struct api_context *c, uint32_t states, struct job_page *ret,
                 struct redrive_err *err);
/* The same with all there is to tell about it. */
int api_write_job(const struct api_context *c, uint32_t states, struct json_writer *w,
                  struct redrive_err *err);

/* Why there is no job, or no dead letter (`letter`), of an id; REDRIVE_E_NOT_FOUND. */
int api_not_there(struct str id, bool letter, struct redrive_err *err);
/* Why a job is none of the dead letters; REDRIVE_E_STATE. */
int api_no_letter(struct str id, enum redrive_state state, struct redrive_err *err);

/* What redaction may take for one answer, of redactor.work: about two seconds. */
#define API_WORK_MAX (5ull * REDACT_WORK_MAX)

/* The body; absent or empty: there is none. */
static inline struct str api_body(const struct api_context *c)
{
    return c->input ? c->input->body : (struct str){0};
}

/* Hands over the parameters, of which there may be none. */
void api_each(const struct api_context *c, api_take_fn take, void *ctx);

/* Returns `rc`. After a failure the input says that this parameter, or place in the body, is at
 * fault; "": none of them. */
int api_note_fault(const struct api_context *c, int rc, const char *place);

/* For `end`, after a commit that was refused or failed. `field` is the parameter that has the name,
 * if the engine refuses names that are none; NULL: there is no such parameter. */
int api_refuse_op(const struct op *op, const char *field, const char **ret_field,
                  struct redrive_err *err);

/* Around the items of a list; `next` is where the next page begins, NULL: there is none. */
void api_begin_items(struct json_writer *w);
void api_end_items(struct json_writer *w, const char *next);

#endif
