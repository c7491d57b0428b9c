/* 32 buffered writes in flight, to one file: io-wq runs them one at a time, and each is synchronous.
 * Build: cc -O2 -o writes_of_one_file writes_of_one_file.c -luring     Run: ./writes_of_one_file FILE [one] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) {
    int depth = c > 2 && !strcmp(v[2], "one") ? 1 : 32, sent = 0, done = 0, fd = open(v[1], O_CREAT | O_TRUNC | O_RDWR | O_DSYNC, 0600);
    struct io_uring r; struct io_uring_cqe *q; char *b = calloc(1, 4096); io_uring_queue_init(64, &r, 0);
    while (done < 320) {
        for (; sent < 320 && sent - done < depth; sent++) io_uring_prep_write(io_uring_get_sqe(&r), fd, b, 4096, sent * 4096L);
        io_uring_submit_and_wait(&r, 1);
        for (; !io_uring_peek_cqe(&r, &q); done++) io_uring_cqe_seen(&r, q);
    }
    printf("truth: 320 writes, %d in flight\n", depth);
}
