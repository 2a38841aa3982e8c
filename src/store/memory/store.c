/* store.c - opening and closing, and what is known by name. */
#include "store/memory/private.h"

#include <stdlib.h>
#include <time.h>

#include "base/err.h"

#define DEFAULT_BUSY_WAIT_MS 5000

/* Places that have a name, for whoever asks for it next. */
static pthread_mutex_t places_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct mem_place *places;

static void place_free(struct mem_place *place)
{
    if (!place)
        return;
    mem_state_release(&place->committed);
    pthread_cond_destroy(&place->changed);
    pthread_mutex_destroy(&place->mutex);
    free(place->name);
    free(place);
}

static struct mem_place *place_new(struct str name)
{
    struct mem_place *place = calloc(1, sizeof *place);
    if (!place)
        return NULL;
    mem_state_init(&place->committed);
    pthread_mutex_init(&place->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&place->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (name.len == 0)
        return place;

    place->name = str_dup(name);
    if (!place->name) {
        place_free(place);
        return NULL;
    }
    place->next = places;
    places = place;
    return place;
}

/* The mutex of places is held. */
static struct mem_place *place_find(struct str name)
{
    for (struct mem_place *place = places; place; place = place->next)
        if (str_is(name, place->name))
            return place;
    return NULL;
}

static int place_enter(struct str name, bool create, struct mem_place **ret,
                       struct redrive_err *err)
{
    pthread_mutex_lock(&places_mutex);
    int rc = 0;
    struct mem_place *place = name.len > 0 ? place_find(name) : NULL;
    if (!place && !create) {
        rc = err_set(err, REDRIVE_E_NOT_FOUND, "there is nothing in memory:%.*s", (int)name.len,
                     name.ptr);
        err_detail(err, "memory is empty until somebody sets a store up in it");
    } else if (!place) {
        place = place_new(name);
        if (!place)
            rc = err_nomem(err);
    }
    if (place)
        place->handles++;
    pthread_mutex_unlock(&places_mutex);
    *ret = place;
    return rc;
}

static void place_leave(struct mem_place *place)
{
    pthread_mutex_lock(&places_mutex);
    bool last = --place->handles == 0;
    for (struct mem_place **at = &places; last && *at; at = &(*at)->next) {
        if (*at == place) {
            *at = place->next;
            break;
        }
    }
    pthread_mutex_unlock(&places_mutex);
    if (last)
        place_free(place);
}

static int memory_open(struct str place, const struct store_options *options, struct store **ret,
                       struct redrive_err *err)
{
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return err_nomem(err);
    m->base = (struct store_base){.ops = &STORE_MEMORY, .durability = STORE_FORGETS};
    m->busy_wait_ms = options->busy_wait_ms > 0 ? options->busy_wait_ms : DEFAULT_BUSY_WAIT_MS;
    /* A look at memory that has no name sees what anybody would get there: new memory. */
    const bool create = options->create || (options->as_is && place.len == 0);
    int rc = place_enter(place, create, &m->place, err);
    if (rc < 0) {
        free(m);
        return rc;
    }
    *ret = (struct store *)(void *)m;
    return 0;
}

static void memory_close(struct store *store)
{
    if (!store)
        return;
    struct memory *m = memory_of(store);
    memory_rollback(store);
    place_leave(m->place);
    free(m->turn);
    free(m);
}

static int memory_facts(struct store *store, struct store_facts *ret, struct redrive_err *err)
{
    (void)store;
    (void)err;
    *ret = (struct store_facts){.version_found = 1, .version_newest = 1};
    return 0;
}

static int memory_verify(struct store *store, void (*progress)(void *ctx), void *ctx,
                         struct redrive_err *err)
{
    (void)store;
    (void)err;
    if (progress)
        progress(ctx);
    return 0;
}

const struct store_ops STORE_MEMORY = {
    .scheme = "memory",
    .capabilities = STORE_NOTIFIES,
    .open = memory_open,
    .close = memory_close,
    .begin = memory_begin,
    .commit = memory_commit,
    .rollback = memory_rollback,
    .submit = memory_submit,
    .ready = memory_ready,
    .move = memory_move,
    .scan = memory_scan,
    .import = memory_import,
    .import_keys = memory_import_keys,
    .shared_put = memory_shared_put,
    .counters_add = memory_counters_add,
    .list = memory_list,
    .lookup = memory_lookup,
    .history = memory_history,
    .counts = memory_counts,
    .groups = memory_groups,
    .causes = memory_causes,
    .shared_list = memory_shared_list,
    .remembered_keys = memory_remembered_keys,
    .counters_list = memory_counters_list,
    .facts = memory_facts,
    .verify = memory_verify,
    .backup_hint = "it ends with its process; a store that is to last is a file: sqlite:FILE",
    .wait = memory_wait,
};
