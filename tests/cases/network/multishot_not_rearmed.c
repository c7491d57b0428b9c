/* A multishot receive ends with ENOBUFS after four of 20 messages. The program does not submit it again, or does (`again`).
 * Build: cc -O2 -o multishot_not_rearmed multishot_not_rearmed.c -luring     Run: ./multishot_not_rearmed [again] */
#include <errno.h>
#include <liburing.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; static char bufs[4][4096]; int p[2], armed = 0; long got = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, p); io_uring_queue_init(64, &r, 0);
    struct io_uring_buf_ring *br = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    struct io_uring_buf_reg g = { .ring_addr = (unsigned long)br, .ring_entries = 4, .bgid = 1 }; io_uring_register_buf_ring(&r, &g, 0);
    for (int i = 0; i < 4; i++) io_uring_buf_ring_add(br, bufs[i], 4096, i, 3, i);
    io_uring_buf_ring_advance(br, 4);
    for (int i = 0; i < 20; i++) send(p[0], bufs[0], 4096, 0);
    shutdown(p[0], SHUT_WR);
    for (int first = 1;;) {
        if (!armed && (first || c > 1)) {
            struct io_uring_sqe *s = io_uring_get_sqe(&r); io_uring_prep_recv_multishot(s, p[1], NULL, 0, 0);
            s->flags |= IOSQE_BUFFER_SELECT; s->buf_group = 1; io_uring_submit(&r); armed = 1; first = 0;
        }
        struct __kernel_timespec limit = { .tv_sec = 2 };
        if (io_uring_wait_cqe_timeout(&r, &q, &limit)) break;
        int res = q->res, flags = q->flags; io_uring_cqe_seen(&r, q); armed = !!(flags & IORING_CQE_F_MORE);
        if (res > 0) { got += res; io_uring_buf_ring_add(br, bufs[flags >> 16], 4096, flags >> 16, 3, 0); io_uring_buf_ring_advance(br, 1); }
        if (res == 0) break;
    }
    printf("truth: %ld of 81920 bytes\n", got);
}
