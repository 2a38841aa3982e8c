/* A line is a record, which reads the same after it was written, or an error that says why not. */
#include "fuzz.h"

#include "engine/copy/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str line = {(const char *)data, size};
    struct redrive_err err = {0};
    struct record record, again;
    struct arena arena;
    int64_t format;
    struct str program;
    char member[RECORD_MEMBER_MAX];
    arena_init(&arena);
    if (record_is_header(line, &format, &program))
        FUZZ_CHECK(format > 0 && program.len <= size);
    const int rc = record_read(line, &arena, &record, &err);
    if (rc == 0) {
        struct buf written;
        buf_init(&written, RECORD_MAX);
        record_write(&record, &written);
        FUZZ_CHECK(buf_failed(&written) == 0);
        FUZZ_CHECK(!memchr(written.data, '\n', written.len));
        FUZZ_CHECK(record_read(buf_str(&written), &arena, &again, NULL) == 0);
        FUZZ_CHECK(again.kind == record.kind);
        FUZZ_CHECK(record_difference(&record, &again, member)[0] == '\0');
        buf_release(&written);
    } else {
        FUZZ_CHECK(rc < 0 && err.code == rc && err.message[0] != '\0');
    }
    arena_release(&arena);
    return 0;
}
