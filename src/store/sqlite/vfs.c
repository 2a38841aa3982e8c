#include "store/sqlite/vfs.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>

#define NAME "redrive"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards what follows, but for reads of
                                                           * it by files that are open */
static sqlite3_vfs vfs;                                   /* the default one, but for xOpen */
static const sqlite3_vfs *original;                       /* NULL: not set up yet */

/* The methods of its files, but for xRead: databases and logs have different ones, with one way to
 * read. Entries are added and never change, so that open files may use them without the mutex. */
#define MAX_TABLES 4
static struct {
    sqlite3_io_methods methods;
    const sqlite3_io_methods *original;
} tables[MAX_TABLES];
static size_t n_tables;
static int (*original_read)(sqlite3_file *, void *, int, sqlite3_int64);

static int read_file(sqlite3_file *file, void *bytes, int n, sqlite3_int64 offset)
{
    const int rc = original_read(file, bytes, n, offset);
    return rc == SQLITE_IOERR_CORRUPTFS ? SQLITE_IOERR_READ : rc;
}

/* A file with another way to read keeps it. */
static void replace_read(sqlite3_file *file)
{
    size_t i = 0;
    pthread_mutex_lock(&mutex);
    if (!original_read)
        original_read = file->pMethods->xRead;
    while (i < n_tables && tables[i].original != file->pMethods)
        i++;
    if (i == n_tables && i < MAX_TABLES && file->pMethods->xRead == original_read) {
        tables[i].methods = *file->pMethods;
        tables[i].methods.xRead = read_file;
        tables[i].original = file->pMethods;
        n_tables++;
    }
    if (i < n_tables)
        file->pMethods = &tables[i].methods;
    pthread_mutex_unlock(&mutex);
}

static int open_file(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags,
                     int *ret_flags)
{
    (void)self;
    const int rc = original->xOpen((sqlite3_vfs *)original, name, file, flags, ret_flags);
    if (rc == SQLITE_OK && file->pMethods)
        replace_read(file);
    return rc;
}

const char *vfs_name(void)
{
    pthread_mutex_lock(&mutex);
    if (!original) {
        const sqlite3_vfs *found = sqlite3_vfs_find(NULL);
        if (found) {
            vfs = *found;
            vfs.pNext = NULL;
            vfs.zName = NAME;
            vfs.xOpen = open_file;
            original = found;
        }
    }
    /* A host that shuts SQLite down and starts it again has taken the name away. */
    const bool is_there =
        original && (sqlite3_vfs_find(NAME) == &vfs || sqlite3_vfs_register(&vfs, 0) == SQLITE_OK);
    pthread_mutex_unlock(&mutex);
    return is_there ? NAME : NULL;
}
