/* A linked timeout whose timespec is gone when the request is submitted: the 50 ms that were meant are 300 h, or whatever is there.
 * After tokio-rs/io-uring#156; commonwarexyz/monorepo#1845.
 * Build: cc -O1 -o timespec_gone timespec_gone.c -luring
 * Run:   ./timespec_gone [fixed] */
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
enum { N = 8 };
static struct __kernel_timespec good[N], *slot;
static __attribute__((noinline)) void prep(struct io_uring *r, int fd, char *buf, int i) {
    struct io_uring_sqe *s = io_uring_get_sqe(r);
    io_uring_prep_recv(s, fd, buf, 64, 0); s->flags |= IOSQE_IO_LINK; s->user_data = 100 + i;
    slot->tv_sec = 0; slot->tv_nsec = 50000000;                  /* "a temporary" */
    s = io_uring_get_sqe(r); io_uring_prep_link_timeout(s, slot, 0); s->user_data = 200 + i;
}
int main(int argc, char **argv) {
    int fixed = argc > 1 && !strcmp(argv[1], "fixed");
    struct __kernel_timespec reused = {0};
    struct io_uring ring; io_uring_queue_init(32, &ring, 0);
    int sv[N][2]; static char b[N][64];
    for (int i = 0; i < N; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv[i])) return 1;
        slot = fixed ? &good[i] : &reused;
        prep(&ring, sv[i][0], b[i], i);
    }
    if (!fixed) { reused.tv_sec = 1080000; reused.tv_nsec = 7; }  /* the memory has another use by now */
    io_uring_submit(&ring);
    int timed_out = 0, cancelled = 0;
    for (int ms = 0; ms < 1000; ms += 10) {
        struct io_uring_cqe *c; struct __kernel_timespec ten = {.tv_nsec = 10000000};
        if (!io_uring_wait_cqe_timeout(&ring, &c, &ten))
            do { if (c->user_data >= 200) timed_out += c->res == -62; else cancelled += c->res == -125; io_uring_cqe_seen(&ring, c); } while (!io_uring_peek_cqe(&ring, &c));
    }
    printf("truth: %d recvs with a timeout of 50 ms; after 1 s %d timed out, %d were cancelled\n", N, timed_out, cancelled);
}
