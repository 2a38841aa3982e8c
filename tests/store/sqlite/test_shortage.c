/* SQLite has no memory at the moment at which a transaction is to end, or no descriptor for its
 * file. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "store/store.h"

#define NOW_MS INT64_C(1767225600000)

/* SQLite's n-th allocation from now fails, and all after it, or it alone; 0: none does. */
static long fails_at;
static bool fails_once;
static bool has_failed;
static sqlite3_mem_methods original;

static bool is_out(void)
{
    if (fails_at == 0)
        return false;
    if (fails_at > 1) {
        fails_at--;
        return false;
    }
    has_failed = true;
    if (fails_once)
        fails_at = 0;
    return true;
}

static void *some_memory(int size)
{
    return is_out() ? NULL : original.xMalloc(size);
}

static void *more_memory(void *old, int size)
{
    return is_out() ? NULL : original.xRealloc(old, size);
}

static char path[64], url[80];

static int make_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/redrive-memory-XXXXXX";
    sqlite3_mem_methods failing;
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &original) != SQLITE_OK || !mkdtemp(folder))
        return -1;
    failing = original;
    failing.xMalloc = some_memory;
    failing.xRealloc = more_memory;
    snprintf(path, sizeof path, "%s", folder);
    snprintf(url, sizeof url, "sqlite:%s/jobs.db", folder);
    return sqlite3_config(SQLITE_CONFIG_MALLOC, &failing) == SQLITE_OK ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", path);
    return system(command); /* NOLINT(cert-env33-c): a folder of our own */
}

static struct store *open_store(void)
{
    const struct store_options options = {.create = true};
    struct store *store = NULL;
    struct redrive_err err;
    if (store_open(url, &options, &store, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    return store;
}

/* Leaves the transaction open. */
static int submit(struct store *store)
{
    static int number;
    char id[16];
    snprintf(id, sizeof id, "job-%d", ++number);
    const struct job_spec spec = {.tenant = STR("t"),
                                  .queue = STR("q"),
                                  .task = STR("k"),
                                  .id = str_of(id),
                                  .payload = STR("{}")};
    struct submit_result result;
    struct arena arena;
    arena_init(&arena);
    int rc = store_ops(store)->begin(store, NOW_MS, NULL, NULL, NULL);
    if (rc == 0)
        rc = store_ops(store)->submit(store, &spec, 1, &result, &arena, NULL);
    arena_release(&arena);
    return rc;
}

/* Whether both handles can write. */
static void assert_free(struct store *store)
{
    struct store *other = open_store();
    assert_int_equal(submit(store), 0);
    assert_int_equal(store_ops(store)->commit(store, NULL), 0);
    assert_int_equal(submit(other), 0);
    assert_int_equal(store_ops(other)->commit(other, NULL), 0);
    store_close(other);
}

TEST(transaction_ends_without_memory)
{
    struct store *store = open_store();
    assert_int_equal(submit(store), 0);
    fails_at = 1;
    store_ops(store)->rollback(store);
    fails_at = 0;
    assert_free(store);
    store_close(store);
}

TEST(transaction_that_fails_for_want_of_memory_is_over)
{
    has_failed = true;
    for (long n = 1; has_failed; n += 7) {
        struct store *store = open_store();
        fails_at = n;
        has_failed = false;
        (void)submit(store);
        store_ops(store)->rollback(store);
        fails_at = 0;
        assert_free(store);
        store_close(store);
    }
}

TEST(view_that_fails_for_want_of_memory_is_over)
{
    const struct job_filter filter = {.states = 1u << REDRIVE_STATE_QUEUED, .limit = 3};
    has_failed = true;
    for (long n = 1; has_failed; n += 7) {
        struct store *store = open_store();
        struct job_page page = {0};
        fails_at = n;
        has_failed = false;
        (void)store_ops(store)->list(store, &filter, &page, NULL);
        fails_at = 0;
        assert_int_equal(store_ops(store)->list(store, &filter, &page, NULL), 0);
        job_page_release(&page);
        assert_free(store);
        store_close(store);
    }
}

static bool is_out_of_descriptors;

/* Stands before open(2) in SQLite. */
static int open_if_allowed(const char *name, int flags, int mode)
{
    if (is_out_of_descriptors && (flags & O_ACCMODE) == O_RDWR) {
        errno = EMFILE;
        return -1;
    }
    return open(name, flags, mode);
}

/* SQLite then opens it for reading, which is of no use: every write would be refused for ever. */
TEST(file_that_cannot_be_opened_for_writing_is_an_error)
{
    const struct store_options options = {.create = true};
    struct store *store = open_store();
    struct redrive_err err;
    store_close(store);
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    assert_int_equal(
        vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)(void (*)(void))open_if_allowed),
        SQLITE_OK);
    is_out_of_descriptors = true;
    store = NULL;
    assert_int_equal(store_open(url, &options, &store, &err), REDRIVE_E_IO);
    assert_null(store);
    is_out_of_descriptors = false;
    store = open_store();
    assert_free(store);
    store_close(store);
    assert_int_equal(vfs->xSetSystemCall(vfs, "open", NULL), SQLITE_OK);
}

/* Rows of several pages, and pages that are free. */
static void use_all_kinds_of_pages(void)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(url + strlen("sqlite:"), &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "CREATE TABLE filler (n, bytes);"
                                  "INSERT INTO filler VALUES (1, zeroblob(30000));"
                                  "INSERT INTO filler VALUES (2, zeroblob(30000));"
                                  "DELETE FROM filler WHERE n = 1",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void verify_at_each_allocation(void)
{
    struct redrive_err err;
    has_failed = true;
    for (long n = 1; has_failed; n++) {
        struct store *store = open_store(); /* with no page in memory */
        fails_at = n;
        has_failed = false;
        const int rc = store_ops(store)->verify(store, NULL, NULL, &err);
        fails_at = 0;
        if (rc != 0 && rc != REDRIVE_E_NOMEM)
            fail_msg("allocation %ld: %s; %s", n, err.message, err.detail);
        store_close(store);
    }
}

TEST(store_is_not_called_damaged_for_want_of_memory)
{
    store_close(open_store());
    use_all_kinds_of_pages();
    verify_at_each_allocation();
    fails_once = true;
    verify_at_each_allocation();
    fails_once = false;
}

TEST_MAIN(argc, argv)
{
    return check_run(make_folder, remove_folder);
}
