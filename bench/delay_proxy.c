/* delay_proxy - makes the way to a server longer, and counts the round trips on it.
 *
 *     delay_proxy PORT ROUND_TRIP_US
 *
 * Listens on a free port of loopback and connects each client to 127.0.0.1:PORT. What is read on
 * either side is written on the other one half of the round trip later, in order. An end of input
 * is passed on as one (the other direction goes on), a reset as a reset. The connect itself is not
 * delayed. At most FLOW_MAX bytes of a direction are under way; a reader that is slower stops its
 * writer, as it would without a proxy.
 *
 * The first line on standard output is {"port":N}. Standard input takes commands, one a line:
 *
 *     counts    answers with one line of JSON
 *     reset     the same, and counts from 0 from then on, so that a start-up need not be counted
 *
 * SIGUSR1 prints that line too. The proxy prints it once more and ends at the end of its input, on
 * SIGTERM and on SIGINT.
 *
 *     connections                       accepted
 *     round_trips                       bytes of a client that follow bytes which the server has
 *                                       sent and the client could read, or are the first on their
 *                                       connection: requests that do not wait for each other's
 *                                       answers are one round trip
 *     to_server_bytes, to_client_bytes  read, without what TCP and IP add
 *     late_p50_us, late_p99_us          how much later than asked bytes were passed on
 *
 * One thread. The delay is the same for all, so bytes are due in the order in which they came, and
 * one list of them does for all connections. Where the system allows it the proxy runs before all
 * normal programs: a network does not wait for a processor.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define READ_MAX   65536
#define FLOW_MAX   (8 * 1024 * 1024)
#define EVENTS_MAX 64
#define LATE_MAX   10000 /* microseconds; later ones count as this */

enum side {
    CLIENT,
    SERVER,
};

enum kind {
    BYTES,
    END,   /* the sender has shut its side down */
    RESET, /* the sender is gone */
};

struct chunk {
    struct chunk *next; /* on the way, or in its flow's line */
    struct flow *flow;
    int64_t due_ns;
    enum kind kind;
    size_t len, written;
    char bytes[];
};

struct chunk_list {
    struct chunk *first, *last;
};

/* One direction of a link: from its own side to the other one. */
struct flow {
    struct link *link;
    enum side from;
    struct chunk_list due; /* due, not yet written */
    size_t held_bytes;     /* read, not yet written */
    bool is_over;          /* there is nothing more to read */
    bool is_paused;        /* FLOW_MAX bytes are held */
    bool has_no_reader;    /* what is still to come is dropped */
    bool is_shut;          /* the end was passed on */
};

/* A client and its connection to the server. */
struct link {
    int fds[2];           /* by side */
    struct flow flows[2]; /* by the side that they come from */
    size_t on_the_way;    /* chunks, which point here */
    bool client_spoke;    /* since the last bytes that it got */
    bool is_closed;
    struct link *next_closed;
};

struct counts {
    uint64_t connections, round_trips, bytes[2];
    uint64_t late_us[LATE_MAX + 1];
};

static int epoll_fd, listener_fd, timer_fd, signal_fd;
static uint16_t server_port;
static int64_t delay_ns;
static int64_t armed_ns; /* when the timer fires; 0: it is off */
static struct chunk_list on_the_way;
static struct link *closed_links; /* freed when no event can point to them any more */
static struct counts counts;

static void fail(const char *what)
{
    fprintf(stderr, "delay_proxy: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void append(struct chunk_list *list, struct chunk *chunk)
{
    chunk->next = NULL;
    if (list->last)
        list->last->next = chunk;
    else
        list->first = chunk;
    list->last = chunk;
}

static struct chunk *take_first(struct chunk_list *list)
{
    struct chunk *chunk = list->first;
    list->first = chunk->next;
    if (!list->first)
        list->last = NULL;
    return chunk;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static void count_bytes(struct link *link, enum side from, size_t len)
{
    counts.bytes[from] += len;
    if (from == CLIENT && !link->client_spoke) {
        counts.round_trips++;
        link->client_spoke = true;
    }
}

static void count_late(int64_t late_ns)
{
    const int64_t us = late_ns / 1000;
    counts.late_us[us > LATE_MAX ? LATE_MAX : us]++;
}

static int late_percentile_us(double share)
{
    uint64_t all = 0, below = 0;
    for (int us = 0; us <= LATE_MAX; us++)
        all += counts.late_us[us];
    for (int us = 0; us <= LATE_MAX; us++) {
        below += counts.late_us[us];
        if ((double)below >= share * (double)all)
            return us;
    }
    return LATE_MAX;
}

static void print_counts(void)
{
    dprintf(STDOUT_FILENO,
            "{\"connections\":%lu,\"round_trips\":%lu,\"to_server_bytes\":%lu,"
            "\"to_client_bytes\":%lu,\"late_p50_us\":%d,\"late_p99_us\":%d}\n",
            counts.connections, counts.round_trips, counts.bytes[CLIENT], counts.bytes[SERVER],
            late_percentile_us(0.5), late_percentile_us(0.99));
}

/* ---- Links ----------------------------------------------------------------------------------- */

static void close_link(struct link *link, bool by_reset)
{
    const struct linger at_once = {.l_onoff = 1};
    for (int side = 0; side < 2; side++) {
        if (by_reset)
            setsockopt(link->fds[side], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        close(link->fds[side]);
        while (link->flows[side].due.first)
            free(take_first(&link->flows[side].due));
    }
    link->is_closed = true;
    link->next_closed = closed_links;
    closed_links = link;
}

/* Those that no chunk on the way points to. */
static void free_closed_links(void)
{
    struct link **at = &closed_links;
    while (*at) {
        struct link *link = *at;
        if (link->on_the_way > 0) {
            at = &link->next_closed;
            continue;
        }
        *at = link->next_closed;
        free(link);
    }
}

static void send_on_the_way(struct flow *flow, enum kind kind, const char *bytes, size_t len)
{
    struct chunk *chunk = malloc(sizeof *chunk + len);
    if (!chunk)
        fail("memory");
    *chunk = (struct chunk){.flow = flow, .due_ns = now_ns() + delay_ns, .kind = kind, .len = len};
    if (len > 0)
        memcpy(chunk->bytes, bytes, len);
    flow->held_bytes += len;
    flow->link->on_the_way++;
    append(&on_the_way, chunk);
}

/* The program at that side is gone: the other one is told after the delay. */
static void lose_side(struct link *link, enum side side)
{
    if (link->flows[!side].has_no_reader)
        return;
    link->flows[!side].has_no_reader = true;
    link->flows[side].is_over = true;
    send_on_the_way(&link->flows[side], RESET, NULL, 0);
}

static void read_flow(struct flow *flow)
{
    static char bytes[READ_MAX];
    struct link *link = flow->link;
    while (!flow->is_over && !flow->is_paused) {
        const ssize_t n = recv(link->fds[flow->from], bytes, sizeof bytes, 0);
        if (n > 0) {
            count_bytes(link, flow->from, (size_t)n);
            send_on_the_way(flow, BYTES, bytes, (size_t)n);
            flow->is_paused = flow->held_bytes >= FLOW_MAX;
        } else if (n == 0) {
            flow->is_over = true;
            send_on_the_way(flow, END, NULL, 0);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            lose_side(link, flow->from);
        }
    }
}

/* False: the reader must read first, or is gone. */
static bool write_chunk(struct flow *flow, struct chunk *chunk)
{
    const enum side to = !flow->from;
    while (chunk->written < chunk->len && !flow->has_no_reader) {
        const ssize_t n = send(flow->link->fds[to], chunk->bytes + chunk->written,
                               chunk->len - chunk->written, MSG_NOSIGNAL);
        if (n >= 0)
            chunk->written += (size_t)n;
        else if (errno == EAGAIN)
            return false;
        else if (errno != EINTR)
            lose_side(flow->link, to);
    }
    return true;
}

static void write_flow(struct flow *flow)
{
    struct link *link = flow->link;
    while (flow->due.first) {
        struct chunk *chunk = flow->due.first;
        if (chunk->kind == RESET) {
            close_link(link, true);
            return;
        }
        if (!write_chunk(flow, chunk))
            break;
        if (chunk->kind == END) {
            shutdown(link->fds[!flow->from], SHUT_WR);
            flow->is_shut = true;
        }
        flow->held_bytes -= chunk->len;
        free(take_first(&flow->due));
    }
    if (link->flows[CLIENT].is_shut && link->flows[SERVER].is_shut) {
        close_link(link, false);
    } else if (flow->is_paused && flow->held_bytes < FLOW_MAX / 2) {
        flow->is_paused = false;
        read_flow(flow);
    }
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void deliver_due(void)
{
    while (on_the_way.first) {
        const int64_t late_ns = now_ns() - on_the_way.first->due_ns;
        if (late_ns < 0)
            return;
        struct chunk *chunk = take_first(&on_the_way);
        struct flow *flow = chunk->flow;
        flow->link->on_the_way--;
        if (flow->link->is_closed) {
            free(chunk);
            continue;
        }
        count_late(late_ns);
        if (flow->from == SERVER)
            flow->link->client_spoke = false;
        append(&flow->due, chunk);
        write_flow(flow);
    }
}

static void arm_timer(void)
{
    const int64_t at_ns = on_the_way.first ? on_the_way.first->due_ns : 0;
    if (at_ns == 0 || at_ns == armed_ns)
        return;
    const struct itimerspec when = {
        .it_value = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000}};
    if (timerfd_settime(timer_fd, TFD_TIMER_ABSTIME, &when, NULL) != 0)
        fail("timer");
    armed_ns = at_ns;
}

static void watch(int fd, uint32_t events, void *what)
{
    struct epoll_event event = {.events = events, .data.ptr = what};
    /* A file as standard input cannot be waited for: only signals end the proxy then. */
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 && errno != EPERM)
        fail("epoll");
}

static void open_link(int client_fd)
{
    const struct sockaddr_in server = {.sin_family = AF_INET,
                                       .sin_port = htons(server_port),
                                       .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int one = 1;
    const int server_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct link *link = calloc(1, sizeof *link);
    if (server_fd < 0 || !link)
        fail("connection");
    *link = (struct link){.fds = {client_fd, server_fd}};
    counts.connections++;
    for (int side = 0; side < 2; side++) {
        link->flows[side] = (struct flow){.link = link, .from = (enum side)side};
        setsockopt(link->fds[side], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    /* A server that is not there is found out by the first event on its socket. */
    if (connect(server_fd, (const struct sockaddr *)&server, sizeof server) != 0 &&
        errno != EINPROGRESS) {
        close_link(link, true);
        return;
    }
    for (int side = 0; side < 2; side++)
        watch(link->fds[side], EPOLLIN | EPOLLOUT | EPOLLET, &link->flows[side]);
}

static void accept_clients(void)
{
    for (;;) {
        const int fd = accept4(listener_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd >= 0)
            open_link(fd);
        else if (errno != EINTR && errno != ECONNABORTED)
            fail("accept");
    }
}

static void handle_flow(struct flow *flow, uint32_t events)
{
    struct link *link = flow->link;
    if (!link->is_closed && events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        read_flow(flow);
    if (!link->is_closed && events & EPOLLOUT)
        write_flow(&link->flows[!flow->from]);
}

static bool handle_command(const char *line)
{
    print_counts();
    if (strcmp(line, "reset") == 0)
        memset(&counts, 0, sizeof counts);
    return strcmp(line, "reset") == 0 || strcmp(line, "counts") == 0;
}

/* False at the end of input. */
static bool read_commands(void)
{
    static char input[256];
    static size_t len;
    const ssize_t n = read(STDIN_FILENO, input + len, sizeof input - 1 - len);
    if (n <= 0)
        return false;
    len += (size_t)n;
    input[len] = '\0';
    char *line = input;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = '\0';
        if (!handle_command(line))
            return false;
    }
    len -= (size_t)(line - input);
    memmove(input, line, len);
    return len < sizeof input - 1;
}

/* False when the proxy is told to end. */
static bool read_signal(void)
{
    struct signalfd_siginfo info;
    if (read(signal_fd, &info, sizeof info) != sizeof info || info.ssi_signo != SIGUSR1)
        return false;
    print_counts();
    return true;
}

static void serve(void)
{
    struct epoll_event events[EVENTS_MAX];
    for (bool goes_on = true; goes_on;) {
        arm_timer();
        const int n = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);
        deliver_due();
        for (int i = 0; i < n; i++) {
            void *what = events[i].data.ptr;
            if (what == &listener_fd)
                accept_clients();
            else if (what == &epoll_fd)
                goes_on = read_commands() && goes_on;
            else if (what == &signal_fd)
                goes_on = read_signal() && goes_on;
            else if (what != &timer_fd)
                handle_flow(what, events[i].events);
        }
        deliver_due(); /* without a delay nothing waits for the timer */
        free_closed_links();
    }
}

/* ---- Start ----------------------------------------------------------------------------------- */

static void take_priority(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    const struct sched_param lowest = {.sched_priority = 1};
    sched_setscheduler(0, SCHED_RR, &lowest); /* without the right to, as everybody else */
    prctl(PR_SET_TIMERSLACK, 1UL);
}

static uint16_t listen_on_loopback(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof address;
    listener_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_fd < 0 || bind(listener_fd, (struct sockaddr *)&address, len) != 0 ||
        listen(listener_fd, 1024) != 0 ||
        getsockname(listener_fd, (struct sockaddr *)&address, &len) != 0)
        fail("listen");
    return ntohs(address.sin_port);
}

static void watch_all(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (epoll_fd < 0 || timer_fd < 0 || signal_fd < 0)
        fail("start");
    watch(listener_fd, EPOLLIN, &listener_fd);
    watch(timer_fd, EPOLLIN | EPOLLET, &timer_fd); /* never read: it fires anew when it is set */
    watch(signal_fd, EPOLLIN, &signal_fd);
    watch(STDIN_FILENO, EPOLLIN, &epoll_fd);
}

int main(int argc, char **argv)
{
    char *port_end, *delay_end;
    const long port = argc == 3 ? strtol(argv[1], &port_end, 10) : 0;
    const long round_trip_us = argc == 3 ? strtol(argv[2], &delay_end, 10) : -1;
    if (port < 1 || port > 65535 || *port_end || round_trip_us < 0 || *delay_end) {
        fprintf(stderr, "usage: delay_proxy PORT ROUND_TRIP_US\n");
        return 2;
    }
    server_port = (uint16_t)port;
    delay_ns = (int64_t)round_trip_us * 1000 / 2;
    take_priority();
    const uint16_t own_port = listen_on_loopback();
    watch_all();
    dprintf(STDOUT_FILENO, "{\"port\":%u}\n", own_port);
    serve();
    print_counts();
    return 0;
}
