/* failure.c - copies a failure with its strings into one block. */
#include "core/classify/failure.h"

#include <stdlib.h>

#include "base/text/str.h"

/* The strings of a failure, each with the name of its limit. */
#define FAILURE_TEXTS(XX)      \
    XX(status, name)           \
    XX(error_type, name)       \
    XX(message, message)       \
    XX(stacktrace, stacktrace) \
    XX(sqlstate, name)

static const struct failure_limits UNLIMITED = {SIZE_MAX - 1, SIZE_MAX - 1, SIZE_MAX - 1};

/* Space for a copy of `s` and its terminator. */
static size_t room_for(const char *s, size_t max)
{
    return s ? strnlen(s, max) + 1 : 0;
}

static const char *copy_text(char **at, const char *s, size_t max)
{
    size_t room = room_for(s, max);
    if (room == 0)
        return NULL;
    char *copy = *at;
    str_copy(copy, room, str_of(s));
    *at += room;
    return copy;
}

static size_t count_types(const struct redrive_failure *f)
{
    return f->n_error_types < REDRIVE_ERROR_TYPES_MAX ? f->n_error_types : REDRIVE_ERROR_TYPES_MAX;
}

static size_t measure(const struct redrive_failure *f, const struct failure_limits *limits)
{
    size_t size = count_types(f) * sizeof(char *);
    for (size_t i = 0; i < count_types(f); i++)
        size += room_for(f->error_types[i], limits->name);
#define XX(field, limit) size += room_for(f->field, limits->limit);
    FAILURE_TEXTS(XX)
#undef XX
    return size;
}

void *failure_copy(const struct redrive_failure *failure, const struct failure_limits *limits,
                   struct redrive_failure *ret)
{
    const struct failure_limits *cut = limits ? limits : &UNLIMITED;
    struct redrive_failure copy = *failure;
    const size_t size = measure(failure, cut);
    const char **block = size > 0 ? malloc(size) : NULL;

    copy.n_error_types = block ? count_types(failure) : 0;
    copy.error_types = copy.n_error_types > 0 ? block : NULL;
    char *at = block ? (char *)(block + copy.n_error_types) : NULL;
    for (size_t i = 0; i < copy.n_error_types; i++)
        block[i] = copy_text(&at, failure->error_types[i], cut->name);
#define XX(field, limit) copy.field = block ? copy_text(&at, failure->field, cut->limit) : NULL;
    FAILURE_TEXTS(XX)
#undef XX
    *ret = copy;
    return block;
}
