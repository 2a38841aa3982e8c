/* Of time limits, while signals come. */
#include "check.h"
#include "waiting.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/redis/net/socket.h"
#include "store/redis/net/wire.h"

#define LIMIT_MS  300
#define TOO_OFTEN 500

static volatile sig_atomic_t n_signals;

static void set_timer(long every_us)
{
    const struct itimerval timer = {{.tv_usec = every_us}, {.tv_usec = every_us}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* After too many the call is left alone, so that it ends. */
static void interrupt(int number)
{
    const struct itimerval none = {0};
    (void)number;
    if (++n_signals >= TOO_OFTEN)
        (void)setitimer(ITIMER_REAL, &none, NULL);
}

/* A signal comes every 20 ms from now on. */
static void begin_signals(void)
{
    n_signals = 0;
    assert_int_equal(sigaction(SIGALRM, &(struct sigaction){.sa_handler = interrupt}, NULL), 0);
    set_timer(20000);
}

static void end_signals(void)
{
    set_timer(0);
    assert_int_equal(sigaction(SIGALRM, &(struct sigaction){.sa_handler = SIG_DFL}, NULL), 0);
}

/* Two sockets that are connected, while signals come. */
static void begin(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    rd_socket_set_limit(pair[0], LIMIT_MS);
    begin_signals();
}

static void end(int pair[2])
{
    end_signals();
    close(pair[0]);
    close(pair[1]);
}

TEST(signals_make_the_wait_for_an_answer_no_longer)
{
    int pair[2];
    char byte;
    begin(pair);
    assert_int_equal(rd_socket_receive(pair[0], &byte, 1, true), -1);
    assert_int_equal(errno, EAGAIN);
    assert_in_range(n_signals, 1, TOO_OFTEN - 1);
    end(pair);
}

TEST(signals_make_the_wait_for_a_full_socket_no_longer)
{
    int pair[2];
    char bytes[65536] = {0};
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    begin(pair);
    ssize_t n;
    do
        n = rd_socket_send(pair[0], &message, true);
    while (n > 0);
    assert_int_equal(n, -1);
    assert_int_equal(errno, EAGAIN);
    assert_in_range(n_signals, 1, TOO_OFTEN - 1);
    end(pair);
}

TEST(an_answer_that_comes_after_a_signal_is_received)
{
    int pair[2];
    char byte = 0;
    begin(pair);
    rd_socket_set_limit(pair[0], 60000);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        pass_ms(100);
        _exit(write(pair[1], "x", 1) == 1 ? 0 : 1);
    }
    assert_int_equal(rd_socket_receive(pair[0], &byte, 1, true), 1);
    assert_int_equal(byte, 'x');
    assert_true(n_signals >= 1);
    end(pair);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* It takes connections, as the system does that for it, and never says a word: neither in TLS nor
 * when it is asked whether it speaks without. */
TEST(signals_make_the_greeting_of_a_silent_server_no_longer)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    const struct node node = {.host = "127.0.0.1", .port = ntohs(at.sin_port)};
    const struct tls_settings tls = {.is_on = true};
    struct rd_wire *wire = NULL;
    struct redrive_err err = {0};
    begin_signals();
    assert_int_equal(rd_wire_open(&node, &tls, LIMIT_MS, &wire, &err), REDRIVE_E_IO);
    assert_in_range(n_signals, 1, TOO_OFTEN - 1);
    end_signals();
    close(listener);
}
