/* child.c - watches a child process on the loop: pipes, exit, signals; keeps the end of its
 * standard error. */
#include "run/exec/child.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"

#define DRAIN_MS 1000
/* An unknown exit status is not a success. */
#define EXIT_UNKNOWN 255

/* How far into the tail a line end is looked for. */
#define LINE_MAX_BYTES 1024

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* ---- The last bytes of standard error -------------------------------------------------------- */

void tail_release(struct tail *tail)
{
    free(tail->ring);
    *tail = (struct tail){0};
}

void tail_add(struct tail *tail, const char *bytes, size_t len)
{
    if (!tail->ring)
        tail->ring = malloc(TAIL_MAX_BYTES);
    size_t skip = len > TAIL_MAX_BYTES ? len - TAIL_MAX_BYTES : 0;
    tail->seen += skip;
    bytes += skip;
    len -= skip;
    while (tail->ring && len > 0) {
        size_t at = tail->seen % TAIL_MAX_BYTES;
        size_t n = TAIL_MAX_BYTES - at < len ? TAIL_MAX_BYTES - at : len;
        memcpy(tail->ring + at, bytes, n);
        tail->seen += n;
        bytes += n;
        len -= n;
    }
    tail->seen += len;
}

char *tail_text(const struct tail *tail)
{
    size_t len = tail->seen < TAIL_MAX_BYTES ? (size_t)tail->seen : TAIL_MAX_BYTES;
    char *text = tail->ring && len > 0 ? malloc(len + 1) : NULL;
    if (!text)
        return NULL;
    size_t first = (size_t)((tail->seen - len) % TAIL_MAX_BYTES);
    size_t until_end = TAIL_MAX_BYTES - first < len ? TAIL_MAX_BYTES - first : len;
    memcpy(text, tail->ring + first, until_end);
    memcpy(text + until_end, tail->ring, len - until_end);
    text[len] = '\0';
    for (char *nul = memchr(text, '\0', len); nul;
         nul = memchr(nul, '\0', len - (size_t)(nul - text)))
        *nul = ' ';
    char *line_end = tail->seen > len ? memchr(text, '\n', LINE_MAX_BYTES) : NULL;
    if (line_end)
        memmove(text, line_end + 1, len - (size_t)(line_end - text));
    return text;
}

/* ---- Its pipes and its end ------------------------------------------------------------------ */

/* One for all children: what is read is handed on before the next read. */
static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    static _Thread_local char room[64 * 1024];
    (void)handle;
    (void)suggested;
    *buf = uv_buf_init(room, sizeof room);
}

static void on_closed(uv_handle_t *handle)
{
    struct child *child = handle->data;
    if (--child->n_open == 0) {
        close(child->pidfd);
        child->ops->ended(child);
    }
}

static void close_handle(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_closed);
}

static void close_all(struct child *child)
{
    close_handle(&child->exit_poll);
    close_handle(&child->timer);
    close_handle(&child->in);
    close_handle(&child->out);
    close_handle(&child->err);
}

static void on_drain_timeout(uv_timer_t *timer)
{
    close_all(timer->data);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct child *child = stream->data;
    if (n > 0 && stream == (uv_stream_t *)&child->out)
        child->ops->output(child, buf->base, (size_t)n);
    else if (n > 0)
        tail_add(&child->tail, buf->base, (size_t)n);
    if (n >= 0)
        return;
    uv_read_stop(stream);
    if (--child->n_readable == 0 && child->has_exited)
        close_all(child);
}

/* The process is a zombie until waitid: its number is still its own, and so is the group's. */
static void on_exit_readable(uv_poll_t *poll, int status, int events)
{
    struct child *child = poll->data;
    (void)status;
    (void)events;
    kill(-child->pid, SIGKILL);
    siginfo_t info;
    int rc;
    do
        rc = waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED);
    while (rc < 0 && errno == EINTR);
    if (rc < 0)
        child->exit_code = EXIT_UNKNOWN; /* it was reaped elsewhere */
    else if (info.si_code == CLD_EXITED)
        child->exit_code = info.si_status;
    else
        child->signal = info.si_status;
    child->has_exited = true;
    uv_poll_stop(poll);
    uv_timer_stop(&child->timer);
    if (child->n_readable == 0)
        close_all(child);
    else
        uv_timer_start(&child->timer, on_drain_timeout, DRAIN_MS, 0);
}

static void attach(struct child *child, uv_loop_t *loop, const struct spawned *spawned)
{
    uv_timer_init(loop, &child->timer);
    uv_pipe_init(loop, &child->in, 0);
    uv_pipe_init(loop, &child->out, 0);
    uv_pipe_init(loop, &child->err, 0);
    child->timer.data = child->in.data = child->out.data = child->err.data = child;
    child->exit_poll.data = child;
    child->n_open = 5;
    child->n_readable = 2;
    /* None of these can fail on fresh pipes of ours: they only set flags. */
    uv_poll_start(&child->exit_poll, UV_READABLE, on_exit_readable);
    uv_pipe_open(&child->in, spawned->in);
    uv_pipe_open(&child->out, spawned->out);
    uv_pipe_open(&child->err, spawned->err);
    uv_read_start((uv_stream_t *)&child->out, give_room, on_read);
    uv_read_start((uv_stream_t *)&child->err, give_room, on_read);
}

/* The loop cannot watch it, so it must not run. */
static int give_up(const struct spawned *spawned, int uv_code, struct spawn_failure *ret_why,
                   struct redrive_err *err)
{
    kill(-spawned->pid, SIGKILL);
    while (waitpid(spawned->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    close(spawned->pidfd);
    close(spawned->in);
    close(spawned->out);
    close(spawned->err);
    *ret_why = (struct spawn_failure){.errnum = -uv_code};
    return err_set(err, REDRIVE_E_IO, "cannot watch a process: %s", uv_strerror(uv_code));
}

int child_start(struct child *child, uv_loop_t *loop, const struct spawn_request *request,
                const struct child_ops *ops, struct spawn_failure *ret_why, struct redrive_err *err)
{
    *child = (struct child){.ops = ops};
    struct spawned spawned;
    int rc = spawn(request, &spawned, ret_why, err);
    if (rc < 0)
        return rc;
    rc = uv_poll_init(loop, &child->exit_poll, spawned.pidfd);
    if (rc < 0)
        return give_up(&spawned, rc, ret_why, err);
    child->pid = spawned.pid;
    child->pidfd = spawned.pidfd;
    attach(child, loop, &spawned);
    return 0;
}

void child_release(struct child *child)
{
    tail_release(&child->tail);
}

void child_close_input(struct child *child)
{
    close_handle(&child->in);
}

static void on_grace_over(uv_timer_t *timer)
{
    child_kill(timer->data);
}

void child_terminate(struct child *child, int64_t grace_ms)
{
    if (child->has_exited || uv_is_active((uv_handle_t *)&child->timer))
        return;
    kill(-child->pid, SIGTERM);
    /* A stopped process takes no notice before it goes on. */
    kill(-child->pid, SIGCONT);
    uv_update_time(child->timer.loop);
    uv_timer_start(&child->timer, on_grace_over, (uint64_t)grace_ms, 0);
}

void child_kill(struct child *child)
{
    if (child->has_exited)
        return;
    kill(-child->pid, SIGKILL);
    kill(child->pid, SIGKILL); /* it may have moved to another group */
}
