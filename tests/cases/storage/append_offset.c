/* A file that is open with O_APPEND is written at 64 offsets: each write goes to the end of the file instead. Or it is open without O_APPEND (`plain`).
 * Build: cc -O2 -o append_offset append_offset.c -luring     Run: ./append_offset FILE [plain] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int c, char **v) {
    int fd = open(v[1], O_RDWR | O_CREAT | O_TRUNC | (c > 2 ? 0 : O_APPEND), 0600), wrong = 0; char b[4096], x[4096]; struct io_uring r; struct io_uring_cqe *q;
    io_uring_queue_init(16, &r, 0);
    for (int i = 0; i < 2000; i++) {
        memset(b, i % 251 + 1, sizeof b);
        io_uring_prep_write(io_uring_get_sqe(&r), fd, b, sizeof b, i % 64 * 4096L); io_uring_submit_and_wait(&r, 1); io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q);
        wrong += pread(fd, x, sizeof x, i % 64 * 4096L) != sizeof x || x[0] != b[0];
    }
    printf("truth: %d of 2000 writes not at their offset\n", wrong);
}
