/* openat on a ring with IORING_SETUP_IOPOLL fails with EINVAL; on another ring it does not (`plain`).
 * After tokio-rs/io-uring#199.
 * Build: cc -O2 -o opens_by_iopoll opens_by_iopoll.c -luring     Run: ./opens_by_iopoll FILE [plain] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) {
    int failed = 0; struct io_uring r; struct io_uring_cqe *q; io_uring_queue_init(8, &r, c > 2 ? 0 : IORING_SETUP_IOPOLL);
    for (int i = 0; i < 40; i++) {
        io_uring_prep_openat(io_uring_get_sqe(&r), AT_FDCWD, v[1], O_RDONLY, 0); io_uring_submit_and_wait(&r, 1);
        io_uring_wait_cqe(&r, &q); if (q->res < 0) failed++; else close(q->res);
        io_uring_cqe_seen(&r, q); usleep(10000);
    }
    printf("truth: %d of 40 opens failed\n", failed);
}
