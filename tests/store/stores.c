#include "stores.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct kind {
    const char *name;   /* and scheme */
    bool in_folder;     /* it lives in files, and gets a folder of its own */
    const char *server; /* the variable with the URL of its server */
};

static const struct kind KINDS[] = {
    {"memory", false, NULL},
    {"redis", false, "REDRIVE_TEST_REDIS"},
    {"sqlite", true, NULL},
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
    const char *server = find(name)->server ? getenv(find(name)->server) : NULL;
    if (find(name)->server) {
        if (!server)
            fprintf(stderr, "%s is not set: use tools/with-servers\n", find(name)->server);
        if (!server)
            exit(2);
        snprintf(ret, STORES_URL_MAX, "%s?prefix=test-%d-%u", server, (int)getpid(), counter++);
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

void stores_remove(const char *url)
{
    const char *place = strchr(url, ':') + 1;
    char folder[STORES_URL_MAX];
    if (strncmp(url, "sqlite:", 7) != 0)
        return;
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
