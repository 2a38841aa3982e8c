/* How a commit is written to the log: in one piece, or not at all. */
#include "check.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"

#define NOW_MS INT64_C(1767225600000)

static char url[128];
static int n_writes;      /* calls so far */
static bool disk_is_full; /* every one fails */

static ssize_t counted_write(int fd, const void *bytes, size_t n, off_t offset)
{
    n_writes++;
    if (disk_is_full) {
        errno = ENOSPC;
        return -1;
    }
    return pwrite(fd, bytes, n, offset);
}

static struct store *open_store(void)
{
    const struct store_options options = {.create = true};
    struct redrive_err err = {0};
    struct store *store = NULL;
    if (store_open(url, &options, &store, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return store;
}

/* Submits in a transaction of its own; the code of the commit. */
static int submit(struct store *store, const char *id)
{
    const struct job_spec spec = {.tenant = STR("default"),
                                  .queue = STR("default"),
                                  .task = STR("t"),
                                  .id = str_of(id),
                                  .max_attempts = 1,
                                  .payload = STR("{}")};
    struct submit_result result;
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(store_ops(store)->begin(store, NOW_MS, NULL, NULL, NULL), 0);
    assert_int_equal(store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL), 0);
    arena_release(&arena);
    return store_ops(store)->commit(store, NULL);
}

static size_t count_jobs(struct store *store)
{
    const struct job_filter filter = {.limit = 100};
    struct job_page page = {0};
    assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
    const size_t n = page.n;
    job_page_release(&page);
    return n;
}

static void commit_is_one_write_that_other_connections_see(void **state)
{
    (void)state;
    struct store *store = open_store(), *other = open_store();
    assert_int_equal(submit(store, "first"), 0); /* makes the partition */
    n_writes = 0;
    assert_int_equal(submit(store, "second"), 0);
    assert_int_equal(n_writes, 1);
    assert_int_equal(count_jobs(other), 2);
    store_close(other);
    store_close(store);
}

static void commit_that_cannot_be_written_has_not_happened(void **state)
{
    (void)state;
    struct store *store = open_store(), *other = open_store();
    const size_t before = count_jobs(store);
    disk_is_full = true;
    assert_int_equal(submit(store, "third"), REDRIVE_E_IO);
    disk_is_full = false;
    assert_int_equal(count_jobs(store), before);
    assert_int_equal(count_jobs(other), before);
    assert_int_equal(submit(store, "third"), 0);
    assert_int_equal(count_jobs(other), before + 1);
    store_close(other);
    store_close(store);
    store = open_store(); /* from the file alone */
    assert_int_equal(count_jobs(store), before + 1);
    store_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(commit_is_one_write_that_other_connections_see),
        T(commit_that_cannot_be_written_has_not_happened),
    };
    char dir[] = "/tmp/redrive-log-writes-XXXXXX", command[128];
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    const sqlite3_syscall_ptr counted = (sqlite3_syscall_ptr)(void (*)(void))counted_write;
    if (!mkdtemp(dir) || vfs->xSetSystemCall(vfs, "pwrite", counted) != SQLITE_OK ||
        vfs->xSetSystemCall(vfs, "pwrite64", counted) != SQLITE_OK)
        return 1;
    (void)snprintf(url, sizeof url, "sqlite:%s/jobs.db", dir);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)snprintf(command, sizeof command, "rm -r %s", dir);
    return system(command) == 0 ? failed : 1;
}
