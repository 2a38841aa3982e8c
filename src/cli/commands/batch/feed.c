/* feed.c - the thread that reads records and submits them. */
#include "cli/commands/batch/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"

/* ---- Refusals -------------------------------------------------------------------------------- */

static void refuse(struct feed *feed, const struct redrive_err *err)
{
    atomic_fetch_add(&feed->invalid, 1);
    feed->options.report(err, feed->options.ctx);
    if (feed->options.strict && feed->code == 0) {
        feed->code = REDRIVE_E_IO;
        (void)err_set(&feed->err, feed->code, "the input has a record that is refused");
        err_detail(&feed->err, "%s", err->message);
        err_hint(&feed->err, "--strict stops at the first; what was read before it is submitted");
    }
}

static void refuse_at(struct feed *feed, uint64_t line, const struct redrive_err *why)
{
    struct redrive_err err;
    (void)err_set(&err, why->code, "line %llu: %.200s", (unsigned long long)line, why->message);
    err_detail(&err, "%s", why->detail);
    err_hint(&err, "%s", why->hint);
    refuse(feed, &err);
}

static void give_up(struct feed *feed, const struct redrive_err *err)
{
    feed->code = err->code;
    feed->err = *err;
}

/* ---- Records that are known ------------------------------------------------------------------ */

/* Keeps the records whose keys are not held. */
static void drop_held(struct feed *feed, const bool *held)
{
    size_t n = 0;
    for (size_t i = 0; i < feed->n; i++) {
        if (held[i])
            continue;
        feed->specs[n] = feed->specs[i];
        feed->lines[n++] = feed->lines[i];
    }
    atomic_fetch_add(&feed->known, feed->n - n);
    feed->looks_up = n < feed->n;
    feed->n = n;
}

static void drop_known(struct feed *feed)
{
    struct store *store = feed->options.store;
    struct str keys[BATCH_FEED_TRANSACTION];
    bool held[BATCH_FEED_TRANSACTION];
    for (size_t i = 0; i < feed->n; i++)
        keys[i] = feed->specs[i].unique_key;
    if (store_ops(store)->keys_held(store, STR(ENGINE_TENANT_DEFAULT), keys, feed->n, held, NULL) ==
        0)
        drop_held(feed, held);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

static void count_answer(struct feed *feed, const struct submit_answer *answer, uint64_t line)
{
    if (answer->code < 0)
        refuse_at(feed, line, answer->err);
    else
        atomic_fetch_add(answer->existed ? &feed->known : &feed->added, 1);
    feed->looks_up |= answer->code == 0 && answer->existed;
}

static int submit_gathered(struct feed *feed, struct redrive_err *err)
{
    struct submit_op op;
    int rc =
        submit_op_init(&op, committer_engine(feed->options.committer), feed->specs, feed->n, err);
    if (rc < 0)
        return rc;
    op.records = true;
    rc = committer_run(feed->options.committer, &op.op, err);
    for (size_t i = 0; i < feed->n && rc == 0; i++)
        count_answer(feed, &op.answers[i], feed->lines[i]);
    submit_op_release(&op);
    return rc;
}

static void flush(struct feed *feed)
{
    struct redrive_err err;
    if (feed->n == 0)
        return;
    if (feed->looks_up)
        drop_known(feed);
    if (feed->n > 0 && submit_gathered(feed, &err) < 0)
        give_up(feed, &err);
    arena_release(&feed->arena);
    arena_init(&feed->arena);
    feed->n = 0;
    feed->n_bytes = 0;
}

static struct str copy(struct feed *feed, struct str s)
{
    return s.ptr ? arena_str(&feed->arena, s) : s;
}

/* TASK/ID */
static struct str key_of(struct feed *feed, struct str task, struct str id)
{
    const size_t len = task.len + 1 + id.len;
    char *key = arena_alloc(&feed->arena, len + 1);
    if (!key)
        return (struct str){0};
    memcpy(key, task.ptr, task.len);
    key[task.len] = '/';
    memcpy(key + task.len + 1, id.ptr, id.len);
    key[len] = '\0';
    return (struct str){key, len};
}

static void gather(struct feed *feed, const struct record *record)
{
    const struct str task = str_of(feed->options.task);
    const struct str key = key_of(feed, task, record->id);
    feed->lines[feed->n] = record->line;
    feed->specs[feed->n++] = (struct job_spec){
        .task = task,
        .id = {key.ptr ? key.ptr + task.len + 1 : NULL, record->id.len},
        .unique_key = key,
        .unique_forever = true,
        .payload = copy(feed, record->payload),
    };
    feed->n_bytes += record->id.len + record->payload.len;
    if (feed->arena.failed) {
        struct redrive_err err;
        feed->n--;
        (void)err_nomem(&err);
        give_up(feed, &err);
        return;
    }
    if (feed->n == BATCH_FEED_TRANSACTION || feed->n_bytes >= BATCH_FEED_TRANSACTION_BYTES)
        flush(feed);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int cannot_read(const struct feed *feed, int error, struct redrive_err *err)
{
    bool is_stdin = strcmp(feed->options.path, "-") == 0;
    int code = error == ENOENT   ? REDRIVE_E_NOT_FOUND
               : error == EACCES ? REDRIVE_E_DENIED
                                 : REDRIVE_E_IO;
    (void)err_set(err, code, "cannot read the records: %s", strerror(error));
    err_detail(err, is_stdin ? "standard input" : "file %s", feed->options.path);
    return code;
}

/* Waits for input, or for feed_stop. Before it waits, all records read so far are submitted. */
static void wait_for_input(struct feed *feed)
{
    struct pollfd fds[] = {{.fd = feed->fd, .events = POLLIN},
                           {.fd = feed->wake[0], .events = POLLIN}};
    if (poll(fds, 2, 0) != 0)
        return;
    flush(feed);
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
}

static int read_input(void *ctx, char *out, size_t size, size_t *ret_len, struct redrive_err *err)
{
    struct feed *feed = ctx;
    ssize_t n = -1;
    *ret_len = 0;
    do {
        wait_for_input(feed);
        if (atomic_load(&feed->is_stopping) || feed->code < 0)
            return err_set(err, REDRIVE_E_STOPPING, "stopped");
        n = read(feed->fd, out, size);
    } while (n < 0 && (errno == EINTR || errno == EAGAIN));
    if (n < 0)
        return cannot_read(feed, errno, err);
    *ret_len = (size_t)n;
    return 0;
}

/* The end of the reading, but for a record that is merely bad. */
static void take_error(struct feed *feed, const struct redrive_err *err)
{
    bool is_broken = records_is_broken(&feed->records);
    if (is_broken && err->code == REDRIVE_E_STOPPING)
        return;
    if (!is_broken && err->code != REDRIVE_E_NOMEM)
        refuse(feed, err);
    else
        give_up(feed, err);
}

static void *run_feed(void *ctx)
{
    struct feed *feed = ctx;
    struct record record;
    struct redrive_err err;
    int rc;
    while (!atomic_load(&feed->is_stopping) && feed->code == 0 &&
           (rc = records_next(&feed->records, &record, &err)) != 0) {
        if (rc > 0)
            gather(feed, &record);
        else
            take_error(feed, &err);
    }
    flush(feed);
    feed->options.ended(feed->options.ctx);
    return NULL;
}

/* ---- Start and end --------------------------------------------------------------------------- */

int feed_open(struct feed *feed, const struct feed_options *options, struct redrive_err *err)
{
    const struct records_options records = {
        .format = options->format,
        .id_field = options->id_field,
        .payload_field = options->payload_field,
        .read = read_input,
        .ctx = feed,
    };
    feed->options = *options;
    feed->looks_up = true;
    records_init(&feed->records, &records);
    arena_init(&feed->arena);
    if (pipe2(feed->wake, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_set(err, REDRIVE_E_IO, "cannot make a pipe: %s", strerror(errno));
    feed->fd =
        strcmp(options->path, "-") == 0 ? STDIN_FILENO : open(options->path, O_RDONLY | O_CLOEXEC);
    return feed->fd < 0 ? cannot_read(feed, errno, err) : 0;
}

int feed_start(struct feed *feed, struct redrive_err *err)
{
    int error = pthread_create(&feed->thread, NULL, run_feed, feed);
    if (error != 0)
        return err_set(err, REDRIVE_E_NOMEM, "cannot start a thread: %s", strerror(error));
    feed->is_running = true;
    return 0;
}

void feed_stop(struct feed *feed)
{
    if (atomic_exchange(&feed->is_stopping, true) || feed->wake[1] < 0)
        return;
    ssize_t ignored = write(feed->wake[1], "", 1);
    (void)ignored;
}

int feed_join(struct feed *feed, struct redrive_err *err)
{
    if (feed->is_running)
        pthread_join(feed->thread, NULL);
    feed->is_running = false;
    if (feed->code < 0 && err)
        *err = feed->err;
    return feed->code;
}

struct feed_counts feed_counts(const struct feed *feed)
{
    struct feed_counts counts = {
        .added = atomic_load(&feed->added),
        .known = atomic_load(&feed->known),
        .invalid = atomic_load(&feed->invalid),
    };
    counts.read = counts.added + counts.known + counts.invalid;
    return counts;
}

void feed_release(struct feed *feed)
{
    for (int i = 0; i < 2; i++)
        if (feed->wake[i] >= 0)
            close(feed->wake[i]);
    if (feed->fd > STDIN_FILENO)
        close(feed->fd);
    records_release(&feed->records);
    arena_release(&feed->arena);
}
