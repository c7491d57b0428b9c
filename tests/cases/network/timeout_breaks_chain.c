/* Each message is sent 5 ms later: a timeout linked to a send. Without IORING_TIMEOUT_ETIME_SUCCESS, or with it (`success`).
 * Build: cc -O2 -o timeout_breaks_chain timeout_breaks_chain.c -luring     Run: ./timeout_breaks_chain [success] */
#include <liburing.h>
#include <stdio.h>
#include <errno.h>
#include <sys/socket.h>
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; struct io_uring_sqe *s; char b[64] = {0}; long sent = 0, can = 0; int p[2];
    struct __kernel_timespec ts = { .tv_nsec = 5000000 };
    io_uring_queue_init(8, &r, 0); socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    for (int i = 0; i < 200; i++) {
        s = io_uring_get_sqe(&r); io_uring_prep_timeout(s, &ts, 0, c > 1 ? IORING_TIMEOUT_ETIME_SUCCESS : 0); s->flags |= IOSQE_IO_LINK; s->user_data = 2;
        s = io_uring_get_sqe(&r); io_uring_prep_send(s, p[0], b, 64, 0); s->user_data = 1; io_uring_submit(&r);
        for (int k = 0; k < 2; k++) { io_uring_wait_cqe(&r, &q); if (q->user_data == 1) { sent += q->res > 0; can += q->res == -ECANCELED; } io_uring_cqe_seen(&r, q); }
    }
    printf("truth: %ld sent, %ld cancelled\n", sent, can);
}
