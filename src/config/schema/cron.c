/* cron.c - the keys of `cron`: schedules, time zones, payloads. */
#include "config/schema/schema.h"

#include <limits.h>
#include <stdio.h>

#include "base/err.h"
#include "base/os/file.h"
#include "base/text/buf.h"
#include "config/schema/bind.h"
#include "config/schema/types.h"

/* ---- Kinds of values ------------------------------------------------------------------------- */

static void bind_schedule(struct binder *b, const struct field *field, const struct node *node,
                          void *member)
{
    struct config_cron *entry = member;
    struct redrive_err why;

    if (cron_parse(node->text, &entry->cron, &why) < 0)
        bind_error_from(b, node, &why);
    else
        bind_as(b, field, &FIELD_TEXT, node, &entry->schedule);
}

static void write_schedule(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_cron *entry = member;
    json_field_cstr(w, field->name, entry->schedule);
}

static const struct field_kind TYPE_SCHEDULE = {
    .form = FORM_SCALAR,
    .bind = bind_schedule,
    .write = write_schedule,
    .expects = "a cron expression such as \"*/15 * * * *\" or @daily"};

static void bind_zone(struct binder *b, const struct field *field, const struct node *node,
                      void *member)
{
    struct config_cron *entry = member;
    struct redrive_err why;

    if (zone_load(b->zones, b->arena, b->zone_dir, node->text, &entry->tz, &why) < 0)
        bind_error_from(b, node, &why);
    else
        bind_as(b, field, &FIELD_TEXT, node, &entry->timezone);
}

static void write_zone(const struct field *field, const void *member, struct json_writer *w)
{
    const struct config_cron *entry = member;
    json_field_cstr(w, field->name, entry->timezone);
}

static const struct field_kind TYPE_ZONE = {.form = FORM_SCALAR,
                                            .bind = bind_zone,
                                            .write = write_zone,
                                            .expects = "a time zone such as UTC or Europe/Berlin"};

/* Any value at all, null included, kept as JSON. */
static void bind_payload(struct binder *b, const struct field *field, const struct node *node,
                         void *member)
{
    char shown[NODE_SHOW_MAX];
    struct json_writer writer;
    (void)field;

    /* The worst that escapes can do to text. */
    RELEASED_BY(buf_release) struct buf json = BUF_MAX(6 * NODE_MAX_BYTES);
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
}

static void write_payload(const struct field *field, const void *member, struct json_writer *w)
{
    json_key(w, field->name);
    json_put_raw(w, str_of(*(const char *const *)member));
}

static const struct field_kind TYPE_PAYLOAD = {
    .form = FORM_PART, .bind = bind_payload, .write = write_payload, .expects = "any value"};

/* ---- The table ------------------------------------------------------------------------------- */

static const char *const OVERLAPS[] = {"allow", "skip", "queue_one", NULL};

#define AT(member) offsetof(struct config_cron, member)

static const struct field CRON_FIELDS[] = {
    ROW("task", TYPE_NAME, AT(task), "the task of the jobs it makes", .required = true),
    ROW("schedule", TYPE_SCHEDULE, 0,
        "when: minute, hour, day of the month, month, day of the week", .required = true),
    ROW("timezone", TYPE_ZONE, 0, "the time zone of the schedule", DEFAULT("UTC")),
    ROW("payload", TYPE_PAYLOAD, AT(payload),
        "the payload of its jobs; numbers and truth values are those of JSON", DEFAULT("null")),
    ROW("overlap", FIELD_WORD, AT(overlap),
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

/* ---- Time-zone files ------------------------------------------------------------------------- */

static int unknown_zone(struct str name, const char *dir, const struct redrive_err *why,
                        struct redrive_err *err)
{
    char shown[NODE_SHOW_MAX];
    err_set(err, REDRIVE_E_UNKNOWN, "unknown time zone %s", node_show(name, shown));
    if (why->code == REDRIVE_E_NOT_FOUND) {
        err_detail(err, "there is no such file below %s", dir);
        err_hint(err, "a zone is named like Europe/Berlin; they come with the package tzdata");
    } else {
        err_detail(err, "%s", why->message);
    }
    return REDRIVE_E_UNKNOWN;
}

static int read_file(const char *dir, struct str name, struct tz *ret, struct redrive_err *err)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%.*s", dir, (int)name.len, name.ptr);
    RELEASED_BY(buf_release) struct buf bytes = BUF_MAX(TZ_FILE_MAX_BYTES);
    int rc = file_read(path, TZ_FILE_MAX_BYTES, &bytes, err);
    return rc == 0 ? tz_parse(ret, bytes.data, bytes.len, err) : rc;
}

int zone_read(const char *dir, struct str name, struct tz *ret, struct redrive_err *err)
{
    struct redrive_err why = {.code = REDRIVE_E_NOT_FOUND};

    *ret = *tz_utc();
    if (str_is(name, "UTC"))
        return 0;
    if (!dir)
        dir = ZONE_DIR;
    if (tz_name_valid(name) && read_file(dir, name, ret, &why) == 0)
        return 0;
    tz_release(ret);
    return why.code == REDRIVE_E_NOMEM ? err_nomem(err) : unknown_zone(name, dir, &why, err);
}

int zone_load(struct zone **zones, struct arena *arena, const char *dir, struct str name,
              const struct tz **ret, struct redrive_err *err)
{
    for (const struct zone *known = *zones; known; known = known->next) {
        if (str_is(name, known->name)) {
            *ret = &known->tz;
            return 0;
        }
    }
    struct zone *zone = arena_alloc(arena, sizeof *zone);
    if (zone)
        zone->name = arena_dup(arena, name);
    if (!zone || !zone->name)
        return err_nomem(err);
    int rc = zone_read(dir, name, &zone->tz, err);
    if (rc < 0)
        return rc;
    zone->next = *zones;
    *zones = zone;
    *ret = &zone->tz;
    return 0;
}

void zones_release(struct zone *zones)
{
    for (; zones; zones = zones->next)
        tz_release(&zones->tz);
}
