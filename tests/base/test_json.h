/* test_json.h - what the tests of the JSON reader share. */
#ifndef TESTS_BASE_TEST_JSON_H
#define TESTS_BASE_TEST_JSON_H

#include <stdlib.h>

#include "base/json/json.h"

/* A copy in memory of exactly its size, so that reading a byte past the end is noticed. */
static inline struct str exact_copy(struct str text)
{
    char *copy = malloc(text.len ? text.len : 1);
    assert_non_null(copy);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    return (struct str){copy, text.len};
}

static inline int check_exact(struct str text, struct redrive_err *err)
{
    struct str copy = exact_copy(text);
    int rc = json_check(copy, NULL, err);
    free((char *)copy.ptr);
    return rc;
}

#endif
