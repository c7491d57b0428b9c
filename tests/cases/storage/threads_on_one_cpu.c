/* A thread that waits for direct reads, next to two computing threads of the program: all on CPU 0, or the two on CPU 1 (`apart`).
 * Build: cc -O2 -o threads_on_one_cpu threads_on_one_cpu.c -luring -lpthread     Run: ./threads_on_one_cpu FILE [apart] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static volatile int over; static int there;
static void pin(int cpu) { cpu_set_t s; CPU_ZERO(&s); CPU_SET(cpu, &s); sched_setaffinity(0, sizeof s, &s); }
static void *compute(void *x) { pin(there); while (!over); return x; }
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; struct timespec a, b; pthread_t t[2]; void *m; int f = open(v[1], O_RDONLY | O_DIRECT), n = 0;
    there = c > 2; pin(0); posix_memalign(&m, 4096, 4096); io_uring_queue_init(8, &r, 0);
    for (int i = 0; i < 2; i++) pthread_create(t + i, NULL, compute, NULL);
    for (clock_gettime(CLOCK_MONOTONIC, &a), b = a; n < 4000 && b.tv_sec < a.tv_sec + 3; n++) {
        io_uring_prep_read(io_uring_get_sqe(&r), f, m, 4096, rand() % 16384 * 4096L); io_uring_submit_and_wait(&r, 1);
        io_uring_peek_cqe(&r, &q); io_uring_cqe_seen(&r, q); clock_gettime(CLOCK_MONOTONIC, &b);
    }
    over = 1; printf("truth: %d reads, %.0f us each\n", n, ((b.tv_sec - a.tv_sec) * 1e6 + (b.tv_nsec - a.tv_nsec) / 1e3) / n);
}
