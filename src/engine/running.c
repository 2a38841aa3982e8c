#include "engine/running.h"

#include <stdlib.h>

#define N_STRINGS 10

void running_init(struct running *r, uint64_t seed)
{
    map_init(&r->map, seed);
}

void running_release(struct running *r)
{
    MAP_FOREACH (&r->map, slot)
        free(slot->value);
    map_release(&r->map);
}

static struct str key_of(const int64_t *seq)
{
    return (struct str){(const char *)seq, sizeof *seq};
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
static struct job *copy_of(const struct job *job)
{
    struct str *strings[N_STRINGS];
    struct job kept = {.status = job->status};
    kept.spec = job->spec;
    kept.spec.payload = kept.spec.unique_key = kept.spec.project = (struct str){0};
    kept.status.result = (struct str){0};
    kept.status.error = (struct job_error){.class_ = job->status.error.class_};
    strings_of(&kept, strings);
    size_t len = sizeof kept;
    for (int i = 0; i < N_STRINGS; i++)
        len += strings[i]->len;
    struct job *copy = malloc(len);
    if (!copy)
        return NULL;
    char *at = (char *)(copy + 1);
    for (int i = 0; i < N_STRINGS; i++) {
        if (strings[i]->len > 0)
            memcpy(at, strings[i]->ptr, strings[i]->len);
        strings[i]->ptr = at;
        at += strings[i]->len;
    }
    *copy = kept;
    return copy;
}

void running_add(struct running *r, const struct job *job)
{
    if (r->map.count >= RUNNING_MAX) {
        uint64_t seed = r->map.seed;
        running_release(r);
        running_init(r, seed);
    }
    running_drop(r, job->status.seq);
    struct job *copy = copy_of(job);
    if (copy && map_put(&r->map, key_of(&job->status.seq), copy) != 0)
        free(copy);
}

const struct job *running_get(const struct running *r, int64_t seq, uint64_t token)
{
    const struct job *job = map_get(&r->map, key_of(&seq));
    return job && token != 0 && job->status.token == token ? job : NULL;
}

struct job *running_take(struct running *r, int64_t seq)
{
    return map_remove(&r->map, key_of(&seq));
}

void running_drop(struct running *r, int64_t seq)
{
    free(running_take(r, seq));
}
