/* Buffered reads of 64 KiB from a file of 64 MiB, again and again. Under a memory limit of 24 MiB the page cache evicts each page before its next read.
 * Build: cc -O2 -o page_cache_limit page_cache_limit.c -luring     Run: ./page_cache_limit FILE */
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
enum { N = 16, SIZE = 65536 };
int main(int c, char **v) {
    int fd = open(v[1], O_RDONLY); char *b = malloc(N * SIZE); long n = 0; struct timespec a, z; struct io_uring r; struct io_uring_cqe *q;
    fdatasync(fd); posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); io_uring_queue_init(64, &r, 0); clock_gettime(CLOCK_MONOTONIC, &a);
    do {
        for (int i = 0; i < N; i++) io_uring_prep_read(io_uring_get_sqe(&r), fd, b + i * SIZE, SIZE, SIZE * ((n + i) % 1024));
        io_uring_submit_and_wait(&r, N);
        for (int i = 0; i < N; i++, n++) { io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q); }
        clock_gettime(CLOCK_MONOTONIC, &z);
    } while (z.tv_sec - a.tv_sec < 3);
    printf("truth: %ld reads of 64 KiB\n", n);
}
