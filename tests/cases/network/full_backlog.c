/* A server that accepts one connection per 10 ms, with a backlog of 2: the kernel drops the other SYNs, and connect(2) sends each again after 1 s.
 * Build: cc -O2 -o full_backlog full_backlog.c -luring -lpthread     Run: ./full_backlog [long] */
#include <arpa/inet.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET }; static atomic_int late, clients = 24;
static void *client(void *x) {
    struct timespec a, b; int fd = socket(AF_INET, SOCK_STREAM, 0); clock_gettime(CLOCK_MONOTONIC, &a); connect(fd, (void *)&at, sizeof at);
    clock_gettime(CLOCK_MONOTONIC, &b); late += (b.tv_sec - a.tv_sec) * 1e3 + (b.tv_nsec - a.tv_nsec) / 1e6 > 900; close(fd); clients--; return x;
}
int main(int c, char **v) {
    int s = socket(AF_INET, SOCK_STREAM, 0); socklen_t n = sizeof at; pthread_t t; struct io_uring_cqe *q; at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bind(s, (void *)&at, n); listen(s, c > 1 ? 512 : 2); getsockname(s, (void *)&at, &n);
    struct io_uring r; io_uring_queue_init(8, &r, 0); for (int i = 0; i < 24; i++) pthread_create(&t, NULL, client, NULL);
    for (int armed = 0; clients;) {
        struct __kernel_timespec limit = { .tv_nsec = 50000000 };
        if (!armed) { io_uring_prep_accept(io_uring_get_sqe(&r), s, NULL, NULL, 0); io_uring_submit(&r); armed = 1; }
        if (io_uring_wait_cqe_timeout(&r, &q, &limit) == 0) { close(q->res); io_uring_cqe_seen(&r, q); armed = 0; usleep(10000); }
    }
    printf("truth: %d of 24 connects took longer than 900 ms\n", late);
}
