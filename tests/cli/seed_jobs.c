/* seed_jobs.c - puts jobs into a store, in any state, without waiting for anything.
 *
 *     seed_jobs STORE < LINES
 *
 * Each line of standard input is a JSON object with strings and whole numbers only:
 *
 *     state       the state that the job ends up in (queued)
 *     task, id, tenant, queue, user, key, payload (text of JSON)
 *     class, type, message, stacktrace   of its failure
 *     result      of a completed job
 *     reason      "manual": a dead letter by hand, which never ran
 *     age_s       how long ago all this happened (0)
 *     wait_s      how long a scheduled job still has to wait (3600)
 *     count       how many such jobs (1); of several the number is added to id and key
 *
 * Jobs that are to be queued are submitted last, so that nobody claims them for another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json.h"
#include "base/time/clock.h"
#include "engine/engine.h"
#include "engine/verbs/change.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/control.h"
#include "engine/verbs/settle.h"
#include "engine/verbs/submit.h"

#define LINE_MAX_BYTES (4u * 1024 * 1024)

struct line {
    struct arena arena;
    const char *state, *task, *id, *tenant, *queue, *user, *key, *payload;
    const char *class_, *type, *message, *stacktrace, *result, *reason;
    int64_t age_s, wait_s, count;
};

static int64_t age_s; /* of the line that is being made */

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "seed_jobs: %s: %s\n", what, why);
    exit(1);
}

static int64_t now_ms(void *ctx)
{
    (void)ctx;
    return clock_wall_ms() - age_s * 1000;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static const char *read_text(struct json_reader *r, struct arena *arena)
{
    struct json_string s;
    struct buf text;
    if (json_read_string(r, &s) < 0)
        return NULL;
    buf_init(&text, LINE_MAX_BYTES);
    json_unescape(s, &text);
    char *copy = arena_dup(arena, buf_str(&text));
    buf_release(&text);
    return copy;
}

static void read_field(struct json_reader *r, struct json_string key, struct line *l)
{
    const struct {
        const char *name;
        const char **to;
    } texts[] = {
        {"state", &l->state},   {"task", &l->task},       {"id", &l->id},
        {"tenant", &l->tenant}, {"queue", &l->queue},     {"user", &l->user},
        {"key", &l->key},       {"payload", &l->payload}, {"class", &l->class_},
        {"type", &l->type},     {"message", &l->message}, {"stacktrace", &l->stacktrace},
        {"result", &l->result}, {"reason", &l->reason},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (json_string_is(key, texts[i].name)) {
            *texts[i].to = read_text(r, &l->arena);
            return;
        }
    if (json_string_is(key, "age_s"))
        json_read_int(r, &l->age_s);
    else if (json_string_is(key, "wait_s"))
        json_read_int(r, &l->wait_s);
    else if (json_string_is(key, "count"))
        json_read_int(r, &l->count);
    else
        json_fail(r, REDRIVE_E_UNKNOWN, "unknown key");
}

static void read_line(struct str text, struct line *l)
{
    struct json_reader r;
    struct json_string key;
    struct redrive_err err = {0};
    *l = (struct line){.state = "queued", .task = "t", .wait_s = 3600, .count = 1};
    arena_init(&l->arena);
    json_reader_init(&r, text, NULL);
    json_enter_object(&r);
    while (json_next_key(&r, &key) > 0)
        read_field(&r, key, l);
    json_end(&r);
    if (json_error(&r, &err) < 0)
        die("a line", err.message);
    json_reader_release(&r);
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static void apply(struct engine *e, struct op *op)
{
    struct redrive_err err = {0};
    if (engine_apply_one(e, op, &err) < 0)
        die(err.message, err.detail);
}

/* So that one failure leads to the state that is wanted. */
static const char *policy_for(const char *state)
{
    if (strcmp(state, "dead_letter") == 0)
        return "{\"max_retries\":0}";
    if (strcmp(state, "failed") == 0)
        return "{\"max_retries\":0,\"enable_dlq\":false}";
    return strcmp(state, "retrying") == 0 ? "{\"total_timeout\":\"0\"}" : NULL;
}

static int64_t submit(struct engine *e, const struct line *l, int64_t number)
{
    char id[200], key[200];
    struct submit_op op;
    (void)snprintf(id, sizeof id, l->count > 1 ? "%s-%lld" : "%s", l->id, (long long)number);
    (void)snprintf(key, sizeof key, l->count > 1 ? "%s-%lld" : "%s", l->key ? l->key : "",
                   (long long)number);
    const struct job_spec spec = {
        .task = str_of(l->task),
        .id = str_of(l->id ? id : NULL),
        .tenant = str_of(l->tenant),
        .queue = str_of(l->queue),
        .user = str_of(l->user),
        .unique_key = str_of(l->key ? key : NULL),
        .payload = str_of(l->payload),
        .priority = 100,
        .process_after_ms =
            strcmp(l->state, "scheduled") == 0 ? now_ms(NULL) + l->wait_s * 1000 : 0,
        .policy = str_of(policy_for(l->state)),
    };
    if (submit_op_init(&op, e, &spec, 1, NULL) < 0)
        die("submit", "no memory");
    apply(e, &op.op);
    if (op.answers[0].code < 0)
        die(id, op.answers[0].err->message);
    int64_t seq = op.answers[0].seq;
    submit_op_release(&op);
    return seq;
}

static void change(struct engine *e, enum move_kind kind, int64_t seq)
{
    struct change_item item = {.seq = seq};
    struct change_op op;
    change_op_init(&op, kind, &item, 1);
    apply(e, &op.op);
    if (item.ret.code < 0)
        die("change", redrive_err_text(item.ret.code));
}

static void set_breaker(struct engine *e, const struct line *l, enum breaker_verb verb)
{
    struct breaker_op op;
    breaker_op_init(&op, str_of(l->tenant), str_of(l->task), verb);
    apply(e, &op.op);
}

/* Starts the job; the next to be claimed is this one, as nothing else is queued. */
static void run(struct engine *e, const struct line *l, bool settle)
{
    const struct claim_filter filter = {.limit = 1};
    bool succeeds = strcmp(l->state, "completed") == 0;
    struct claim_op claim;
    struct settle_op op;
    set_breaker(e, l, BREAKER_RESET); /* failures of this kind are no outage */
    claim_op_init(&claim, &filter, STR("seed-worker"), INT64_C(86400000));
    apply(e, &claim.op);
    if (claim.n != 1)
        die("claim", "the job is not there");
    struct settlement s = {
        .seq = claim.jobs[0].status.seq,
        .token = claim.jobs[0].status.token,
        .outcome = {.ending = ENDING_RAN},
        .result = str_of(l->result),
    };
    if (!succeeds)
        s.outcome.failure = (struct redrive_failure){
            .status = l->class_ ? l->class_ : "network",
            .error_type = l->type,
            .message = l->message,
            .stacktrace = l->stacktrace,
            .retry_after_ms = strcmp(l->state, "retrying") == 0 ? l->wait_s * 1000 : 0,
        };
    if (settle) {
        settle_op_init(&op, &s, 1);
        apply(e, &op.op);
        if (s.ret.code < 0 || strcmp(redrive_state_name(s.ret.state), l->state) != 0)
            die(l->state, "the job has not become that");
    }
    claim_op_release(&claim);
}

static void park(struct engine *e, const struct line *l)
{
    const struct claim_filter filter = {.limit = 1};
    struct claim_op claim;
    set_breaker(e, l, BREAKER_TRIP);
    claim_op_init(&claim, &filter, STR("seed-worker"), 0);
    apply(e, &claim.op);
    if (claim.n != 0)
        die("park", "the job runs");
    claim_op_release(&claim);
}

static void make(struct engine *e, const struct line *l, int64_t number)
{
    age_s = l->age_s;
    int64_t seq = submit(e, l, number);
    if (strcmp(l->state, "queued") == 0 || strcmp(l->state, "scheduled") == 0)
        return;
    if (strcmp(l->state, "cancelled") == 0)
        change(e, MOVE_CANCEL, seq);
    else if (l->reason && strcmp(l->reason, "manual") == 0)
        change(e, MOVE_END, seq);
    else if (strcmp(l->state, "parked") == 0)
        park(e, l);
    else
        run(e, l, strcmp(l->state, "running") != 0);
}

/* Each line twice: for what is to be queued on the second pass, for all else on the first. */
static void make_all(struct engine *e, struct str text, bool queued)
{
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end ? (size_t)(end - text.ptr) : text.len;
        struct line l;
        read_line((struct str){text.ptr, len}, &l);
        if ((strcmp(l.state, "queued") == 0) == queued)
            for (int64_t i = 0; i < l.count; i++)
                make(e, &l, i);
        arena_release(&l.arena);
        len += end != NULL;
        text = (struct str){text.ptr + len, text.len - len};
    }
}

int main(int argc, char **argv)
{
    const struct store_options store_options = {.create = true};
    struct engine_options options = {.clock = now_ms};
    struct redrive_err err = {0};
    struct engine *engine;
    struct buf input;
    char block[65536];
    size_t n;
    if (argc != 2)
        die("usage", "seed_jobs STORE < LINES");
    buf_init(&input, LINE_MAX_BYTES);
    while ((n = fread(block, 1, sizeof block, stdin)) > 0)
        buf_add(&input, block, n);
    if (store_open(argv[1], &store_options, &options.store, &err) < 0 ||
        engine_open(&options, &engine, &err) < 0)
        die(err.message, err.detail);
    make_all(engine, buf_str(&input), false);
    make_all(engine, buf_str(&input), true);
    engine_close(engine);
    buf_release(&input);
    return 0;
}
