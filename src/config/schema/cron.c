/* cron.c - the keys of `cron`: schedules, time zones, payloads. */
#include "config/schema/schema.h"

#include "base/err.h"
#include "base/text/buf.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"
#include "config/schema/zone.h"

/* ---- Kinds of values ------------------------------------------------------------------------- */

static void bind_schedule(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    struct config_cron *entry = member;
    struct redrive_err why;

    if (node->type != NODE_SCALAR)
        bind_expected(b, field, node);
    else if (cron_parse(node->text, &entry->cron, &why) < 0)
        bind_error_from(b, node, &why);
    else
        TYPE_STRING.bind(b, field, node, &entry->schedule);
}

static void write_schedule(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_cron *entry = member;
    json_field_cstr(w, field->name, entry->schedule);
}

static const struct field_type TYPE_SCHEDULE = {
    FIELD_SCALAR, bind_schedule, write_schedule,
    .expects = "a cron expression such as \"*/15 * * * *\" or @daily"};

static void bind_zone(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    struct config_cron *entry = member;
    struct redrive_err why;

    if (node->type != NODE_SCALAR) {
        bind_expected(b, field, node);
    } else if (zone_load(b->zones, b->arena, b->zone_dir, node->text, &entry->tz, &why) < 0) {
        bind_error_from(b, node, &why);
    } else {
        TYPE_STRING.bind(b, field, node, &entry->timezone);
    }
}

static void write_zone(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_cron *entry = member;
    json_field_cstr(w, field->name, entry->timezone);
}

static const struct field_type TYPE_ZONE = {FIELD_SCALAR, bind_zone, write_zone,
                                            .expects = "a time zone such as UTC or Europe/Berlin"};

/* Any value at all, null included, kept as JSON. */
static void bind_payload(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    char shown[NODE_SHOW_MAX];
    struct json_writer writer;
    struct buf json;
    (void)field;

    /* The worst that escapes can do to text. */
    buf_init(&json, 6 * NODE_MAX_BYTES);
    json_writer_init(&writer, &json);
    const struct node *bad = node_write_json(node, &writer);
    if (bad) {
        struct redrive_err *err =
            bind_error(b, bad, "%s could be text or not", node_show(bad->text, shown));
        err_detail(err, "readers of YAML disagree about it");
        err_hint(err, "put it in quotes, or write it as JSON does");
    } else {
        b->arena->failed |= buf_failed(&json) != 0;
        *(const char **)member = arena_dup(b->arena, buf_str(&json));
    }
    buf_release(&json);
}

static void write_payload(const struct field *field, const void *member, struct json_writer *w)
{
    json_key(w, field->name);
    json_put_raw(w, str_of(*(const char *const *)member));
}

static const struct field_type TYPE_PAYLOAD = {FIELD_PART, bind_payload, write_payload,
                                               .expects = "any value"};

/* ---- The table ------------------------------------------------------------------------------- */

static const char *const OVERLAPS[] = {"allow", "skip", "queue_one", NULL};

#define AT(member) offsetof(struct config_cron, member)

static const struct field CRON_FIELDS[] = {
    ROW("task", NAME, AT(task), "the task of the jobs it makes", .required = true),
    ROW("schedule", SCHEDULE, 0, "when: minute, hour, day of the month, month, day of the week",
        .required = true),
    ROW("timezone", ZONE, 0, "the time zone of the schedule", DEFAULT("UTC")),
    ROW("payload", PAYLOAD, AT(payload),
        "the payload of its jobs; numbers and truth values are those of JSON", DEFAULT("null")),
    ROW("overlap", WORD, AT(overlap),
        "when the last job has not ended: start one all the same, skip this tick, or keep one "
        "waiting",
        .words = OVERLAPS, DEFAULT("skip")),
};

const char *config_overlap_name(enum config_overlap overlap)
{
    return OVERLAPS[overlap];
}

static void init(struct binder *b, void *object)
{
    struct config_cron *entry = object;
    (void)b;
    entry->timezone = "UTC";
    entry->tz = tz_utc();
    entry->payload = "null";
    entry->overlap = CONFIG_OVERLAP_SKIP;
}

const struct table TABLE_CRON = {
    .name = "cron", FIELDS(CRON_FIELDS), .size = sizeof(struct config_cron), .init = init};
