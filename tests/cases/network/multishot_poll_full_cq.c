/* A multishot poll of an eventfd wakes the loop. A full CQ ends it; the loop does not submit it again, or does (`again`).
 * Build: cc -O2 -o multishot_poll_full_cq multishot_poll_full_cq.c -luring -lpthread     Run: ./multishot_poll_full_cq [again] */
#define _GNU_SOURCE
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>
static int efd; static volatile long sent_at; static volatile int sent, seen;
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000L + t.tv_nsec / 1000; }
static struct io_uring r; static int armed;
static void arm(void) { struct io_uring_sqe *s = io_uring_get_sqe(&r); io_uring_prep_poll_multishot(s, efd, POLLIN); s->user_data = 1; armed = 1; }
static void *producer(void *a) {
    for (int i = 0; i < 25; i++) { sent_at = now(); sent++; eventfd_write(efd, 1); while (seen < sent) usleep(500); usleep(5000); }
    return 0;
}
int main(int c, char **v) {
    struct io_uring_params p = {0}; pthread_t t; long late = 0, n = 0, worst = 0; unsigned long val;
    efd = eventfd(0, EFD_NONBLOCK); io_uring_queue_init_params(64, &r, &p); arm(); io_uring_submit(&r);
    for (int b = 0; b < 3; b++) { for (int i = 0; i < 60; i++) io_uring_prep_nop(io_uring_get_sqe(&r)); io_uring_submit(&r); }
    eventfd_write(efd, 1); io_uring_get_events(&r);
    pthread_create(&t, 0, producer, 0);
    while (seen < 25) {
        struct io_uring_cqe *q; struct __kernel_timespec lim = { .tv_nsec = 100000000 }; unsigned h, k = 0; int ended = 0;
        io_uring_submit_and_wait_timeout(&r, &q, 1, &lim, 0);
        io_uring_for_each_cqe(&r, h, q) { k++; if (q->user_data == 1 && !(q->flags & IORING_CQE_F_MORE)) ended = 1; }
        io_uring_cq_advance(&r, k);
        if (ended && c > 1) arm();
        if (read(efd, &val, 8) == 8 && sent > seen) { long d = now() - sent_at; n++; if (d > 50000) late++; if (d > worst) worst = d; seen = sent; }
    }
    pthread_join(t, 0); printf("truth: %ld of %ld messages waited for the time limit, at most %ld us\n", late, n, worst);
}
