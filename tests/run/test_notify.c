#include "bench.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/socket.h>

#include "run/notify.h"

#define JSON "{\"status\":\"firing\"}"

/* A loop with a notifier for one alert, and a file that a command writes. */
struct post {
    uv_loop_t loop;
    struct config config;
    struct config_alert alerts[2]; /* the second is for nobody */
    struct notifier *notifier;
    struct buf log;
    char path[128];
    bool stopped;
};

static void sink(struct str line, void *ctx)
{
    (void)buf_add_str(ctx, line);
}

static struct log the_log;

static void post_init(struct post *p, const char *webhook, const char *const *argv)
{
    const char *tmp = getenv("TMPDIR");
    memset(p, 0, sizeof *p);
    buf_init(&p->log, 65536);
    the_log = (struct log){.sink = sink, .ctx = &p->log};
    assert_int_equal(uv_loop_init(&p->loop), 0);
    (void)snprintf(p->path, sizeof p->path, "%s/notify-XXXXXX", tmp ? tmp : "/tmp");
    int fd = mkstemp(p->path);
    assert_true(fd >= 0);
    close(fd);
    p->alerts[0].webhook = webhook;
    p->alerts[0].command.items = argv;
    while (argv && argv[p->alerts[0].command.n])
        p->alerts[0].command.n++;
    p->config.alerts = p->alerts;
    p->config.n_alerts = 2;
    const struct notifier_options options = {
        .loop = &p->loop, .config = &p->config, .log = &the_log, .environ = environ, .pause_ms = 5};
    assert_int_equal(notifier_new(&options, &p->notifier, NULL), 0);
}

static void fire_one(struct post *p, const struct config_alert *alert)
{
    const struct alert_event event = {.alert = alert, .firing = true, .json = STR(JSON)};
    notifier_on_alert(&event, p->notifier);
}

static void fire(struct post *p)
{
    fire_one(p, &p->alerts[0]);
}

static void on_stopped(void *ctx)
{
    ((struct post *)ctx)->stopped = true;
}

/* What the command has written. */
static char *written(struct post *p)
{
    static char text[4096];
    FILE *f = fopen(p->path, "r");
    assert_non_null(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    return text;
}

static void run_until(struct post *p, bool (*condition)(struct post *p))
{
    WAIT_RUNNING(condition(p), (uv_run(&p->loop, UV_RUN_NOWAIT), pass_ms(1)));
}

static bool is_stopped(struct post *p)
{
    return p->stopped;
}

static void post_release(struct post *p)
{
    notifier_stop(p->notifier, 0, on_stopped, p);
    assert_false(p->stopped);
    run_until(p, is_stopped);
    notifier_free(p->notifier);
    while (uv_run(&p->loop, UV_RUN_DEFAULT) != 0)
        ;
    assert_int_equal(uv_loop_close(&p->loop), 0);
    buf_release(&p->log);
    (void)unlink(p->path);
}

static bool has_json(struct post *p)
{
    return strcmp(written(p), JSON) == 0;
}

static bool has_given_up(struct post *p)
{
    return strstr(buf_cstr(&p->log), "alert_not_sent") != NULL;
}

/* The file's name is the script's first argument: a command is given little of our environment. */
static void init_with_shell(struct post *p, const char *script)
{
    static const char *argv[6];
    argv[0] = argv[3] = "sh";
    argv[1] = "-c";
    argv[2] = script;
    argv[4] = p->path;
    post_init(p, NULL, argv);
}

TEST(a_command_is_given_the_document)
{
    struct post p;
    init_with_shell(&p, "cat > \"$1\"");
    fire(&p);
    run_until(&p, has_json);
    post_release(&p);
}

TEST(what_fails_is_tried_again)
{
    struct post p;
    init_with_shell(&p, "cat > /dev/null; echo x >> \"$1\"; test $(wc -l < \"$1\") -ge 3 && "
                        "printf '%s' '" JSON "' > \"$1\"");
    fire(&p);
    run_until(&p, has_json);
    assert_false(has_given_up(&p));
    post_release(&p);
}

TEST(what_is_never_taken_is_logged_and_dropped)
{
    struct post p;
    init_with_shell(&p, "cat > /dev/null; echo x >> \"$1\"; echo no mail today >&2; exit 75");
    fire(&p);
    run_until(&p, has_given_up);
    assert_string_equal(written(&p), "x\nx\nx\nx\n");
    assert_non_null(strstr(buf_cstr(&p.log), "no mail today"));
    post_release(&p);
}

static bool has_begun(struct post *p)
{
    return strcmp(written(p), "begun\n") == 0;
}

TEST(a_stop_waits_for_no_command)
{
    struct post p;
    init_with_shell(&p, "echo begun > \"$1\"; exec sleep 600");
    fire(&p);
    run_until(&p, has_begun);
    post_release(&p);
}

TEST(a_stop_ends_the_patience_of_a_finish)
{
    struct post p;
    init_with_shell(&p, "echo begun > \"$1\"; exec sleep 600");
    fire(&p);
    run_until(&p, has_begun);
    notifier_finish(p.notifier, 10 * WAIT_LIMIT_MS, on_stopped, &p);
    post_release(&p);
}

TEST(a_stop_after_a_finish_without_alerts_changes_nothing)
{
    struct post p;
    post_init(&p, NULL, NULL);
    notifier_finish(p.notifier, 10 * WAIT_LIMIT_MS, on_stopped, &p);
    post_release(&p);
}

TEST(an_alert_for_nobody_is_no_work)
{
    struct post p;
    init_with_shell(&p, "cat > \"$1\"");
    fire_one(&p, &p.alerts[1]);
    fire(&p);
    run_until(&p, has_json);
    assert_string_equal(buf_cstr(&p.log), ""); /* no try, and so none that failed */
    post_release(&p);
}

/* ---- A webhook ------------------------------------------------------------------------------- */

struct hook {
    int fd;
    int answers; /* so many requests are refused before one is taken */
    char last[4096];
    pthread_mutex_t mutex;
    bool taken;
};

static void serve_one(struct hook *h, int fd)
{
    char text[4096] = "";
    size_t len = 0;
    ssize_t n;
    while (!strstr(text, JSON) && len < sizeof text - 1 &&
           (n = read(fd, text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    bool refuse = h->answers-- > 0;
    const char *reply = refuse ? "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                               : "HTTP/1.1 204 Ok\r\nConnection: close\r\n\r\n";
    assert_true(write(fd, reply, strlen(reply)) > 0);
    pthread_mutex_lock(&h->mutex);
    memcpy(h->last, text, sizeof text);
    h->taken = !refuse;
    pthread_mutex_unlock(&h->mutex);
}

static void *serve(void *arg)
{
    struct hook *h = arg;
    int fd;
    while (!h->taken && (fd = accept(h->fd, NULL, NULL)) >= 0) {
        serve_one(h, fd);
        close(fd);
    }
    return NULL;
}

static struct hook the_hook;

static bool is_taken(struct post *p)
{
    (void)p;
    pthread_mutex_lock(&the_hook.mutex);
    bool taken = the_hook.taken;
    pthread_mutex_unlock(&the_hook.mutex);
    return taken;
}

TEST(a_webhook_gets_the_document_until_it_takes_it)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    struct post p;
    pthread_t thread;
    char url[64];
    the_hook = (struct hook){.answers = 2, .mutex = PTHREAD_MUTEX_INITIALIZER};
    the_hook.fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(the_hook.fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(the_hook.fd, 8), 0);
    assert_int_equal(getsockname(the_hook.fd, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d/hook", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, serve, &the_hook), 0);
    post_init(&p, url, NULL);
    fire(&p);
    run_until(&p, is_taken);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(strstr(the_hook.last, "POST /hook "));
    assert_non_null(strstr(the_hook.last, "application/json"));
    assert_non_null(strstr(the_hook.last, JSON));
    post_release(&p);
    close(the_hook.fd);
}
