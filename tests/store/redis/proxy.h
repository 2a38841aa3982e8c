/* proxy.h - a way to a server on which an answer can get lost, and a request come late.
 *
 * Hands on all bytes between its clients and the server, in a thread of its own. Once told to, it
 * throws away the next bytes that the server sends and closes that connection; or it keeps the next
 * that a client sends, closes the client's end, and hands them on when it is told to.
 */
#ifndef TESTS_STORE_REDIS_PROXY_H
#define TESTS_STORE_REDIS_PROXY_H

#include <pthread.h>
#include <stdatomic.h>

struct proxy {
    int port;
    atomic_int to_port; /* where the next connections lead */
    int listener;
    atomic_bool loses; /* the next answer; false again once it has */
    atomic_bool keeps; /* the next request; false again once it has */
    char kept[16384];
    size_t n_kept;
    int kept_for; /* the server's end */
    atomic_bool is_over;
    pthread_t thread;
};

void proxy_start(struct proxy *proxy, int to_port);
void proxy_stop(struct proxy *proxy);
/* Hands on what was kept, and waits for the answer. */
void proxy_deliver(struct proxy *proxy);

#endif
