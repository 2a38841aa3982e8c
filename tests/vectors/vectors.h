/* vectors.h - opens a file of test vectors and walks over its cases. */
#ifndef TESTS_VECTORS_VECTORS_H
#define TESTS_VECTORS_VECTORS_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json/json.h"
#include "base/os/file.h"
#include "base/text/buf.h"

struct vectors {
    struct buf text;
    struct json_reader reader;
};

/* Stands before the first case; vectors_next steps to each. */
static inline void vectors_open(struct vectors *v, const char *name)
{
    char path[1024];
    const char *folder = getenv("REDRIVE_VECTORS");
    struct redrive_err err = {0};
    struct json_string key;

    snprintf(path, sizeof path, "%s/%s", folder ? folder : "tests/vectors", name);
    buf_init(&v->text, 1u << 20);
    if (file_read(path, 1u << 20, &v->text, &err) < 0)
        fail_msg("%s: %s", path, err.message);
    json_reader_init(&v->reader, buf_str(&v->text), NULL);
    assert_int_equal(json_enter_object(&v->reader), 0);
    while (json_next_key(&v->reader, &key) > 0) {
        if (json_string_is(key, "cases"))
            break;
        json_skip(&v->reader, NULL);
    }
    assert_int_equal(json_enter_array(&v->reader), 0);
}

/* The reader stands before the case's object when this is true. */
static inline bool vectors_next(struct vectors *v)
{
    return json_next_item(&v->reader) > 0;
}

static inline void vectors_close(struct vectors *v)
{
    struct redrive_err err = {0};
    if (json_error(&v->reader, &err) < 0)
        fail_msg("%s", err.message);
    json_reader_release(&v->reader);
    buf_release(&v->text);
}

/* A string value without escapes, copied. */
static inline void vectors_text(struct json_reader *r, char *out, size_t size)
{
    struct json_string s;
    assert_int_equal(json_read_string(r, &s), 0);
    assert_false(s.escaped);
    assert_true(str_copy(out, size, s.raw));
}

#endif
