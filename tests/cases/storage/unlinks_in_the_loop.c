/* The thread that serves the ring also creates and removes files: it is blocked in open, rename and unlink on the disk.
 * Build: cc -O2 -o unlinks_in_the_loop unlinks_in_the_loop.c -luring     Run: ./unlinks_in_the_loop DIRECTORY [not] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int c, char **v) {
    char name[256]; struct io_uring r; io_uring_queue_init(8, &r, 0); struct io_uring_cqe *q; char *b = aligned_alloc(4096, 1 << 20);
    snprintf(name, 256, "%s/log", v[1]); int log = open(name, O_RDWR | O_CREAT | O_DIRECT, 0644); pwrite(log, b, 1 << 20, 0);
    for (int i = 0; i < 60; i++) {
        io_uring_prep_write(io_uring_get_sqe(&r), log, b, 4096, 0); io_uring_submit_and_wait(&r, 1); io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q);
        if (c > 2) continue;
        snprintf(name, 256, "%s/f%d", v[1], i); int fd = open(name, O_RDWR | O_CREAT | O_SYNC, 0644); ftruncate(fd, 1 << 20);
        char *m = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); for (int k = 0; k < 256; k++) m[k * 4096] = 1; msync(m, 1 << 20, MS_SYNC); munmap(m, 1 << 20);
        close(fd); int d = open(v[1], O_RDONLY | O_DIRECTORY); unlink(name); fsync(d); close(d);
    }
    printf("truth: 60 writes\n");
}
