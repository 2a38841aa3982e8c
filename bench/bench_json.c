/* bench_json.c - the JSON reader beside cJSON and jansson, over the same job envelopes.
 *
 * Two measures each: `*.reader` walks a 1 MiB array of envelopes (MB/s), `*.docs` parses the
 * envelopes one by one and takes the fields that a submit needs (docs/s). cJSON and jansson build
 * a tree and free it; the reader checks everything (UTF-8, duplicate keys) and keeps slices.
 * Contestants take turns within each round; the median of the rounds is printed.
 *
 *     bench_json [--json]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cjson/cJSON.h>
#include <jansson.h>

#include "base/json/json.h"
#include "base/json/writer.h"
#include "base/rng.h"
#include "base/text/buf.h"

#define DOC_BYTES 488
#define N_DOCS    2148 /* with commas and brackets just below 1 MiB */
#define ROUNDS    9
#define ROUND_NS  INT64_C(40000000)

static struct buf array; /* all envelopes as one array; each stands at doc_at(i) */

static const char *doc_at(size_t i)
{
    return array.data + 1 + i * (DOC_BYTES + 1);
}

static void die(const char *what)
{
    fprintf(stderr, "bench_json: %s\n", what);
    exit(1);
}

/* Ids, users and amounts differ, their lengths do not. */
static void make_envelopes(void)
{
    struct rng rng;
    rng_seed(&rng, 42);
    buf_init(&array, 2u << 20);
    buf_putc(&array, '[');
    for (int i = 0; i < N_DOCS; i++) {
        size_t start = array.len + (i > 0);
        uint64_t a = rng_next(&rng), b = rng_next(&rng);
        buf_printf(
            &array,
            "%s{\"id\":\"0190f3c2-%04x-7%03x-9%03x-%012llx\",\"task\":\"render-invoice\","
            "\"queue\":\"billing\",\"payload\":{\"customer\":\"M\xC3\xBCller & S\xC3\xB6hne GmbH\","
            "\"email\":\"ap@example.com\",\"amount\":1%03d.95,\"currency\":\"EUR\","
            "\"lines\":[{\"sku\":\"A-1%03d\",\"qty\":2,\"price\":499.5},"
            "{\"sku\":\"B-773\",\"qty\":1,\"price\":250.95}],"
            "\"note\":\"By post\\nand by mail\",\"draft\":false},\"priority\":5,"
            "\"user\":\"u-10%03d\",\"project\":\"p-77\",\"service\":\"printer\",\"attempts\":1,"
            "\"max_attempts\":5,\"process_after\":1735689600%03d,\"deadline\":null,"
            "\"tags\":[\"eu\",\"vat\"]}",
            i > 0 ? "," : "", (unsigned)(a & 0xFFFF), (unsigned)(a >> 16 & 0xFFF),
            (unsigned)(a >> 32 & 0xFFF), (unsigned long long)(b & 0xFFFFFFFFFFFF), (int)(a % 1000),
            (int)(b % 1000), (int)(a / 1000 % 1000), (int)(b / 1000 % 1000));
        if (array.len - start != DOC_BYTES)
            die("an envelope is not of the stated size");
    }
    buf_putc(&array, ']');
    if (buf_failed(&array) || doc_at(N_DOCS) != array.data + array.len)
        die("cannot make the envelopes");
}

/* What a submit takes from an envelope; kept so that no reading can be optimised away. */
static volatile int64_t sink;

static void reader_array(void)
{
    struct json_reader r;
    struct str slice;
    int64_t bytes = 0;

    json_reader_init(&r, buf_str(&array), NULL);
    json_enter_array(&r);
    while (json_next_item(&r) > 0 && json_skip(&r, &slice) == 0)
        bytes += (int64_t)slice.len;
    if (json_end(&r) < 0)
        die("the reader refused the envelopes");
    json_reader_release(&r);
    sink = bytes;
}

static void reader_doc(struct str doc)
{
    struct json_reader r;
    struct json_string key, id = {0}, task = {0}, queue = {0}, user = {0};
    struct str payload = {0};
    int64_t priority = 0, attempts = 0;

    json_reader_init(&r, doc, NULL);
    json_enter_object(&r);
    while (json_next_key(&r, &key) > 0) {
        if (json_string_is(key, "id"))
            json_read_string(&r, &id);
        else if (json_string_is(key, "task"))
            json_read_string(&r, &task);
        else if (json_string_is(key, "queue"))
            json_read_string(&r, &queue);
        else if (json_string_is(key, "user"))
            json_read_string(&r, &user);
        else if (json_string_is(key, "priority"))
            json_read_int(&r, &priority);
        else if (json_string_is(key, "attempts"))
            json_read_int(&r, &attempts);
        else if (json_string_is(key, "payload"))
            json_skip(&r, &payload);
        else
            json_skip(&r, NULL);
    }
    if (json_end(&r) < 0)
        die("the reader refused an envelope");
    json_reader_release(&r);
    sink = (int64_t)(id.raw.len + task.raw.len + queue.raw.len + user.raw.len + payload.len) +
           priority + attempts;
}

static void reader_docs(void)
{
    for (size_t i = 0; i < N_DOCS; i++)
        reader_doc((struct str){doc_at(i), DOC_BYTES});
}

static void cjson_array(void)
{
    cJSON *root = cJSON_ParseWithLength(array.data, array.len);
    if (!root)
        die("cJSON refused the envelopes");
    sink = cJSON_GetArraySize(root);
    cJSON_Delete(root);
}

static void cjson_docs(void)
{
    for (size_t i = 0; i < N_DOCS; i++) {
        cJSON *doc = cJSON_ParseWithLength(doc_at(i), DOC_BYTES);
        if (!doc)
            die("cJSON refused an envelope");
        int64_t sum = 0;
        for (const cJSON *field = doc->child; field; field = field->next)
            sum += cJSON_IsString(field) ? (int64_t)strlen(field->valuestring) : field->type;
        sink = sum;
        cJSON_Delete(doc);
    }
}

#define JANSSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

static void jansson_array(void)
{
    json_t *root = json_loadb(array.data, array.len, JANSSON_FLAGS, NULL);
    if (!root)
        die("jansson refused the envelopes");
    sink = (int64_t)json_array_size(root);
    json_decref(root);
}

static void jansson_docs(void)
{
    for (size_t i = 0; i < N_DOCS; i++) {
        json_t *doc = json_loadb(doc_at(i), DOC_BYTES, JANSSON_FLAGS, NULL);
        if (!doc)
            die("jansson refused an envelope");
        sink = (int64_t)json_string_length(json_object_get(doc, "id")) +
               json_integer_value(json_object_get(doc, "priority"));
        json_decref(doc);
    }
}

struct row {
    const char *name;
    const char *unit;
    void (*once)(void);
    double per_run; /* units in one run */
    double values[ROUNDS];
};

/* Processor time: nothing here waits, and what other programs take is not the reader's. */
static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double measure(const struct row *row)
{
    int64_t start = now_ns(), elapsed;
    int runs = 0;
    do {
        row->once();
        runs++;
        elapsed = now_ns() - start;
    } while (elapsed < ROUND_NS);
    return row->per_run * runs * 1e9 / (double)elapsed;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_rows(const struct row *rows, size_t n, bool as_json)
{
    struct buf out;
    struct json_writer w;
    buf_init(&out, 1u << 16);
    json_writer_init(&w, &out);
    json_begin_object(&w);
    json_key(&w, "rows");
    json_begin_array(&w);
    for (size_t i = 0; i < n; i++) {
        int64_t median = (int64_t)(rows[i].values[ROUNDS / 2] + 0.5);
        if (!as_json)
            printf("%-16s %10lld %s\n", rows[i].name, (long long)median, rows[i].unit);
        json_begin_object(&w);
        json_field_cstr(&w, "name", rows[i].name);
        json_field_int(&w, "value", median);
        json_field_cstr(&w, "unit", rows[i].unit);
        json_key(&w, "durable");
        json_put_null(&w);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    if (as_json)
        puts(buf_cstr(&out));
    buf_release(&out);
}

int main(int argc, char **argv)
{
    bool as_json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc > 1 && !as_json) {
        fprintf(stderr, "usage: bench_json [--json]\n");
        return 2;
    }
    make_envelopes();
    const double mb = (double)array.len / 1e6;
    struct row rows[] = {
        {"json.reader", "MB/s", reader_array, mb},
        {"cjson.reader", "MB/s", cjson_array, mb},
        {"jansson.reader", "MB/s", jansson_array, mb},
        {"json.docs", "docs/s", reader_docs, N_DOCS},
        {"cjson.docs", "docs/s", cjson_docs, N_DOCS},
        {"jansson.docs", "docs/s", jansson_docs, N_DOCS},
    };
    const size_t n = sizeof rows / sizeof rows[0];

    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < n; i++)
            rows[i].values[round] = measure(&rows[i]);
    for (size_t i = 0; i < n; i++)
        qsort(rows[i].values, ROUNDS, sizeof rows[i].values[0], by_value);
    print_rows(rows, n, as_json);
    buf_release(&array);
    return 0;
}
