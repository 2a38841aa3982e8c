#include "base/os/file.h"

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[] = "/tmp/redrive-test-file-XXXXXX";
static char path[sizeof dir + 16];

static int make_dir(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void write_bytes(const char *bytes, size_t len)
{
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

TEST(the_whole_file_is_read)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    write_bytes("a\0b\n", 4);
    buf_puts(&b, "what was there before");
    assert_int_equal(file_read(path, 100, &b, NULL), 0);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, "a\0b\n", 4);
    write_bytes("", 0);
    assert_int_equal(file_read(path, 0, &b, NULL), 0);
    assert_int_equal(b.len, 0);
    buf_release(&b);
}

TEST(a_large_file_is_read_in_steps)
{
    enum {
        LEN = 100 * 1000
    };
    char *bytes = malloc(LEN);
    for (int i = 0; i < LEN; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    write_bytes(bytes, LEN);

    struct buf b;
    buf_init(&b, 1 << 20);
    assert_int_equal(file_read(path, LEN, &b, NULL), 0);
    assert_int_equal(b.len, LEN);
    assert_memory_equal(b.data, bytes, LEN);
    buf_release(&b);
    free(bytes);
}

TEST(one_byte_over_the_limit_is_too_big)
{
    struct buf b;
    struct redrive_err err;
    buf_init(&b, 1 << 20);
    write_bytes("12345", 5);
    assert_int_equal(file_read(path, 5, &b, &err), 0);
    assert_int_equal(file_read(path, 4, &b, &err), REDRIVE_E_TOO_BIG);
    assert_int_equal(b.len, 0);
    assert_int_equal(buf_failed(&b), 0);
    assert_non_null(strstr(err.detail, path));
    assert_string_equal(err.hint, "the limit is 4 bytes");
    buf_release(&b);
}

TEST(the_maximum_of_the_buffer_counts_too)
{
    struct buf b;
    struct redrive_err err;
    buf_init(&b, 3);
    write_bytes("12345", 5);
    assert_int_equal(file_read(path, 100, &b, &err), REDRIVE_E_TOO_BIG);
    assert_string_equal(err.hint, "the limit is 3 bytes");
    buf_release(&b);
}

TEST(a_device_without_end_is_too_big)
{
    struct buf b;
    buf_init(&b, 1 << 20);
    assert_int_equal(file_read("/dev/zero", 50000, &b, NULL), REDRIVE_E_TOO_BIG);
    buf_release(&b);
}

TEST(failures_name_the_path_and_the_cause)
{
    struct buf b;
    struct redrive_err err;
    buf_init(&b, 1 << 20);

    assert_int_equal(file_read("/nowhere/at/all", 1, &b, &err), REDRIVE_E_NOT_FOUND);
    assert_string_equal(err.message, "cannot read file: not found");
    assert_string_equal(err.detail, "path /nowhere/at/all");
    assert_int_equal(file_read("/dev/null/x", 1, &b, &err), REDRIVE_E_NOT_FOUND);
    assert_int_equal(file_read(dir, 1, &b, &err), REDRIVE_E_IO);
    assert_string_equal(err.message, "cannot read file: Is a directory");
    assert_non_null(strstr(err.detail, dir));

    char name[5000];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_int_equal(file_read(name, 1, &b, &err), REDRIVE_E_IO);
    buf_release(&b);
}

TEST(a_file_that_may_not_be_read_is_denied)
{
    struct buf b;
    struct redrive_err err;
    uid_t self = geteuid();
    buf_init(&b, 1 << 20);
    write_bytes("secret", 6);
    assert_int_equal(chmod(path, 0), 0);

    /* Root may read everything, so it becomes somebody else for the moment. */
    if (self == 0)
        assert_int_equal(seteuid(65534), 0);
    int rc = file_read(path, 100, &b, &err);
    if (self == 0)
        assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, REDRIVE_E_DENIED);
    assert_string_equal(err.message, "cannot read file: permission denied");
    buf_release(&b);
}

TEST_MAIN(argc, argv)
{
    return check_run(make_dir, remove_dir);
}
