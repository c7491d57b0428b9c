/* Completions are looked for every 2 ms, by usleep and peek, while the disk needs a tenth of that.
 * Build: cc -O2 -o sleeps_between_looks sleeps_between_looks.c -luring     Run: ./sleeps_between_looks FILE [wait] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int c, char **v) {
    int waits = c > 2 && !strcmp(v[2], "wait"), fd = open(v[1], O_RDONLY | O_DIRECT), sleeps = 0;
    struct io_uring r; io_uring_queue_init(8, &r, 0); char *b = aligned_alloc(4096, 4096); struct io_uring_cqe *q;
    for (int i = 0; i < 1000; i++) {
        io_uring_prep_read(io_uring_get_sqe(&r), fd, b, 4096, (rand() % 8192) * 4096L); io_uring_submit(&r);
        if (waits) io_uring_wait_cqe(&r, &q); else while (io_uring_peek_cqe(&r, &q)) { sleeps++; usleep(2000); }
        io_uring_cqe_seen(&r, q);
    }
    printf("truth: 1000 reads, %d sleeps\n", sleeps);
}
