/* Four threads share one ring behind a mutex, which each holds while it waits for its read.
 * Build: cc -O2 -pthread -o lock_across_enter lock_across_enter.c -luring     Run: ./lock_across_enter FILE [apart] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static struct io_uring shared; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static int fd, apart;
static void *reads(void *unused) {
    struct io_uring own, *r = apart ? &own : &shared; struct io_uring_cqe *q; void *b; unsigned seed = 1;
    if (apart) io_uring_queue_init(8, &own, 0);
    if (posix_memalign(&b, 4096, 4096)) exit(1);
    for (int i = 0; i < 1000; i++) {
        if (!apart) pthread_mutex_lock(&lock);
        io_uring_prep_read(io_uring_get_sqe(r), fd, b, 4096, (rand_r(&seed) % 8192) * 4096L); io_uring_submit_and_wait(r, 1);
        io_uring_wait_cqe(r, &q); io_uring_cqe_seen(r, q);
        if (!apart) pthread_mutex_unlock(&lock);
    }
    return unused;
}
int main(int c, char **v) {
    pthread_t t[4]; apart = c > 2 && !strcmp(v[2], "apart"); fd = open(v[1], O_RDONLY | O_DIRECT); io_uring_queue_init(8, &shared, 0);
    for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, reads, 0);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    printf("truth: 4000 reads on %s\n", apart ? "a ring per thread" : "one ring");
}
