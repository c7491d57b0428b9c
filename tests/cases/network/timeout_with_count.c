/* A heartbeat every 100 ms by IORING_OP_TIMEOUT with count 1 (or 0: `pure`), beside a stream of messages.
 * Build: cc -O2 -o timeout_with_count timeout_with_count.c -luring -lpthread     Run: ./timeout_with_count [pure] */
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
static int p[2];
static void *peer(void *a) { char b[64] = {0}; for (int i = 0; i < 1000; i++) { write(p[0], b, 64); usleep(1000); } shutdown(p[0], SHUT_WR); return 0; }
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; struct io_uring_sqe *s; pthread_t t; char b[64]; long beats = 0, early = 0, msgs = 0;
    struct __kernel_timespec ts = { .tv_nsec = 100000000 };
    io_uring_queue_init(8, &r, 0); socketpair(AF_UNIX, SOCK_STREAM, 0, p); pthread_create(&t, 0, peer, 0);
    s = io_uring_get_sqe(&r); io_uring_prep_recv(s, p[1], b, 64, 0); s->user_data = 1;
    s = io_uring_get_sqe(&r); io_uring_prep_timeout(s, &ts, c > 1 ? 0 : 1, 0); s->user_data = 2;
    for (;;) {
        io_uring_submit_and_wait(&r, 1); io_uring_peek_cqe(&r, &q); int res = q->res, id = q->user_data; io_uring_cqe_seen(&r, q);
        if (id == 1 && res <= 0) break;
        s = io_uring_get_sqe(&r);
        if (id == 1) { msgs++; io_uring_prep_recv(s, p[1], b, 64, 0); } else { beats++; early += res == 0; io_uring_prep_timeout(s, &ts, c > 1 ? 0 : 1, 0); }
        s->user_data = id;
    }
    printf("truth: %ld heartbeats, %ld of them early, %ld messages\n", beats, early, msgs);
}
