/* keys.c - which breaker and which limit a job falls under. */
#include "engine/gates/gates.h"

#include "base/err.h"
#include "base/json/json.h"
#include "base/text/buf.h"

/* Adds a value of the payload as text: strings without their quotes, other values as they are
 * written. */
static void add_value(struct json_reader *r, struct buf *out)
{
    struct json_string s;
    struct str raw;
    int type = json_peek(r);
    if (type == JSON_TYPE_STRING && json_read_string(r, &s) == 0)
        (void)json_unescape(s, out);
    else if (type >= 0 && type != JSON_TYPE_NULL && json_skip(r, &raw) == 0)
        (void)buf_add_str(out, raw);
}

/* Steps to the member of that name; false when there is none. */
static bool step_into(struct json_reader *r, struct str name)
{
    struct json_string key;
    char text[KEY_MAX_LEN];
    if (!str_copy(text, sizeof text, name) || json_peek(r) != JSON_TYPE_OBJECT ||
        json_enter_object(r) < 0)
        return false;
    while (json_next_key(r, &key) > 0) {
        if (json_string_is(key, text))
            return true;
        if (json_skip(r, NULL) < 0)
            return false;
    }
    return false;
}

static void add_payload(struct str payload, struct str path, struct buf *out)
{
    RELEASED_BY(json_reader_release) struct json_reader r;
    bool found = payload.len > 0;
    json_reader_init(&r, payload, NULL);
    while (found && path.len > 0) {
        const char *dot = memchr(path.ptr, '.', path.len);
        size_t len = dot ? (size_t)(dot - path.ptr) : path.len;
        found = step_into(&r, (struct str){path.ptr, len});
        path.ptr += dot ? len + 1 : len;
        path.len -= dot ? len + 1 : len;
    }
    if (found)
        add_value(&r, out);
}

static void add_placeholder(const struct job_spec *spec, struct str name, struct buf *out)
{
    static const struct str PAYLOAD = {"payload.", 8};
    if (str_starts_with(name, PAYLOAD))
        add_payload(spec->payload, (struct str){name.ptr + PAYLOAD.len, name.len - PAYLOAD.len},
                    out);
    else if (str_is(name, "task"))
        (void)buf_add_str(out, spec->task);
    else if (str_is(name, "service"))
        (void)buf_add_str(out, spec->service);
    else if (str_is(name, "queue"))
        (void)buf_add_str(out, spec->queue);
    else if (str_is(name, "tenant"))
        (void)buf_add_str(out, spec->tenant);
    else if (str_is(name, "user"))
        (void)buf_add_str(out, spec->user);
}

static void fill_in(const char *template, const struct job_spec *spec, struct buf *out)
{
    for (const char *p = template; *p; p++) {
        const char *close = *p == '{' ? strchr(p, '}') : NULL;
        if (!close) {
            (void)buf_putc(out, *p);
            continue;
        }
        add_placeholder(spec, (struct str){p + 1, (size_t)(close - p - 1)}, out);
        p = close;
    }
}

static int finish(struct buf *out, struct arena *arena, struct str *ret, struct redrive_err *err)
{
    int rc = buf_failed(out);
    for (size_t i = 0; i < out->len; i++)
        if ((unsigned char)out->data[i] < 0x20)
            out->data[i] = '_';
    if (rc == 0) {
        *ret = arena_str(arena, buf_str(out));
        if (!ret->ptr)
            rc = REDRIVE_E_NOMEM;
    }
    if (rc == REDRIVE_E_TOO_BIG)
        return err_set(err, rc, "the key of the job's breaker or limit is over %d bytes",
                       KEY_MAX_LEN);
    return rc < 0 ? err_nomem(err) : 0;
}

int key_of_breaker(const struct config_task *task, const struct job_spec *spec, struct arena *arena,
                   struct str *ret, struct redrive_err *err)
{
    char room[KEY_MAX_LEN + 1];
    struct buf out;
    *ret = (struct str){0};
    if (!task->breaker.key || !*task->breaker.key)
        return 0;
    buf_init_fixed(&out, room, sizeof room);
    fill_in(task->breaker.key, spec, &out);
    return finish(&out, arena, ret, err);
}

/* A job without a user or project is not under their limits. */
static bool is_limited(const struct config_limits *limits, const struct job_spec *spec)
{
    if (limits->rate.count == 0 && limits->concurrency == 0 && !budget_is_set(&limits->budget))
        return false;
    switch (limits->per) {
    case CONFIG_PER_USER: return spec->user.len > 0;
    case CONFIG_PER_PROJECT: return spec->project.len > 0;
    case CONFIG_PER_TASK:
    case CONFIG_PER_KEY:
    default: return true;
    }
}

/* Limits have names of their own, apart from those of breakers: a gate is looked up by name. */
int key_of_limit(const struct config_task *task, const struct job_spec *spec, struct arena *arena,
                 struct str *ret, struct redrive_err *err)
{
    const struct config_limits *limits = &task->limits;
    char room[KEY_MAX_LEN + 1];
    struct buf out;
    *ret = (struct str){0};
    if (!is_limited(limits, spec))
        return 0;
    buf_init_fixed(&out, room, sizeof room);
    switch (limits->per) {
    case CONFIG_PER_USER: fill_in("limit:user:{task}:{user}", spec, &out); break;
    case CONFIG_PER_PROJECT:
        fill_in("limit:project:{task}:", spec, &out);
        (void)buf_add_str(&out, spec->project);
        break;
    case CONFIG_PER_KEY:
        (void)buf_puts(&out, "limit:key:");
        fill_in(limits->key ? limits->key : "", spec, &out);
        break;
    case CONFIG_PER_TASK:
    default: fill_in("limit:task:{task}", spec, &out); break;
    }
    return finish(&out, arena, ret, err);
}
