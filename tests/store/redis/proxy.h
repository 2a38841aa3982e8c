/* proxy.h - a way to a server on which an answer can get lost.
 *
 * Hands on all bytes between its clients and the server, in a thread of its own. Once told to, it
 * throws away the next bytes that the server sends and closes that connection.
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
    atomic_bool is_over;
    pthread_t thread;
};

void proxy_start(struct proxy *proxy, int to_port);
void proxy_stop(struct proxy *proxy);

#endif
