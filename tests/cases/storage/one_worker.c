/* 16 fsyncs of 16 files in flight, and IORING_REGISTER_IOWQ_MAX_WORKERS allows one worker: they wait for each other.
 * Build: cc -O2 -o one_worker one_worker.c -luring     Run: ./one_worker DIR [16] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int c, char **v) {
    unsigned n = c > 2 ? 16 : 1, limits[2] = { n, n }; int fd[16], done = 0; static char b[4096]; chdir(v[1]);
    struct io_uring r; io_uring_queue_init(32, &r, 0); io_uring_register_iowq_max_workers(&r, limits); struct io_uring_cqe *q;
    for (int i = 0; i < 16; i++) { char name[8]; snprintf(name, 8, "f%d", i); fd[i] = open(name, O_RDWR | O_CREAT, 0600); }
    for (time_t end = time(NULL) + 3; time(NULL) < end; done += 16) {
        for (int i = 0; i < 16; i++) { pwrite(fd[i], b, 4096, 0); io_uring_prep_fsync(io_uring_get_sqe(&r), fd[i], 0); }
        io_uring_submit_and_wait(&r, 16); for (int i = 0; i < 16; i++) { io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q); }
    }
    printf("truth: %d fsyncs by at most %u workers\n", done, n);
}
