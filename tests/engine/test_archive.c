/* A store into a file and back: into the kind under test, and out of it. */
#include "engine/copy/archive.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "base/rng.h"
#include "dump.h"
#include "fault.h"
#include "store_for_test.h"
#include "pair.h"

/* ---- Files and stores ------------------------------------------------------------------------ */

struct bytes {
    char *data;
    size_t len;
};

static struct archive_options options_for(struct store *store)
{
    return (struct archive_options){.store = store, .now_ms = TS_START_MS};
}

static struct bytes export_store(struct store *store, struct archive_report *report)
{
    struct archive_options options = options_for(store);
    struct redrive_err err = {0};
    struct bytes b = {0};
    FILE *file = open_memstream(&b.data, &b.len);
    if (archive_export(&options, file, report, &err) < 0)
        fail_msg("%s; %s", err.message, err.detail);
    assert_int_equal(fclose(file), 0);
    return b;
}

static int import_bytes(const struct archive_options *options, struct bytes b,
                        struct archive_report *report, struct redrive_err *err)
{
    FILE *file = fmemopen(b.data, b.len, "r");
    struct archive_options given = *options;
    given.file_bytes = b.len;
    *err = (struct redrive_err){0};
    int rc = archive_import(&given, file, report, err);
    assert_int_equal(fclose(file), 0);
    return rc;
}

static void import_whole(struct test_store *ts, struct bytes b, struct archive_report *report)
{
    const struct archive_options options = options_for(ts->store);
    struct redrive_err err;
    if (import_bytes(&options, b, report, &err) < 0)
        fail_msg("%s; %s", err.message, err.detail);
    assert_string_equal(report->findings.difference, "");
}

static int check_bytes(struct bytes b, struct archive_report *report, struct redrive_err *err)
{
    const struct archive_options options = {0};
    FILE *file = fmemopen(b.data, b.len, "r");
    *err = (struct redrive_err){0};
    int rc = archive_check(&options, file, report, err);
    assert_int_equal(fclose(file), 0);
    return rc;
}

static void fill_all(struct test_store *ts, uint64_t transactions)
{
    fill(ts, transactions);
    for (int kind = SHARED_BREAKER; kind < SHARED_KIND_COUNT; kind++)
        put_row(ts, (enum shared_kind)kind, "row", "value");
}

static void put_jobs(struct test_store *ts, const char *tenant, int n)
{
    char id[32];
    ts_begin(ts);
    for (int i = 0; i < n; i++) {
        snprintf(id, sizeof id, "job-%d", i);
        PUT(ts, .tenant = str_of(tenant), .id = str_of(id));
    }
    ts_commit(ts);
}

static size_t jobs_in(struct test_store *ts)
{
    struct count_page page = {0};
    size_t n = 0;
    assert_int_equal(
        store_ops(ts->store)->counts(ts->store, COUNT_PARTITIONS, (struct str){0}, &page, NULL), 0);
    for (size_t i = 0; i < page.n; i++)
        for (int state = 0; state < REDRIVE_STATE_COUNT; state++)
            n += page.counts[i].by_state[state];
    count_page_release(&page);
    return n;
}

/* ---- It arrives ------------------------------------------------------------------------------ */

static void check_round_trip(const char *from, const char *to)
{
    struct test_store a, b;
    struct archive_report out, in, again;
    ts_open(&a, from);
    ts_open(&b, to);
    fill_all(&a, 300);
    struct bytes file = export_store(a.store, &out);
    import_whole(&b, file, &in);
    assert_true(in.is_compared);
    assert_int_equal(in.copied, out.tally.sums[RECORD_JOB].rows);
    assert_true(out.tally.attempts > 5 && out.tally.sums[RECORD_KEY].rows > 5);
    assert_true(out.tally.sums[RECORD_COUNTER].rows > 2);
    /* What comes out again is the same, but for the mark of the import. */
    struct bytes second = export_store(b.store, &again);
    const struct content_sum before = tally_total(&out.tally), after = tally_total(&again.tally);
    assert_true(content_same(&before, &after));
    for (int kind = 0; kind < RECORD_MARK; kind++)
        assert_int_equal(out.tally.sums[kind].rows > 0, kind != SHARED_WORKER);
    free(file.data);
    free(second.data);
    ts_close(&a);
    ts_close(&b);
}

TEST(everything_arrives_from_memory)
{
    check_round_trip("memory", stores_name());
}

TEST(everything_arrives_in_memory)
{
    check_round_trip(stores_name(), "memory");
}

TEST(everything_arrives_in_the_same_kind)
{
    check_round_trip(stores_name(), stores_name());
}

TEST(one_tenant_can_be_exported)
{
    struct test_store a;
    struct archive_report report;
    struct redrive_err err;
    ts_open(&a, stores_name());
    put_jobs(&a, "acme", 3);
    put_jobs(&a, "zeta", 4);
    struct archive_options options = options_for(a.store);
    struct bytes b = {0};
    FILE *file = open_memstream(&b.data, &b.len);
    options.tenant = STR("zeta");
    assert_int_equal(archive_export(&options, file, &report, &err), 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(report.tally.sums[RECORD_JOB].rows, 4);
    assert_int_equal(check_bytes(b, &report, &err), 0);
    assert_string_equal(report.tenant, "zeta");
    free(b.data);
    ts_close(&a);
}

TEST(a_snapshot_does_not_see_later_jobs)
{
    struct test_store a, other;
    struct job_page page = {0};
    const struct job_filter filter = {.limit = 10};
    ts_open(&a, stores_name());
    if (store_ops(a.store)->snapshot) {
        ts_join(&other, &a);
        PUT(&a, .id = STR("first"));
        assert_int_equal(store_ops(a.store)->snapshot(a.store, true, NULL), 0);
        PUT(&other, .id = STR("second"));
        assert_int_equal(store_ops(a.store)->list(a.store, &filter, &page, NULL), 0);
        assert_int_equal(page.n, 1);
        int64_t now_ms, version;
        assert_int_equal(store_ops(a.store)->begin(a.store, TS_START_MS, &now_ms, &version, NULL),
                         REDRIVE_E_STATE);
        assert_int_equal(store_ops(a.store)->snapshot(a.store, false, NULL), 0);
        assert_int_equal(store_ops(a.store)->list(a.store, &filter, &page, NULL), 0);
        assert_int_equal(page.n, 2);
        job_page_release(&page);
        ts_close(&other);
    }
    ts_close(&a);
}

/* ---- Again ----------------------------------------------------------------------------------- */

TEST(a_second_import_changes_nothing)
{
    struct test_store a, b;
    struct archive_report report;
    struct buf before, after;
    buf_init(&before, DUMP_MAX);
    buf_init(&after, DUMP_MAX);
    ts_open(&a, "memory");
    ts_open(&b, stores_name());
    fill_all(&a, 100);
    struct bytes file = export_store(a.store, &report);
    import_whole(&b, file, &report);
    dump_store(b.store, &before);
    import_whole(&b, file, &report);
    dump_store(b.store, &after);
    assert_int_equal(report.copied, 0);
    assert_int_equal(report.skipped, report.records);
    assert_string_equal(buf_cstr(&before), buf_cstr(&after));
    buf_release(&before);
    buf_release(&after);
    free(file.data);
    ts_close(&a);
    ts_close(&b);
}

/* Wherever the store fails, before a call or after a commit, and for good. */
TEST(whatever_fails_the_next_import_ends_it)
{
    struct test_store a;
    struct archive_report out;
    ts_open(&a, "memory");
    put_jobs(&a, "acme", 20);
    fill_all(&a, 30);
    struct bytes file = export_store(a.store, &out);
    const struct content_sum expected = tally_total(&out.tally);
    for (int after_commit = 0; after_commit < 2; after_commit++) {
        bool met = true;
        for (unsigned long at = 1; met; at += fault_step() + 2) {
            struct test_store b;
            struct fault fault;
            struct archive_report report;
            struct redrive_err err;
            ts_open(&b, stores_name());
            fault_init(&fault, b.store);
            fault.fail_at = at;
            fault.from_then_on = true;
            fault.after_commit = after_commit != 0;
            const struct archive_options options = options_for((struct store *)(void *)&fault);
            const int rc = import_bytes(&options, file, &report, &err);
            met = fault.met;
            store_ops(options.store)->rollback(options.store);
            assert_int_equal(rc, met ? REDRIVE_E_IO : 0);
            import_whole(&b, file, &report);
            struct bytes again = export_store(b.store, &report);
            const struct content_sum is = tally_total(&report.tally);
            assert_true(content_same(&is, &expected));
            free(again.data);
            ts_close(&b);
        }
    }
    free(file.data);
    ts_close(&a);
}

/* A file that is cut off gives the jobs before the cut, and the whole file the rest. */
TEST(a_file_that_is_cut_off_is_gone_on_with)
{
    struct test_store a;
    struct archive_report report;
    struct redrive_err err;
    ts_open(&a, "memory");
    put_jobs(&a, "acme", 12);
    fill_all(&a, 20);
    struct bytes file = export_store(a.store, &report);
    const size_t jobs = (size_t)report.tally.sums[RECORD_JOB].rows;
    for (size_t cut = 1, step = file.len / 13; cut + 400 < file.len; cut += step) {
        const size_t len = file.len - cut;
        struct test_store b;
        ts_open(&b, stores_name());
        const struct archive_options options = options_for(b.store);
        const int rc = import_bytes(&options, (struct bytes){file.data, len}, &report, &err);
        assert_int_equal(rc, REDRIVE_E_CORRUPT);
        assert_non_null(strstr(err.message, "the export is cut off"));
        const size_t taken = jobs_in(&b);
        assert_int_equal(report.copied, taken);
        import_whole(&b, file, &report);
        assert_int_equal(report.copied, jobs - taken);
        ts_close(&b);
    }
    free(file.data);
    ts_close(&a);
}

/* ---- What is refused ------------------------------------------------------------------------- */

TEST(a_file_that_is_cut_anywhere_is_noticed)
{
    struct test_store a;
    struct archive_report report;
    struct redrive_err err;
    ts_open(&a, "memory");
    put_jobs(&a, "acme", 5);
    struct bytes file = export_store(a.store, &report);
    assert_int_equal(check_bytes(file, &report, &err), 0);
    for (size_t len = 1; len < file.len; len += 3)
        assert_true(check_bytes((struct bytes){file.data, len}, &report, &err) < 0);
    free(file.data);
    ts_close(&a);
}

TEST(a_byte_that_was_changed_is_noticed_at_its_line)
{
    struct test_store a;
    struct archive_report report;
    struct redrive_err err;
    char expected[64];
    ts_open(&a, "memory");
    put_jobs(&a, "acme", 5);
    struct bytes file = export_store(a.store, &report);
    int line = 1;
    for (size_t i = 0; i < file.len; i++) {
        const char was = file.data[i];
        line += i > 0 && file.data[i - 1] == '\n';
        if (was == '\n' || i % 2)
            continue;
        file.data[i] = (char)(was ^ 1);
        const int rc = check_bytes(file, &report, &err);
        assert_true(rc < 0);
        snprintf(expected, sizeof expected, "line %d", line);
        if (line > 1 && !strstr(err.message, expected) && file.data[i] != '\n')
            fail_msg("byte %zu in line %d: %s", i, line, err.message);
        file.data[i] = was;
    }
    free(file.data);
    ts_close(&a);
}

/* The line `which`, from 0, doubled (twice) or left out (not at all). */
static struct bytes with_line(struct bytes file, int which, int times)
{
    struct bytes b = {malloc(2 * file.len), 0};
    const char *at = file.data, *end = file.data + file.len;
    for (int line = 0; at < end; line++) {
        const char *next = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
        for (int i = 0; i < (line == which ? times : 1); i++) {
            memcpy(b.data + b.len, at, (size_t)(next - at));
            b.len += (size_t)(next - at);
        }
        at = next;
    }
    return b;
}

TEST(a_line_that_was_doubled_or_left_out_is_noticed)
{
    struct test_store a;
    struct archive_report report;
    struct redrive_err err;
    ts_open(&a, "memory");
    put_jobs(&a, "acme", 5);
    struct bytes file = export_store(a.store, &report);
    for (int line = 0; line < (int)report.records + 2; line++)
        for (int times = 0; times <= 2; times += 2) {
            struct bytes other = with_line(file, line, times);
            assert_true(check_bytes(other, &report, &err) < 0);
            free(other.data);
        }
    free(file.data);
    ts_close(&a);
}

TEST(a_newer_format_is_refused_with_both_versions)
{
    static char newer[] = "{\"kind\":\"header\",\"format\":7,\"program\":\"9.9\",\"new\":[1]}\n";
    static char list[] = "{\"id\":\"a\",\"task\":\"mail\"}\n";
    struct archive_report report;
    struct redrive_err err;
    assert_int_equal(check_bytes((struct bytes){newer, sizeof newer - 1}, &report, &err),
                     REDRIVE_E_STATE);
    assert_non_null(strstr(err.message, "format 7"));
    assert_non_null(strstr(err.detail, "9.9"));
    assert_non_null(strstr(err.detail, REDRIVE_VERSION));
    assert_int_equal(check_bytes((struct bytes){list, sizeof list - 1}, &report, &err),
                     REDRIVE_E_PARSE);
}

TEST(jobs_of_its_own_are_a_reason_not_to)
{
    struct test_store a, b;
    struct archive_report report;
    struct redrive_err err;
    ts_open(&a, "memory");
    ts_open(&b, stores_name());
    put_jobs(&a, "acme", 5);
    ts_count(&a, (struct counter){STR("acme"), STR("completed"), {0}, 7});
    put_jobs(&b, "zeta", 2);
    ts_count(&b, (struct counter){STR("acme"), STR("completed"), {0}, 100});
    struct bytes file = export_store(a.store, &report);
    struct archive_options options = options_for(b.store);
    assert_int_equal(import_bytes(&options, file, &report, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.hint, "--into-existing"));
    assert_int_equal(jobs_in(&b), 2);
    options.into_existing = true;
    for (int run = 0; run < 2; run++) {
        assert_int_equal(import_bytes(&options, file, &report, &err), 0);
        assert_string_equal(report.findings.difference, "");
        assert_int_equal(jobs_in(&b), 7);
        assert_int_equal(store_ops(b.store)->counters_list(b.store, STR("acme"), &b.counters, NULL),
                         0);
        assert_int_equal(b.counters.counters[0].value, 107);
    }
    free(file.data);
    ts_close(&a);
    ts_close(&b);
}

/* ---- Records --------------------------------------------------------------------------------- */

TEST(every_byte_of_a_string_arrives)
{
    static const char BYTES[] = "\xff\x00\n\"\\\x7f";
    const struct record_batch batch = {.kind = RECORD_COUNTER,
                                       .n = 1,
                                       .counters =
                                           &(struct counter){.name = {BYTES, sizeof BYTES - 1},
                                                             .label = STR("a\nb \"c\" \xc3\xa9"),
                                                             .value = INT64_MAX}};
    const struct record record = record_of(&batch, 0);
    struct record again;
    struct arena arena;
    struct buf line;
    char member[RECORD_MEMBER_MAX];
    arena_init(&arena);
    buf_init(&line, 1 << 16);
    record_write(&record, &line);
    assert_null(strchr(buf_cstr(&line), '\n'));
    assert_int_equal(record_read(buf_str(&line), &arena, &again, NULL), 0);
    assert_string_equal(record_difference(&record, &again, member), "");
    again.counter.value--;
    assert_string_equal(record_difference(&record, &again, member), "value");
    arena_release(&arena);
    buf_release(&line);
}

TEST(what_is_no_record_is_refused)
{
    static const struct {
        const char *text;
        int code;
    } CASES[] = {
        {"{\"kind\":\"counter\",\"value\":1,\"more\":2}", REDRIVE_E_UNKNOWN},
        {"{\"kind\":\"worker\"}", REDRIVE_E_UNKNOWN},
        {"{\"kind\":\"counter\",\"value\":-1}", REDRIVE_E_RANGE},
        {"{\"kind\":\"counter\",\"value\":9223372036854775808}", REDRIVE_E_RANGE},
        {"{\"kind\":\"counter\",\"name\":{\"base64\":\"?\"}}", REDRIVE_E_INVALID},
        {"{\"kind\":\"remembered_key\",\"tenant\":\"a\",\"key\":\"k\"}", REDRIVE_E_INVALID},
        {"{\"kind\":\"remembered_key\",\"tenant\":\"a\",\"key\":\"k\",\"state\":\"gone\"}",
         REDRIVE_E_UNKNOWN},
        {"{\"kind\":\"job\",\"tenant\":\"a\"}", REDRIVE_E_INVALID},
        {"{}", REDRIVE_E_INVALID},
        {"{\"kind\":\"counter\"} x", REDRIVE_E_PARSE},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        struct arena arena;
        struct record record;
        struct redrive_err err = {0};
        arena_init(&arena);
        if (record_read(str_of(CASES[i].text), &arena, &record, &err) != CASES[i].code)
            fail_msg("%s: %d, %s", CASES[i].text, err.code, err.message);
        arena_release(&arena);
    }
}
