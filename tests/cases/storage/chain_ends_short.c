/* Copies by a chain, read then write, in blocks of 4096 bytes of a file of 3000: the short read cancels each write.
 * After axboe/liburing#187, #148.
 * Build: cc -O2 -o chain_ends_short chain_ends_short.c -luring     Run: ./chain_ends_short DIR [exact] */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) {
    int exact = c > 2, cancelled = 0, copied = 0; static char b[4096]; chdir(v[1]);
    int from = open("from", O_RDWR | O_CREAT | O_TRUNC, 0600), to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0600); write(from, b, 3000);
    struct io_uring r; io_uring_queue_init(8, &r, 0); struct io_uring_cqe *q; unsigned n = exact ? 3000 : 4096;
    for (int i = 0; i < 1000; i++, usleep(1000)) {
        struct io_uring_sqe *e = io_uring_get_sqe(&r); io_uring_prep_read(e, from, b, n, 0); e->flags |= IOSQE_IO_LINK; e->user_data = 1;
        e = io_uring_get_sqe(&r); io_uring_prep_write(e, to, b, n, n * (long)(i % 64)); e->user_data = 2; io_uring_submit_and_wait(&r, 2);
        for (int k = 0; k < 2; k++) { io_uring_wait_cqe(&r, &q); if (q->user_data == 2) { if (q->res == -ECANCELED) cancelled++; else copied++; } io_uring_cqe_seen(&r, q); }
    }
    printf("truth: %d blocks written, %d cancelled\n", copied, cancelled);
}
