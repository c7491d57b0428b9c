/* IORING_OP_CONNECT over loopback to a port that nothing listens on. To one that listens, the socket is connected before its poll is armed.
 * Build: cc -O2 -o connects_by_ring connects_by_ring.c -luring     Run: ./connects_by_ring [listens] */
#include <arpa/inet.h>
#include <liburing.h>
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) {
    int s = socket(AF_INET, SOCK_STREAM, 0), ok = 0; struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at; bind(s, (void *)&at, n); getsockname(s, (void *)&at, &n); if (c > 1) listen(s, 64);
    struct io_uring r; struct io_uring_cqe *q; io_uring_queue_init(8, &r, 0);
    for (int i = 0; i < 500; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0); io_uring_prep_connect(io_uring_get_sqe(&r), fd, (void *)&at, n);
        io_uring_submit(&r); io_uring_wait_cqe(&r, &q);
        if (!q->res) { ok++; close(accept(s, NULL, NULL)); }
        io_uring_cqe_seen(&r, q); close(fd); usleep(2000);
    }
    printf("truth: %d of 500 connected\n", ok);
}
