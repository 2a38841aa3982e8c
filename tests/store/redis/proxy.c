#include "proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"

#define PAIRS_MAX 16

/* Two ends by turns: that of a client, that of the server. */
struct pairs {
    struct pollfd at[1 + 2 * PAIRS_MAX];
    size_t n;
};

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void add_pair(struct proxy *proxy, struct pairs *pairs)
{
    int client = accept(proxy->listener, NULL, NULL);
    int server = client >= 0 && pairs->n + 2 <= 1 + 2 * PAIRS_MAX ? connect_to(proxy->to_port) : -1;
    if (server < 0) {
        if (client >= 0)
            close(client);
        return;
    }
    pairs->at[pairs->n++] = (struct pollfd){.fd = client, .events = POLLIN};
    pairs->at[pairs->n++] = (struct pollfd){.fd = server, .events = POLLIN};
}

static void drop_pair(struct pairs *pairs, size_t i)
{
    const size_t first = i - (i - 1) % 2;
    close(pairs->at[first].fd);
    close(pairs->at[first + 1].fd);
    pairs->n -= 2;
    pairs->at[first] = pairs->at[pairs->n];
    pairs->at[first + 1] = pairs->at[pairs->n + 1];
}

/* Hands on what has come at one end; false: the connection is over. */
static bool hand_on(struct proxy *proxy, struct pairs *pairs, size_t i)
{
    char bytes[16384];
    const bool is_server = (i - 1) % 2 == 1;
    const int to = pairs->at[is_server ? i - 1 : i + 1].fd;
    ssize_t n = read(pairs->at[i].fd, bytes, sizeof bytes);
    bool yes = true;
    if (n > 0 && !is_server && atomic_compare_exchange_strong(&proxy->keeps, &yes, false)) {
        memcpy(proxy->kept, bytes, (size_t)n);
        proxy->n_kept = (size_t)n;
        proxy->kept_for = dup(to);
        return false;
    }
    yes = true;
    if (n > 0 && is_server && atomic_compare_exchange_strong(&proxy->loses, &yes, false))
        return false;
    for (ssize_t done = 0; done < n;) {
        ssize_t sent = write(to, bytes + done, (size_t)(n - done));
        if (sent <= 0)
            return false;
        done += sent;
    }
    return n > 0;
}

static void *run(void *ctx)
{
    struct proxy *proxy = ctx;
    struct pairs pairs = {.at = {{.fd = proxy->listener, .events = POLLIN}}, .n = 1};
    while (!atomic_load(&proxy->is_over)) {
        poll(pairs.at, (nfds_t)pairs.n, 20);
        for (size_t i = pairs.n; i-- > 1;)
            if (i < pairs.n && pairs.at[i].revents != 0 && !hand_on(proxy, &pairs, i))
                drop_pair(&pairs, i);
        if (pairs.at[0].revents & POLLIN)
            add_pair(proxy, &pairs);
    }
    while (pairs.n > 1)
        drop_pair(&pairs, 1);
    return NULL;
}

void proxy_start(struct proxy *proxy, int to_port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *proxy = (struct proxy){.to_port = to_port, .listener = socket(AF_INET, SOCK_STREAM, 0)};
    assert_true(proxy->listener >= 0);
    assert_int_equal(bind(proxy->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(proxy->listener, 8), 0);
    assert_int_equal(getsockname(proxy->listener, (struct sockaddr *)&at, &len), 0);
    proxy->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&proxy->thread, NULL, run, proxy), 0);
}

void proxy_deliver(struct proxy *proxy)
{
    char answer[4096];
    assert_int_equal(write(proxy->kept_for, proxy->kept, proxy->n_kept), proxy->n_kept);
    assert_true(read(proxy->kept_for, answer, sizeof answer) > 0);
    close(proxy->kept_for);
}

void proxy_stop(struct proxy *proxy)
{
    atomic_store(&proxy->is_over, true);
    pthread_join(proxy->thread, NULL);
    close(proxy->listener);
}
