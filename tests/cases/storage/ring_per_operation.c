/* A ring is set up and torn down for each read.
 * Build: cc -O2 -o ring_per_operation ring_per_operation.c -luring     Run: ./ring_per_operation FILE [kept] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) {
    int kept = c > 2 && !strcmp(v[2], "kept"), fd = open(v[1], O_RDONLY), rings = 0; char *b = malloc(4096); struct io_uring r; struct io_uring_cqe *q;
    for (int i = 0; i < 1000; i++) {
        if (!kept || !i) { io_uring_queue_init(64, &r, 0); rings++; }
        io_uring_prep_read(io_uring_get_sqe(&r), fd, b, 4096, (rand() % 8192) * 4096L); io_uring_submit_and_wait(&r, 1);
        io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q); if (!kept) io_uring_queue_exit(&r);
    }
    printf("truth: 1000 reads, %d rings\n", rings);
}
