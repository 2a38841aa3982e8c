/* http.c - the runner that sends an HTTP request for each job. */
#include "run/http/http.h"

#include <stdlib.h>

#include "base/err.h"
#include "run/http/private.h"
#include "run/http/url_template.h"

static struct http_runner *runner_of(const struct http_run *run)
{
    return (struct http_runner *)run->base.runner;
}

static void leave_multi(struct http_run *run)
{
    if (run->is_added)
        curl_multi_remove_handle(runner_of(run)->multi.curl, run->easy);
    run->is_added = false;
}

static void on_done(void *transfer, CURLcode code)
{
    struct http_run *run = transfer;
    run->code = code;
    leave_multi(run);
    http_reply_finish(run);
}

static void finish_later(struct run *base)
{
    http_reply_finish((struct http_run *)base);
}

static int http_start(struct run *base, struct redrive_err *err)
{
    struct http_run *run = (struct http_run *)base;
    struct http_runner *runner = (struct http_runner *)base->runner;
    int rc = http_request_prepare(run, runner, &run->err);
    if (rc < 0 && run->status) {
        run_later(base, finish_later);
        return 0;
    }
    if (rc == 0 && curl_multi_add_handle(runner->multi.curl, run->easy) == CURLM_OK) {
        run->is_added = true;
        return 0;
    }
    http_request_release(run);
    return err_nomem(err);
}

static void http_end(struct run *base)
{
    leave_multi((struct http_run *)base);
    run_later(base, finish_later);
}

static void on_multi_closed(struct multi *multi)
{
    struct http_runner *runner =
        (struct http_runner *)(void *)((char *)multi - offsetof(struct http_runner, multi));
    runner_closed(&runner->base);
}

static void http_close(struct runner *base)
{
    multi_close(&((struct http_runner *)base)->multi, on_multi_closed);
}

static void http_free(struct runner *runner)
{
    free(runner);
}

static const struct runner_ops HTTP_OPS = {
    .name = "http",
    .run_size = sizeof(struct http_run),
    .start = http_start,
    .end = http_end,
    .close = http_close,
    .free = http_free,
};

int http_runner_new(uv_loop_t *loop, const struct log *log, const struct http_options *options,
                    struct runner **ret, struct redrive_err *err)
{
    struct http_runner *runner = calloc(1, sizeof *runner);
    if (!runner)
        return err_nomem(err);
    runner->options = *options;
    if (runner->options.connect_timeout_ms == 0)
        runner->options.connect_timeout_ms = HTTP_CONNECT_MS;
    runner->is_checked = url_host_is_made_by_jobs(options->url) && !options->allow_private;
    int rc = multi_init(&runner->multi, loop, on_done, err);
    if (rc < 0) {
        free(runner);
        return rc;
    }
    runner_init(&runner->base, &HTTP_OPS, loop, log);
    *ret = &runner->base;
    return 0;
}
