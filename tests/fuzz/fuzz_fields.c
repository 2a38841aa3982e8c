/* A value of any kind, in JSON and as a text: what is taken is within the bounds of its field; what
 * is refused names the field, and leaves the member as it was. */
#include "fuzz.h"

#include <math.h>
#include <string.h>

#include "core/limit/limit.h"
#include "fields/json.h"
#include "fields/query.h"

#define NOW_MS INT64_C(1800000000000)
#define LEAST  (-7)
#define MOST   1000

static const char *const SIZES[] = {"small", "large", "larger", NULL};

struct all {
    struct str name;
    const char *text;
    struct str wording;
    struct field_names names;
    struct field_names queues;
    int64_t whole;
    uint32_t small;
    size_t count;
    double number;
    bool flag;
    struct rate rate;
    int64_t span_ms;
    int64_t age_ms;
    int64_t time_ms;
    int64_t when_ms;
    int size;
    int term;
    uint32_t states;
    uint64_t group;
    struct str json;
    struct str object;
};

#define ALL(m) offsetof(struct all, m)

enum {
    JSON_ONLY = 1
};

static const struct field FIELDS[] = {
    {"name", &FIELD_NAME, ALL(name)},
    {"text", &FIELD_TEXT, ALL(text), .max = 20},
    {"wording", &FIELD_WORDING, ALL(wording)},
    {"names", &FIELD_NAMES, ALL(names), .max = 3, .uses = JSON_ONLY},
    {"queues", &FIELD_QUEUES, ALL(queues), .max = 3, .uses = JSON_ONLY},
    {"whole", &FIELD_INT, ALL(whole), .min = LEAST, .max = MOST},
    {"small", &FIELD_UINT, ALL(small), .max = UINT32_MAX},
    {"count", &FIELD_COUNT, ALL(count), .min = 1, .max = MOST},
    {"number", &FIELD_DOUBLE, ALL(number), .min_double = -1, .max_double = 1},
    {"flag", &FIELD_BOOL, ALL(flag)},
    {"rate", &FIELD_RATE, ALL(rate)},
    {"span", &FIELD_SPAN, ALL(span_ms), .max = MOST},
    {"age", &FIELD_AGE, ALL(age_ms)},
    {"time", &FIELD_TIME, ALL(time_ms)},
    {"when", &FIELD_WHEN, ALL(when_ms)},
    {"size", &FIELD_WORD, ALL(size), .words = SIZES},
    {"term", &FIELD_TERM, ALL(term), .vocabulary = VOCABULARY_CLASS, .skip = 1},
    {"states", &FIELD_TERMS, ALL(states), .vocabulary = VOCABULARY_STATE, .skip = 1},
    {"group", &FIELD_FINGERPRINT, ALL(group)},
    {"json", &FIELD_JSON, ALL(json), .uses = JSON_ONLY},
    {"object", &FIELD_OBJECT, ALL(object), .uses = JSON_ONLY},
    {0},
};

static const struct all BEFORE = {.whole = 1, .count = 1, .age_ms = 1, .size = 0, .term = 1};

static void check_names(const struct field_names *names)
{
    FUZZ_CHECK(names->n <= 3);
    for (size_t i = 0; i < names->n; i++)
        FUZZ_CHECK(names->items[i].len > 0 && names->items[i].len <= FIELD_NAME_MAX);
}

static void check_values(const struct all *a, size_t size)
{
    FUZZ_CHECK(a->name.len <= FIELD_NAME_MAX && a->wording.len <= size);
    FUZZ_CHECK(!a->text || strlen(a->text) <= 20);
    check_names(&a->names);
    check_names(&a->queues);
    FUZZ_CHECK(a->whole >= LEAST && a->whole <= MOST);
    FUZZ_CHECK(a->count >= 1 && a->count <= MOST);
    FUZZ_CHECK(a->number >= -1 && a->number <= 1);
    FUZZ_CHECK(a->rate.count == 0 || a->rate.period_s > 0);
    FUZZ_CHECK(a->span_ms >= 0 && a->span_ms <= MOST);
    FUZZ_CHECK(a->age_ms > 0 && a->age_ms <= NOW_MS);
    FUZZ_CHECK(a->size >= 0 && a->size < 3);
    FUZZ_CHECK(a->term > 0 && a->term < REDRIVE_CLASS_COUNT);
    FUZZ_CHECK(a->states >> REDRIVE_STATE_COUNT == 0 && !(a->states & 1));
    FUZZ_CHECK(a->json.len <= size && a->object.len <= size);
}

static void check_failed(int rc, const struct field_reader *r, const struct redrive_err *err)
{
    FUZZ_CHECK(rc < 0 && err->code == rc && err->message[0] != '\0');
    FUZZ_CHECK(strlen(r->place) < FIELD_PLACE_MAX);
}

static void try_json(struct str text, struct arena *arena)
{
    struct redrive_err err = {0};
    struct field_reader r;
    struct all all = BEFORE;
    uint64_t given;
    fields_json_open(&r, text, arena, NOW_MS, &err);
    int rc = fields_json_object(&r, FIELDS, &all, &given);
    if (rc == 0)
        rc = fields_json_end(&r);
    fields_json_close(&r);
    if (rc < 0)
        check_failed(rc, &r, &err);
    check_values(&all, text.len);
    FUZZ_CHECK(rc < 0 || given >> (sizeof FIELDS / sizeof FIELDS[0] - 1) == 0);
}

static void try_text(struct str name, struct str value, struct arena *arena)
{
    struct redrive_err err = {0};
    struct field_reader r;
    struct all all = BEFORE;
    uint64_t given = 0;
    fields_query_open(&r, 0, arena, NOW_MS, &err);
    int rc = fields_query_add(&r, FIELDS, name, value, &all, &given);
    if (rc < 0)
        check_failed(rc, &r, &err);
    check_values(&all, value.len);
    FUZZ_CHECK(rc < 0 || (given != 0 && (given & (given - 1)) == 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str input = {(const char *)data, size};
    const char *end = size > 0 ? memchr(input.ptr, '\n', size) : NULL;
    const size_t n = end ? (size_t)(end - input.ptr) : size;
    struct arena arena;
    arena_init(&arena);
    try_json(input, &arena);
    if (end)
        try_text((struct str){input.ptr, n}, (struct str){end + 1, size - n - 1}, &arena);
    arena_release(&arena);
    return 0;
}
