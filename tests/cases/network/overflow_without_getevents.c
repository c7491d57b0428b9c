/* More completions than the queue holds, and an application that submits and looks but never enters with GETEVENTS:
 * what overflowed stays with the kernel, and connections seem dead though io_uring_enter never says EBUSY.
 * After tokio-rs/io-uring#302, #152; ava-labs/firewood#1522.
 * Build: cc -O2 -o overflow_without_getevents overflow_without_getevents.c -luring
 * Run:   ./overflow_without_getevents [getevents] */
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { CONNS = 200 };
int main(int argc, char **argv) {
    int ge = argc > 1 && !strcmp(argv[1], "getevents");
    struct io_uring_params p = {.flags = IORING_SETUP_CQSIZE, .cq_entries = 64};
    struct io_uring ring; if (io_uring_queue_init_params(64, &ring, &p)) return 1;
    int sv[CONNS][2]; static char b[CONNS][64];
    int queued = 0, ebusy = 0;
    for (int i = 0; i < CONNS; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv[i])) return 1;
        struct io_uring_sqe *s = io_uring_get_sqe(&ring);
        if (!s) { io_uring_submit(&ring); s = io_uring_get_sqe(&ring); }
        io_uring_prep_recv(s, sv[i][0], b[i], 64, 0); s->user_data = i; queued++;
    }
    io_uring_submit(&ring);
    for (int i = 0; i < CONNS; i++) if (write(sv[i][1], "ping", 4) != 4) return 1;
    int answered = 0;
    for (int ms = 0; ms < 1000 + (getenv("STAY") ? atoi(getenv("STAY")) : 0); ms++) {          /* look at the queue as tokio's crate does, and submit what is new */
        unsigned head, n = 0; struct io_uring_cqe *c;
        io_uring_for_each_cqe(&ring, head, c) { n++; answered += c->res > 0; }
        io_uring_cq_advance(&ring, n);
        int r = syscall(__NR_io_uring_enter, ring.ring_fd, 0, 0, ge ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
        if (r < 0) ebusy++;
        usleep(1000);
    }
    printf("truth: %d recvs had data, %d were answered in 1 s; enter failed %d times; overflow flag now %d\n", queued, answered, ebusy,
           !!(*ring.sq.kflags & IORING_SQ_CQ_OVERFLOW));
}
