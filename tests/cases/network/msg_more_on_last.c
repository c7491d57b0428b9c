/* Replies are sent by the ring with MSG_MORE, though nothing follows (or without: `last`). TCP_NODELAY is set.
 * Build: cc -O2 -o msg_more_on_last msg_more_on_last.c -luring -lpthread     Run: ./msg_more_on_last [last] */
#include <liburing.h>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET }; static long worst;
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000L + t.tv_nsec / 1000; }
static void *client(void *a) {
    int s = socket(AF_INET, SOCK_STREAM, 0), one = 1; char b[100] = {0}; connect(s, (void *)&at, sizeof at); setsockopt(s, 6, TCP_NODELAY, &one, 4); long sum = 0;
    for (int i = 0; i < 10; i++) { long t = now(); send(s, b, 10, 0); recv(s, b, 100, MSG_WAITALL); sum += now() - t; }
    close(s); worst = sum / 10; return 0;
}
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; pthread_t t; char b[100]; socklen_t len = sizeof at; int one = 1;
    int l = socket(AF_INET, SOCK_STREAM, 0); at.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(l, (void *)&at, len); getsockname(l, (void *)&at, &len); listen(l, 8);
    pthread_create(&t, 0, client, 0); int s = accept(l, 0, 0); setsockopt(s, 6, TCP_NODELAY, &one, 4); io_uring_queue_init(8, &r, 0);
    for (;;) {
        io_uring_prep_recv(io_uring_get_sqe(&r), s, b, 100, 0); io_uring_submit_and_wait(&r, 1); io_uring_peek_cqe(&r, &q); int n = q->res; io_uring_cqe_seen(&r, q);
        if (n <= 0) break;
        io_uring_prep_send(io_uring_get_sqe(&r), s, b, 100, c > 1 ? 0 : MSG_MORE); io_uring_submit_and_wait(&r, 1); io_uring_peek_cqe(&r, &q); io_uring_cqe_seen(&r, q);
    }
    pthread_join(t, 0); printf("truth: %ld us per request\n", worst);
}
