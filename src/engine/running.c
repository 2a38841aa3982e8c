/* running.c - what an engine remembers of the jobs that it has started. */
#include "engine/running.h"

#include <stdlib.h>

#define N_STRINGS 10

struct running_job {
    struct running_job *next; /* of those that were taken, or added */
    size_t bytes;             /* of all of this */
    struct job job;           /* its strings follow */
};

void running_init(struct running *r, uint64_t seed)
{
    *r = (struct running){0};
    map_init(&r->young, seed);
    map_init(&r->old, seed);
}

static void free_list(struct running_job **list)
{
    for (struct running_job *job = *list, *next; job; job = next) {
        next = job->next;
        free(job);
    }
    *list = NULL;
}

static void forget(struct map *jobs)
{
    MAP_FOREACH (jobs, slot)
        free(slot->value);
    map_release(jobs);
}

void running_release(struct running *r)
{
    free_list(&r->taken);
    free_list(&r->added);
    forget(&r->young);
    forget(&r->old);
}

static void turn(struct running *r)
{
    const uint64_t seed = r->young.seed;
    forget(&r->old);
    r->old = r->young;
    map_init(&r->young, seed);
    r->young_bytes = 0;
}

void running_turn(struct running *r, int64_t now_ms)
{
    const int64_t since_ms = now_ms - r->turned_ms; /* below 0: the clock was set back */
    if (since_ms < RUNNING_KEPT_MS && since_ms > -RUNNING_KEPT_MS)
        return;
    turn(r);
    r->turned_ms = now_ms;
}

static struct str key_of(const uint64_t *token)
{
    return (struct str){(const char *)token, sizeof *token};
}

/* The strings that a settlement looks at. */
static void strings_of(struct job *job, struct str *ret[N_STRINGS])
{
    struct job_spec *spec = &job->spec;
    struct str *all[N_STRINGS] = {
        &spec->tenant,  &spec->id,     &spec->task,        &spec->queue,     &spec->user,
        &spec->service, &spec->policy, &spec->breaker_key, &spec->limit_key, &job->status.worker,
    };
    memcpy(ret, all, sizeof all);
}

/* The job and its strings in one piece of memory. */
static struct running_job *copy_of(const struct job *job)
{
    struct str *strings[N_STRINGS];
    struct job kept = {.status = job->status};
    kept.spec = job->spec;
    kept.spec.payload = kept.spec.unique_key = kept.spec.project = (struct str){0};
    kept.status.result = (struct str){0};
    kept.status.error = (struct job_error){.class_ = job->status.error.class_};
    strings_of(&kept, strings);
    size_t len = sizeof(struct running_job);
    for (int i = 0; i < N_STRINGS; i++)
        len += strings[i]->len;
    struct running_job *copy = malloc(len);
    if (!copy)
        return NULL;
    char *at = (char *)(copy + 1);
    for (int i = 0; i < N_STRINGS; i++) {
        if (strings[i]->len > 0)
            memcpy(at, strings[i]->ptr, strings[i]->len);
        strings[i]->ptr = at;
        at += strings[i]->len;
    }
    *copy = (struct running_job){.bytes = len, .job = kept};
    return copy;
}

static void put(struct running *r, struct running_job *job)
{
    running_drop(r, job->job.status.token);
    if (r->young.count >= RUNNING_MAX / 2 || r->young_bytes + job->bytes > RUNNING_BYTES_MAX / 2)
        turn(r);
    if (map_put(&r->young, key_of(&job->job.status.token), job) != 0)
        free(job);
    else
        r->young_bytes += job->bytes;
}

static void put_list(struct running *r, struct running_job **list)
{
    for (struct running_job *job = *list, *next; job; job = next) {
        next = job->next;
        put(r, job);
    }
    *list = NULL;
}

void running_add(struct running *r, const struct job *job)
{
    struct running_job *copy = copy_of(job);
    if (!copy)
        return;
    copy->next = r->added;
    r->added = copy;
}

const struct job *running_get(const struct running *r, uint64_t token)
{
    const struct running_job *found = map_get(&r->young, key_of(&token));
    if (!found)
        found = map_get(&r->old, key_of(&token));
    return found ? &found->job : NULL;
}

static struct running_job *cut_out(struct running *r, uint64_t token)
{
    struct running_job *found = map_remove(&r->young, key_of(&token));
    if (!found)
        return map_remove(&r->old, key_of(&token));
    r->young_bytes -= found->bytes;
    return found;
}

void running_drop(struct running *r, uint64_t token)
{
    free(cut_out(r, token));
}

const struct job *running_take(struct running *r, uint64_t token)
{
    struct running_job *found = cut_out(r, token);
    if (!found)
        return NULL;
    found->next = r->taken;
    r->taken = found;
    return &found->job;
}

void running_commit(struct running *r)
{
    free_list(&r->taken);
    put_list(r, &r->added);
}

void running_rollback(struct running *r)
{
    free_list(&r->added);
    put_list(r, &r->taken);
}
