/* A loop of submit and peek that enters the kernel whether or not there is anything to submit: 20 system calls for an operation.
 * After axboe/liburing#772 (Ghostty's author: 4,057,711 enters for 200,000), #1030.
 * Build: cc -O2 -o submit_peek_spin submit_peek_spin.c -luring -lpthread
 * Run:   ./submit_peek_spin [wait] */
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { N = 250 };
static int sv[2], waits; static long enters;
static unsigned flush(struct io_uring *r) {           /* what io_uring_submit does before it enters */
    struct io_uring_sq *q = &r->sq; unsigned n = q->sqe_tail - q->sqe_head, t = *q->ktail;
    for (unsigned i = 0; i < n; i++) q->array[t++ & *q->kring_mask] = q->sqe_head++ & *q->kring_mask;
    __atomic_store_n(q->ktail, t, __ATOMIC_RELEASE);
    return n;
}
static long op(struct io_uring *r, int fd, void *b, int snd) {
    struct io_uring_sqe *s = io_uring_get_sqe(r); struct io_uring_cqe *c; long n = 0;
    if (snd) io_uring_prep_send(s, fd, b, 4, 0); else io_uring_prep_recv(s, fd, b, 4, 0);
    if (waits) { io_uring_submit_and_wait(r, 1); n++; io_uring_peek_cqe(r, &c); }
    else for (unsigned sub = flush(r);; sub = 0) { syscall(__NR_io_uring_enter, r->ring_fd, sub, 0, 0, NULL, 0); n++; if (!io_uring_peek_cqe(r, &c)) break; }
    io_uring_cqe_seen(r, c); return n;
}
static void *pong(void *x) {
    struct io_uring r; io_uring_queue_init(16, &r, 0); char b[4]; long n = 0;
    for (int i = 0; i < N; i++) { n += op(&r, sv[1], b, 0); n += op(&r, sv[1], b, 1); }
    __sync_fetch_and_add(&enters, n); return x;
}
int main(int argc, char **argv) {
    waits = argc > 1 && !strcmp(argv[1], "wait"); socketpair(AF_UNIX, SOCK_STREAM, 0, sv);
    pthread_t t; pthread_create(&t, NULL, pong, NULL);
    struct io_uring r; io_uring_queue_init(16, &r, 0); char b[4] = "ping"; long n = 0;
    for (int i = 0; i < N; i++) { n += op(&r, sv[0], b, 1); n += op(&r, sv[0], b, 0); }
    pthread_join(t, NULL); n += enters;
    printf("truth: %d operations, %ld io_uring_enter (%.1f each)\n", 4 * N, n, n / (4.0 * N));
}
