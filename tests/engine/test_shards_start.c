/* A process that starts while a shard is away: the others go on, and the shard is opened when it is
 * back. The shards are SQLite files; one that is away is a link that leads nowhere. */
#include "check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "engine/shards/router.h"
#include "engine/tasks.h"
#include "engine/verbs/claim.h"
#include "engine/verbs/submit.h"
#include "store/shards/record.h"
#include "waiting.h"

#define N_SHARDS  3
#define PATH_SIZE 256

struct place {
    char folder[64];
    char url[512];
    struct config *config;
    struct committer *committer;
};

static const char *file_of(const struct place *p, char name, char out[PATH_SIZE])
{
    (void)snprintf(out, PATH_SIZE, "%s/%c.db", p->folder, name);
    return out;
}

/* The shards are the files of these letters, in this order. */
static void name_shards(struct place *p, const char *names)
{
    size_t n = (size_t)snprintf(p->url, sizeof p->url, "shards:");
    for (size_t i = 0; names[i]; i++)
        n += (size_t)snprintf(p->url + n, sizeof p->url - n, "%ssqlite:%s/%c.db", i > 0 ? " " : "",
                              p->folder, names[i]);
}

static int open_router(struct place *p, bool create, struct router **ret, struct redrive_err *err)
{
    const struct router_options options = {
        .url = p->url, .create = create, .origin = 7, .engine = {.seed = 5, .config = p->config}};
    return router_open(&options, ret, err);
}

static void start(struct place *p)
{
    const struct router_start how = {.watches = true, .publishes = true};
    struct router *router;
    struct redrive_err err = {0};
    if (open_router(p, true, &router, &err) < 0)
        fail_msg("%s: %s", err.message, err.detail);
    assert_int_equal(router_start(router, &how, &p->committer, &err), 0);
}

static void stop(struct place *p)
{
    committer_stop(p->committer);
    p->committer = NULL;
}

static void load_config(struct place *p)
{
    static const char YAML[] = "tasks: {t: {queue: media}}\n";
    char path[PATH_SIZE];
    struct config_report report;
    (void)snprintf(path, sizeof path, "%s/redrive.yaml", p->folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(YAML, file) >= 0);
    assert_int_equal(fclose(file), 0);
    const struct config_sources sources = {.path = path, .path_required = true};
    assert_int_equal(config_load(&sources, &p->config, &report), 0);
}

static void place_init(struct place *p)
{
    *p = (struct place){.folder = "/tmp/redrive-start-XXXXXX"};
    assert_non_null(mkdtemp(p->folder));
    load_config(p);
    name_shards(p, "abc");
}

/* With a store that is set up. */
static void place_with_store(struct place *p)
{
    place_init(p);
    start(p);
    stop(p);
}

static void place_release(struct place *p)
{
    char path[PATH_SIZE];
    stop(p);
    config_free(p->config);
    DIR *folder = opendir(p->folder);
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        (void)snprintf(path, sizeof path, "%s/%.100s", p->folder, entry->d_name);
        if (entry->d_name[0] != '.')
            (void)unlink(path);
    }
    (void)closedir(folder);
    (void)rmdir(p->folder);
}

/* The file gets another letter, and a link that leads nowhere is in its place. */
static void take_away(const struct place *p, char name, char other)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    (void)file_of(p, name, from);
    if (other)
        assert_int_equal(rename(from, file_of(p, other, to)), 0);
    assert_int_equal(symlink(from, from), 0);
}

static void bring_back(const struct place *p, char name, char other)
{
    char from[PATH_SIZE], to[PATH_SIZE];
    assert_int_equal(rename(file_of(p, other, from), file_of(p, name, to)), 0);
}

/* A tenant of this shard. */
static struct str tenant_of(size_t shard, char out[16])
{
    for (unsigned i = 0;; i++) {
        (void)snprintf(out, 16, "tenant-%u", i);
        if (shard_of_tenant(str_of(out), N_SHARDS) == shard)
            return str_of(out);
    }
}

static int submit_to(struct place *p, size_t shard, struct redrive_err *err)
{
    char name[16];
    const struct job_spec spec = {.task = STR("t"), .tenant = tenant_of(shard, name)};
    struct submit_op op;
    assert_int_equal(submit_op_init(&op, committer_engine(p->committer), &spec, 1, NULL), 0);
    const int rc = committer_run(p->committer, &op.op, err);
    submit_op_release(&op);
    return rc;
}

static void wait_for_submit(struct place *p, size_t shard, struct redrive_err *err)
{
    WAIT_TELLING(submit_to(p, shard, err) == 0, pass_ms(1),
                 print_error("%s: %s\n", err->message, err->detail));
}

static size_t claim_all(struct place *p, enum claim_missed *ret_missed)
{
    const struct claim_filter filter = {.limit = 10};
    struct claim_op claim;
    claim_op_init(&claim, &filter, STR("w"), 0);
    assert_int_equal(committer_run(p->committer, &claim.op, NULL), 0);
    const size_t n = claim.n;
    *ret_missed = claim.missed;
    claim_op_release(&claim);
    return n;
}

static int list_of(struct store *reader, size_t shard, size_t *ret_n, struct redrive_err *err)
{
    char name[16];
    const struct job_filter filter = {.tenant = tenant_of(shard, name), .limit = 10};
    struct job_page page = {0};
    const int rc = store_ops(reader)->list(reader, &filter, &page, err);
    *ret_n = page.n;
    job_page_release(&page);
    return rc;
}

static size_t count_tasks(struct store *store)
{
    struct shared_page page = {0};
    assert_int_equal(
        store_ops(store)->shared_list(store, SHARED_TASK, (struct str){0}, &page, NULL), 0);
    const size_t n = page.n;
    shared_page_release(&page);
    return n;
}

/* The definitions of tasks that a shard has, from a handle of its own. */
static void wait_for_tasks(const struct place *p, char name)
{
    char path[PATH_SIZE], url[PATH_SIZE + 8];
    struct store *store;
    (void)snprintf(url, sizeof url, "sqlite:%s", file_of(p, name, path));
    assert_int_equal(store_open(url, NULL, &store, NULL), 0);
    WAIT_FOR(count_tasks(store) > 0);
    assert_int_equal(count_tasks(store), 1);
    store_close(store);
}

/* Whichever shard it is: also the first, which is the first to be asked. */
static void starts_without(size_t away)
{
    const char name = (char)('a' + away);
    const size_t there = (away + 1) % N_SHARDS;
    struct place p;
    struct redrive_err err = {0};
    struct store_status_view view;
    struct store *reader;
    enum claim_missed missed;
    char shard[16];
    size_t n;
    place_init(&p);
    struct config *config = p.config;
    p.config = NULL; /* its tasks are published by the process under test alone */
    start(&p);
    stop(&p);
    p.config = config;
    (void)snprintf(shard, sizeof shard, "shard %zu", away + 1);
    take_away(&p, name, 'x');
    start(&p);
    assert_int_equal(submit_to(&p, there, &err), 0);
    assert_int_equal(submit_to(&p, away, &err), REDRIVE_E_IO);
    assert_true(redrive_err_retryable(err.code));
    assert_non_null(strstr(err.detail, shard));
    store_status_read(committer_store_status(p.committer), &view);
    assert_true(view.is_partly_away && !view.is_away);
    assert_non_null(strstr(view.err.message, shard));
    assert_int_equal(store_status_away_parts(committer_store_status(p.committer)), 1u << away);
    struct publish_op publish;
    publish_op_init(&publish);
    assert_int_equal(committer_run(p.committer, &publish.op, &err), 0);
    assert_int_equal(claim_all(&p, &missed), 1);
    assert_int_equal(claim_all(&p, &missed), 0);
    assert_int_equal(missed, CLAIM_MISSED_AWAY);

    const struct store_options reads = {.late = true, .away = 1u << away};
    assert_int_equal(store_open(p.url, &reads, &reader, &err), 0);
    assert_int_equal(list_of(reader, there, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_int_equal(list_of(reader, away, &n, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, shard));

    bring_back(&p, name, 'x');
    wait_for_submit(&p, away, &err);
    assert_int_equal(claim_all(&p, &missed), 1);
    store_status_read(committer_store_status(p.committer), &view);
    assert_false(view.is_failing);
    wait_for_tasks(&p, name);
    WAIT_FOR(list_of(reader, away, &n, &err) == 0);
    assert_int_equal(n, 1);
    store_close(reader);
    place_release(&p);
}

TEST(a_process_starts_without_its_first_shard)
{
    starts_without(0);
}

TEST(a_process_starts_without_its_last_shard)
{
    starts_without(N_SHARDS - 1);
}

TEST(a_shard_that_comes_back_as_another_is_left_alone)
{
    struct place p;
    struct redrive_err err = {0};
    place_with_store(&p);
    name_shards(&p, "def");
    start(&p);
    stop(&p);
    name_shards(&p, "abc");
    take_away(&p, 'b', 'x');
    start(&p);
    bring_back(&p, 'b', 'e'); /* the second one of another store */
    WAIT_RUNNING(strstr(err.message, "not the shards that the store"),
                 assert_int_equal(submit_to(&p, 1, &err), REDRIVE_E_IO));
    assert_non_null(strstr(err.detail, "shard 2"));
    assert_non_null(strstr(err.detail, "/c.db; the store's own list: "));
    assert_non_null(strstr(err.detail, "/f.db"));
    assert_int_equal(submit_to(&p, 0, &err), 0);
    bring_back(&p, 'b', 'x');
    wait_for_submit(&p, 1, &err);
    place_release(&p);
}

TEST(other_shards_are_refused_also_while_one_is_away)
{
    struct place p;
    struct redrive_err err = {0};
    struct router *router;
    place_with_store(&p);
    take_away(&p, 'b', 'x');
    name_shards(&p, "cba");
    assert_int_equal(open_router(&p, true, &router, &err), REDRIVE_E_STATE);
    assert_non_null(strstr(err.detail, "the store's own list"));
    place_release(&p);
}

TEST(all_shards_are_needed_to_set_the_store_up_and_one_to_start)
{
    struct place p;
    struct redrive_err err = {0};
    struct router *router;
    place_init(&p);
    take_away(&p, 'b', '\0');
    assert_int_equal(open_router(&p, true, &router, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "shard 2"));
    assert_non_null(strstr(err.hint, "all shards must answer"));
    char path[PATH_SIZE];
    assert_int_equal(unlink(file_of(&p, 'b', path)), 0);
    start(&p);
    stop(&p);
    for (char name = 'a'; name < 'a' + N_SHARDS; name++)
        take_away(&p, name, (char)(name + 10));
    assert_int_equal(open_router(&p, true, &router, &err), REDRIVE_E_IO);
    assert_non_null(strstr(err.detail, "shard 1"));
    const struct store_options reads = {.late = true};
    struct store *reader;
    assert_int_equal(store_open(p.url, &reads, &reader, &err), REDRIVE_E_IO);
    place_release(&p);
}
