/* cron.c - the cron entries of a server, read back into what the engine gives. */
#include "cli/remote/remote.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/json/writer.h"

/* Above the limit of an entry. */
#define DEFINITION_MAX (1024u * 1024)

struct written_entry {
    struct str name;
    struct str task;
    struct str schedule;
    struct str timezone;
    struct str overlap;
    struct str payload; /* JSON */
    struct str source;
    struct str declared_by;
    int64_t last_ms;
    int64_t next_ms;
};

#define ENTRY(m) offsetof(struct written_entry, m)
static const struct unpack ENTRIES[] = {
    {"name", UNPACK_STR, ENTRY(name)},
    {"task", UNPACK_STR, ENTRY(task)},
    {"schedule", UNPACK_STR, ENTRY(schedule)},
    {"timezone", UNPACK_STR, ENTRY(timezone)},
    {"overlap", UNPACK_STR, ENTRY(overlap)},
    {"payload", UNPACK_JSON, ENTRY(payload)},
    {"source", UNPACK_STR, ENTRY(source)},
    {"declared_by", UNPACK_STR, ENTRY(declared_by)},
    {"last_tick", UNPACK_TIME, ENTRY(last_ms)},
    {"next_tick", UNPACK_TIME, ENTRY(next_ms)},
    {0},
};

/* The entry in the form of the configuration, whose reader finds the time zone. */
static void put_definition(const struct written_entry *e, struct buf *out)
{
    struct json_writer w;
    json_writer_init(&w, out);
    json_begin_object(&w);
    json_field_string(&w, "task", e->task);
    json_field_string(&w, "schedule", e->schedule);
    json_field_string(&w, "timezone", e->timezone);
    json_field_string(&w, "overlap", e->overlap);
    json_key(&w, "payload");
    json_put_raw(&w, e->payload.len > 0 ? e->payload : STR("null"));
    json_end_object(&w);
}

static int restore_entry(const struct written_entry *e, struct cron_page *page,
                         struct redrive_err *err)
{
    struct config_part *box = NULL;
    RELEASED_BY(buf_release) struct buf definition = BUF_MAX(DEFINITION_MAX);
    put_definition(e, &definition);
    int rc = cron_parse_json(NULL, false, e->name, buf_str(&definition), &box, NULL, err);
    if (rc < 0)
        return rc;
    page->boxes[page->n_boxes++] = box;
    page->items[page->n++] = (struct cron_item){
        .entry = &box->cron,
        .is_stored = str_is(e->source, "stored"),
        .last_ms = e->last_ms,
        .next_ms = e->next_ms,
        .declared_by = e->declared_by.len > 0 ? arena_dup(&box->arena, e->declared_by) : NULL,
    };
    return 0;
}

static int restore_entries(const struct written_entry *entries, size_t n, struct cron_page *ret,
                           struct redrive_err *err)
{
    *ret = (struct cron_page){
        .items = calloc(n + 1, sizeof *ret->items),
        .boxes = calloc(n + 1, sizeof(struct config_part *)),
    };
    if (!ret->items || !ret->boxes) {
        cron_page_release(ret);
        return err_nomem(err);
    }
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = restore_entry(&entries[i], ret, err);
    if (rc < 0)
        cron_page_release(ret);
    return rc;
}

int remote_cron(struct remote *remote, struct cron_page *ret, struct redrive_err *err)
{
    struct unpack_list list = {0};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = remote_get_list(remote, "/cron", ENTRIES, sizeof(struct written_entry), NULL, &arena,
                             &list, err);
    return rc == 0 ? restore_entries(list.rows, list.n, ret, err) : rc;
}

int remote_cron_put(struct remote *remote, const char *name, struct str definition,
                    struct cron_page *ret, bool *ret_created, struct redrive_err *err)
{
    const struct remote_request request = {"PUT", "/cron/", str_of(name), NULL, definition};
    struct written_entry written = {0};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = remote_ask(remote, &request, ENTRIES, &arena, &written, err);
    *ret_created = rc == 201;
    if (rc >= 0)
        rc = restore_entries(&written, 1, ret, err);
    return rc;
}

int remote_cron_run(struct remote *remote, const char *name, char ret_id[CRON_ID_MAX],
                    enum redrive_state *ret_state, struct redrive_err *err)
{
    struct job_made {
        struct str id;
        int state;
    } made = {0};
    static const struct unpack MADE[] = {
        {"id", UNPACK_STR, offsetof(struct job_made, id)},
        {"state", UNPACK_WORD, offsetof(struct job_made, state), .words = VOCABULARY_STATE},
        {0},
    };
    const struct remote_request request = {"POST", "/cron/", str_of(name), "/run", {0}};
    RELEASED_BY(arena_release) struct arena arena = {0};
    int rc = remote_ask(remote, &request, MADE, &arena, &made, err);
    (void)str_copy(ret_id, CRON_ID_MAX, made.id);
    *ret_state = (enum redrive_state)made.state;
    return rc < 0 ? rc : 0;
}
