#include "engine/verbs/repetition.h"

#include <stdio.h>

#include "base/err.h"
#include "core/name.h"
#include "engine/private.h"

bool repetition_is_array(const struct submit_op *op)
{
    return op->key.len > 0 && !(op->n == 1 && str_eq(op->specs[0].id, op->key));
}

/* Jobs of the request may have ids of their own, which the key has nothing to do with. */
static bool is_of_key(struct str id, struct str key)
{
    return str_starts_with(id, key) && (id.len == key.len || id.ptr[key.len] == '/');
}

static struct str as_json(struct str payload)
{
    return payload.len > 0 ? payload : STR("null");
}

const char *repetition_difference(const struct job_spec *a, const struct job_spec *b)
{
    const struct {
        const char *name;
        struct str a, b;
    } parts[] = {
        {"task", a->task, b->task},
        {"payload", as_json(a->payload), as_json(b->payload)},
        {"user", a->user, b->user},
        {"project", a->project, b->project},
        {"service", a->service, b->service},
        {"unique key", a->unique_key, b->unique_key},
        {"retry policy", a->policy, b->policy},
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (!str_eq(parts[i].a, parts[i].b))
            return parts[i].name;
    return a->priority == b->priority ? NULL : "priority";
}

static void refuse(struct submit_op *op, size_t i, const char *detail)
{
    const struct str key = op->key;
    struct redrive_err why;
    (void)err_set(&why, REDRIVE_E_EXISTS, "the key '%.*s' was used for another request",
                  (int)(key.len < 100 ? key.len : 100), key.ptr);
    err_detail(&why, "%s", detail);
    err_hint(&why, "use a new key for a new request");
    (void)submit_refuse_now(op, i, &why);
}

static void refuse_difference(struct submit_op *op, size_t i, const char *part)
{
    const struct str id = op->specs[i].id;
    char detail[200];
    (void)snprintf(detail, sizeof detail, "job '%.*s' has another %s",
                   (int)(id.len < 100 ? id.len : 100), id.ptr, part);
    refuse(op, i, detail);
}

/* 1: the job is there, and has been compared; 0: it is not. */
static int compare(struct engine *e, struct submit_op *op, size_t i, struct redrive_err *err)
{
    const struct job_spec *spec = &op->specs[i];
    struct job_page page = {0};
    int rc = engine_find(e, spec->tenant, spec->id, 0, &page, err);
    const char *part = rc > 0 ? repetition_difference(spec, &page.jobs[0].spec) : NULL;
    if (part)
        refuse_difference(op, i, part);
    job_page_release(&page);
    return rc;
}

int repetition_check(struct engine *e, struct submit_op *op, size_t i, struct redrive_err *err)
{
    const int rc = compare(e, op, i, err);
    return rc < 0 ? rc : 0;
}

/* Whether the request before went on after the last job of this one. */
static int was_longer(struct engine *e, const struct submit_op *op, struct redrive_err *err)
{
    char id[NAME_MAX_BYTES + 32];
    struct job_page page = {0};
    (void)snprintf(id, sizeof id, "%.*s/%zu", (int)op->key.len, op->key.ptr, op->n);
    int rc = engine_find(e, op->specs[0].tenant, str_of(id), 0, &page, err);
    job_page_release(&page);
    return rc;
}

int repetition_check_array(struct engine *e, struct submit_op *op, struct redrive_err *err)
{
    bool is_repeated = false;
    for (size_t i = 0; i < op->n; i++) {
        if (op->answers[i].code < 0 || !is_of_key(op->specs[i].id, op->key))
            continue;
        const int rc = compare(e, op, i, err);
        if (rc < 0 || (rc == 0 && !is_repeated))
            return rc;
        if (rc == 0)
            refuse(op, i, "that one had fewer jobs");
        if (op->answers[i].code < 0)
            return 0;
        is_repeated = true;
    }
    const int rc = is_repeated ? was_longer(e, op, err) : 0;
    if (rc > 0)
        refuse(op, op->n - 1, "that one had more jobs");
    return rc < 0 ? rc : 0;
}
