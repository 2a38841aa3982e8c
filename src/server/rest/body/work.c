/* work.c - reads claims, settlements and heartbeats. */
#include "server/rest/body/work.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/err.h"
#include "core/check.h"
#include "core/classify/classify.h"

const char *lease_token_write(uint64_t token, char out[LEASE_TOKEN_MAX])
{
    (void)snprintf(out, LEASE_TOKEN_MAX, "%016" PRIx64, token);
    return out;
}

uint64_t lease_token_read(struct str text)
{
    uint64_t token = 0;
    if (text.len != LEASE_TOKEN_MAX - 1)
        return 0;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return 0;
        token = token << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return token;
}

/* ---- Claims ---------------------------------------------------------------------------------- */

#define CLAIM(m) offsetof(struct claim_body, m)

static const struct field CLAIM_MEMBERS[] = {
    {"queues", &FIELD_QUEUES, CLAIM(queues), .max = CLAIM_BODY_QUEUES},
    {"tasks", &FIELD_NAMES, CLAIM(tasks), .max = CLAIM_BODY_TASKS},
    {"n", &FIELD_INT, CLAIM(n), .min = 1, .max = CLAIM_BODY_MAX},
    {"worker", &FIELD_NAME, CLAIM(worker)},
    {"lease", &FIELD_SPAN, CLAIM(lease_ms), .min = LEASE_MIN_MS, .max = LEASE_MAX_MS},
    {"wait", &FIELD_SPAN, CLAIM(wait_ms), .min = 0, .max = CLAIM_WAIT_MAX_MS},
    {0},
};

int claim_body_read(struct str text, struct arena *arena, struct claim_body *ret,
                    struct redrive_err *err)
{
    struct field_reader in;
    uint64_t given;
    *ret = (struct claim_body){.n = 1};
    if (text.len == 0)
        return 0;
    fields_json_open(&in, text, arena, 0, err);
    int rc = fields_json_object(&in, CLAIM_MEMBERS, ret, &given);
    if (rc == 0)
        rc = fields_json_end(&in);
    fields_json_close(&in);
    (void)str_copy(ret->field, sizeof ret->field, str_of(in.place));
    if (rc == 0 && str_starts_with(ret->worker, STR(NAME_FAKTORY_WORKER))) {
        (void)str_copy(ret->field, sizeof ret->field, STR("worker"));
        return err_set(err, REDRIVE_E_INVALID,
                       "names that begin with '" NAME_FAKTORY_WORKER
                       "' are those of Faktory workers");
    }
    return rc;
}

/* ---- Lists of items -------------------------------------------------------------------------- */

static const struct field ITEMS[] = {{"items", &FIELD_JSON, 0}, {0}};

/* A list of items while it is read. */
struct item_list {
    struct str tenant;
    size_t size; /* of one */
    int (*read_one)(struct field_reader *in, struct str tenant, void *item);
    struct items_body *body;
};

/* The id of an item that has some fault, for the answer. */
static struct str id_of(struct str item, struct arena *arena)
{
    struct json_string key, id;
    struct str ret = {0};
    RELEASED_BY(buf_release) struct buf text = BUF_MAX(FIELD_NAME_MAX);
    RELEASED_BY(json_reader_release) struct json_reader r;
    json_reader_init(&r, item, NULL);
    bool is_sound = json_peek(&r) == JSON_TYPE_OBJECT && json_enter_object(&r) == 0;
    while (is_sound && json_next_key(&r, &key) > 0) {
        if (!json_string_is(key, "id")) {
            is_sound = json_skip(&r, NULL) == 0;
            continue;
        }
        if (json_peek(&r) == JSON_TYPE_STRING && json_read_string(&r, &id) == 0 &&
            json_unescape(id, &text) == 0)
            ret = str_of(arena_dup(arena, buf_str(&text)));
        break;
    }
    return ret;
}

/* Reads one by itself, so that what is behind it does not suffer. NOMEM is not its own fault. */
static int read_item(struct str text, struct arena *arena, const struct item_list *list)
{
    struct items_body *body = list->body;
    struct field_reader in;
    struct redrive_err err = {0};
    void *item = (char *)body->items + body->n * list->size;
    fields_json_open(&in, text, arena, 0, &err);
    (void)snprintf(in.at, sizeof in.at, "items[%zu].", body->n_sent);
    int rc = list->read_one(&in, list->tenant, item);
    fields_json_close(&in);
    struct item_fault *fault = NULL;
    if (rc == 0) {
        body->n++;
    } else {
        memset(item, 0, list->size); /* the next one is read into the same place */
        fault = rc == REDRIVE_E_NOMEM ? NULL : arena_alloc(arena, sizeof *fault);
        if (!fault)
            return REDRIVE_E_NOMEM;
        *fault = (struct item_fault){.id = id_of(text, arena), .err = err};
        (void)str_copy(fault->field, sizeof fault->field, str_of(in.place));
    }
    body->faults[body->n_sent++] = fault;
    return 0;
}

static int read_list(struct field_reader *in, const struct item_list *list, size_t n)
{
    struct str item;
    int rc = fields_json_enter(in, "items");
    while (rc == 0 && (rc = fields_json_next(in, "items", list->body->n_sent)) > 0) {
        if (list->body->n_sent == n || json_skip(&in->json, &item) < 0)
            return field_fault(in, "", REDRIVE_E_RANGE, "it cannot be read");
        rc = read_item(item, in->arena, list);
        if (rc < 0)
            return err_nomem(in->err);
    }
    return rc;
}

/* What is at fault when nothing can be read. */
static int refuse_all(struct items_body *body, struct redrive_err *err)
{
    const struct item_fault *first = body->faults[0];
    (void)str_copy(body->field, sizeof body->field, str_of(first->field));
    *err = first->err;
    return err->code;
}

/* Reads {"items": […]}. */
static int read_items(struct str text, struct arena *arena, const struct item_list *list,
                      struct redrive_err *err)
{
    struct items_body *body = list->body;
    struct field_reader in;
    struct str items = {0};
    uint64_t given;
    fields_json_open(&in, text, arena, 0, err);
    int rc = fields_json_object(&in, ITEMS, &items, &given);
    if (rc == 0)
        rc = fields_json_end(&in);
    if (rc == 0 && given == 0)
        rc = field_missing(&in, "items", "an array of objects");
    fields_json_close(&in);
    size_t n = rc == 0 ? fields_json_count(items, SETTLE_BODY_MAX) : 0;
    if (rc == 0 && n > SETTLE_BODY_MAX) {
        rc = field_fault(&in, "items", REDRIVE_E_RANGE, "there are too many");
        err_detail(err, "expected up to %d items", SETTLE_BODY_MAX);
    }
    if (rc == 0) {
        body->items = arena_array(arena, n + 1, list->size);
        body->faults = arena_array(arena, n + 1, sizeof(struct item_fault *));
        fields_json_open(&in, items, arena, 0, err);
        rc = body->items && body->faults ? read_list(&in, list, n) : err_nomem(err);
        fields_json_close(&in);
    }
    (void)str_copy(body->field, sizeof body->field, str_of(in.place));
    return rc == 0 && body->n == 0 && body->n_sent > 0 ? refuse_all(body, err) : rc;
}

/* ---- Settlements ----------------------------------------------------------------------------- */

struct given_outcome {
    struct str id;
    struct str token;
    int status;
    int class_;
    const char *message;
    const char *error_type;
    struct field_names error_types;
    const char *stacktrace;
    const char *sqlstate;
    int64_t http_status;
    int64_t exit_code;
    int64_t retry_after_ms;
    struct str result;
    bool release;
    int64_t snooze_ms;
};

enum {
    ID,
    TOKEN,
    STATUS,
    CLASS,
    MESSAGE,
    ERROR_TYPE,
    ERROR_TYPES,
    STACKTRACE,
    SQLSTATE,
    HTTP_STATUS,
    EXIT_CODE,
    RETRY_AFTER,
    RESULT,
    RELEASE,
    SNOOZE,
};

#define CLASS_WORD(name, text, retried, counts, severity) text,
/* The handler's own status; `FAIL` leaves the class to the table. */
static const char *const STATUSES[] = {"SUCCESS", "TRANSIENT_FAIL", "PERMANENT_FAIL", "FAIL",
                                       REDRIVE_CLASS_MAP(CLASS_WORD) NULL};
#define STATUS_FAIL 3

#define OUTCOME(m) offsetof(struct given_outcome, m)

static const struct field OUTCOME_MEMBERS[] = {
    [ID] = {"id", &FIELD_NAME, OUTCOME(id)},
    [TOKEN] = {"token", &FIELD_NAME, OUTCOME(token)},
    [STATUS] = {"status", &FIELD_WORD, OUTCOME(status), .words = STATUSES},
    [CLASS] = {"class", &FIELD_TERM, OUTCOME(class_), .vocabulary = VOCABULARY_CLASS},
    [MESSAGE] = {"message", &FIELD_TEXT, OUTCOME(message), .max = SETTLE_TEXT_BYTES},
    [ERROR_TYPE] = {"error_type", &FIELD_TEXT, OUTCOME(error_type), .max = FIELD_NAME_MAX},
    [ERROR_TYPES] = {"error_types", &FIELD_NAMES, OUTCOME(error_types),
                     .max = REDRIVE_ERROR_TYPES_MAX},
    [STACKTRACE] = {"stacktrace", &FIELD_TEXT, OUTCOME(stacktrace), .max = SETTLE_TEXT_BYTES},
    [SQLSTATE] = {"sqlstate", &FIELD_TEXT, OUTCOME(sqlstate), .max = 5},
    [HTTP_STATUS] = {"http_status", &FIELD_INT, OUTCOME(http_status), .min = 100, .max = 599},
    [EXIT_CODE] = {"exit_code", &FIELD_INT, OUTCOME(exit_code), .min = 0, .max = 255},
    [RETRY_AFTER] = {"retry_after", &FIELD_SPAN, OUTCOME(retry_after_ms), .max = LEASE_MAX_MS},
    [RESULT] = {"result", &FIELD_JSON, OUTCOME(result)},
    [RELEASE] = {"release", &FIELD_BOOL, OUTCOME(release)},
    [SNOOZE] = {"snooze", &FIELD_SPAN, OUTCOME(snooze_ms), .max = INT64_C(30) * LEASE_MAX_MS},
    {0},
};

/* Out of memory there are none; the arena remembers that it failed. */
static void read_types(struct field_reader *in, const struct field_names *names,
                       struct redrive_failure *ret)
{
    const char **types = arena_array(in->arena, names->n, sizeof *types);
    for (size_t i = 0; types && i < names->n; i++)
        types[i] = arena_dup(in->arena, names->items[i]);
    ret->error_types = types;
    ret->n_error_types = types ? names->n : 0;
}

/* Without a status an error means failure; nothing at all is a mistake of the caller and no
 * success. */
static int read_failure(struct field_reader *in, const struct given_outcome *o, uint64_t given,
                        struct redrive_failure *ret)
{
    *ret = (struct redrive_failure){
        .error_type = o->error_type,
        .message = o->message,
        .stacktrace = o->stacktrace,
        .sqlstate = o->sqlstate,
        .http_status = (int)o->http_status,
        .exit_code = (int)o->exit_code,
        .retry_after_ms = o->retry_after_ms,
    };
    read_types(in, &o->error_types, ret);
    if (field_given(given, STATUS) && field_given(given, CLASS))
        return field_fault(in, "class", REDRIVE_E_INVALID, "it and 'status' exclude each other");
    if (field_given(given, CLASS))
        ret->status = redrive_class_name((enum redrive_class)o->class_);
    if (field_given(given, STATUS) && o->status == STATUS_FAIL)
        ret->failed = true;
    else if (field_given(given, STATUS))
        ret->status = STATUSES[o->status];
    if (field_given(given, STATUS) || field_given(given, CLASS) ||
        field_given(given, HTTP_STATUS) || field_given(given, EXIT_CODE))
        return 0;
    ret->failed = failure_type(ret) || o->message || o->stacktrace || o->sqlstate;
    return ret->failed ? 0
                       : field_missing(in, "status", "SUCCESS, FAIL or a class: how did it end?");
}

static int read_outcome(struct field_reader *in, const struct given_outcome *o, uint64_t given,
                        struct outcome *ret)
{
    if (o->release && field_given(given, SNOOZE))
        return field_fault(in, "snooze", REDRIVE_E_INVALID, "it and 'release' exclude each other");
    if (o->release) {
        ret->ending = ENDING_RELEASED;
        return 0;
    }
    if (field_given(given, SNOOZE)) {
        ret->ending = ENDING_SNOOZED;
        ret->snooze_ms = o->snooze_ms;
        return 0;
    }
    ret->ending = ENDING_RAN;
    return read_failure(in, o, given, &ret->failure);
}

static int need_lease(struct field_reader *in, struct str id, struct str token)
{
    if (id.len == 0)
        return field_missing(in, "id", "the id of a job");
    return token.len > 0 ? 0 : field_missing(in, "token", "the token of the claim, as text");
}

static int read_settlement(struct field_reader *in, struct str tenant, void *item)
{
    struct settlement *s = item;
    struct given_outcome o = {0};
    uint64_t given;
    int rc = fields_json_object(in, OUTCOME_MEMBERS, &o, &given);
    if (rc == 0)
        rc = need_lease(in, o.id, o.token);
    if (rc == 0)
        rc = read_outcome(in, &o, given, &s->outcome);
    if (rc == 0 && o.result.len > SETTLE_RESULT_BYTES)
        rc = field_fault(in, "result", REDRIVE_E_TOO_BIG, "it is over %u bytes",
                         SETTLE_RESULT_BYTES);
    s->tenant = tenant;
    s->id = o.id;
    s->token = lease_token_read(o.token);
    if (!str_is(o.result, "null"))
        s->result = o.result;
    return rc;
}

int settle_body_read(struct str text, struct str tenant, struct arena *arena,
                     struct items_body *ret, struct redrive_err *err)
{
    const struct item_list list = {tenant, sizeof *ret->settlements, read_settlement, ret};
    *ret = (struct items_body){0};
    return read_items(text, arena, &list, err);
}

/* ---- Heartbeats ------------------------------------------------------------------------------ */

struct given_extension {
    struct str id;
    struct str token;
    int64_t lease_ms;
};

#define EXTENSION(m) offsetof(struct given_extension, m)

static const struct field EXTENSION_MEMBERS[] = {
    {"id", &FIELD_NAME, EXTENSION(id)},
    {"token", &FIELD_NAME, EXTENSION(token)},
    {"lease", &FIELD_SPAN, EXTENSION(lease_ms), .min = LEASE_MIN_MS, .max = LEASE_MAX_MS},
    {0},
};

static int read_extension(struct field_reader *in, struct str tenant, void *item)
{
    struct given_extension x = {0};
    uint64_t given;
    int rc = fields_json_object(in, EXTENSION_MEMBERS, &x, &given);
    if (rc == 0)
        rc = need_lease(in, x.id, x.token);
    *(struct extension *)item = (struct extension){
        .tenant = tenant,
        .id = x.id,
        .token = lease_token_read(x.token),
        .lease_ms = x.lease_ms,
    };
    return rc;
}

int extend_body_read(struct str text, struct str tenant, struct arena *arena,
                     struct items_body *ret, struct redrive_err *err)
{
    const struct item_list list = {tenant, sizeof *ret->extensions, read_extension, ret};
    *ret = (struct items_body){0};
    return read_items(text, arena, &list, err);
}
