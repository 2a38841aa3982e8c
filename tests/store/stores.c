#include "stores.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time/clock.h"
#include "stores_postgres.h"

struct kind {
    const char *name;                     /* and scheme */
    bool in_folder;                       /* it lives in files, and gets a folder of its own */
    void (*make)(char *ret, size_t size); /* a place on a server; NULL: a name will do */
    void (*make_store)(char *ret, size_t size); /* there, and with a store; NULL: not needed */
    void (*remove)(const char *url);
};

/* A name of its own for all keys. They go with the server, so that the process number does not do:
 * there may have been an earlier process with it. */
static void redis_new(char *ret, size_t size)
{
    const char *server = getenv("REDRIVE_TEST_REDIS");
    if (!server) {
        fprintf(stderr, "REDRIVE_TEST_REDIS is not set: use tools/with-servers\n");
        exit(2);
    }
    snprintf(ret, size, "%s%cprefix=test-%d-%llx", server, strchr(server, '?') ? '&' : '?',
             (int)getpid(), (unsigned long long)clock_monotonic_ns());
}

static void redis_remove(const char *url)
{
    (void)url;
}

static const struct kind KINDS[] = {
    {"memory", false, NULL, NULL, NULL},
    {"postgres", false, stores_postgres_new, stores_postgres_empty, stores_postgres_remove},
    {"redis", false, redis_new, NULL, redis_remove},
    {"sqlite", true, NULL, NULL, NULL},
};

static const struct kind *find(const char *name)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strcmp(KINDS[i].name, name) == 0)
            return &KINDS[i];
    fprintf(stderr, "REDRIVE_TEST_STORE: there is no store '%s'\n", name);
    exit(2);
}

const char *stores_name(void)
{
    const char *name = getenv("REDRIVE_TEST_STORE");
    return find(name && *name ? name : "memory")->name;
}

void stores_new_url(const char *name, char ret[STORES_URL_MAX])
{
    static unsigned counter;
    if (find(name)->make) {
        find(name)->make(ret, STORES_URL_MAX);
        return;
    }
    if (!find(name)->in_folder) {
        snprintf(ret, STORES_URL_MAX, "%s:test-%u", name, counter++);
        return;
    }
    const char *tmp = getenv("TMPDIR");
    char folder[STORES_URL_MAX / 2];
    snprintf(folder, sizeof folder, "%s/redrive-test-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(2);
    }
    snprintf(ret, STORES_URL_MAX, "%s:%s/jobs.db", name, folder);
}

void stores_empty_url(const char *name, char ret[STORES_URL_MAX])
{
    if (find(name)->make_store)
        find(name)->make_store(ret, STORES_URL_MAX);
    else
        stores_new_url(name, ret);
}

void stores_remove(const char *url)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (KINDS[i].remove && strncmp(url, KINDS[i].name, strlen(KINDS[i].name)) == 0) {
            KINDS[i].remove(url);
            return;
        }
    const char *place = strchr(url, ':') + 1;
    char folder[STORES_URL_MAX];
    snprintf(folder, sizeof folder, "%s", place);
    char *slash = strrchr(folder, '/');
    if (!slash)
        return;
    *slash = '\0';
    DIR *dir = opendir(folder);
    if (!dir)
        return;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        if (entry->d_name[0] != '.')
            unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(folder);
}
