/* A program that is Redrive and nothing else, in a process of its own: what it sets up holds for
 * all of the process, and must come first. */
#include "check.h"

#include <sqlite3.h>

#include "store/store.h"

TEST(a_program_of_its_own_keeps_no_statistics_of_memory)
{
    sqlite3 *db;
    store_own_process();
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_int_equal(sqlite3_memory_used(), 0);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}
