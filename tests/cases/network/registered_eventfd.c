/* Another thread wakes the loop by an eventfd that is registered with IORING_REGISTER_EVENTFD: the kernel writes to that one, and a write to it
 * does not end io_uring_enter. Each message waits for the loop's time limit. After c4punks/CWIST#25.
 * Build: cc -O2 -o registered_eventfd registered_eventfd.c -luring -lpthread     Run: ./registered_eventfd [read] */
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>
static int fd; static atomic_int posted, handled;
static void *other(void *x) {
    for (int i = 0; i < 40; i++) { usleep(70000); posted++; eventfd_write(fd, 1); while (handled < posted) usleep(500); }
    return x;
}
int main(int c, char **v) {
    int reads = c > 1, late = 0; eventfd_t n; pthread_t t; struct io_uring_cqe *q; fd = eventfd(0, 0);
    struct io_uring r; io_uring_queue_init(8, &r, 0); if (!reads) io_uring_register_eventfd(&r, fd);
    if (reads) { io_uring_prep_read(io_uring_get_sqe(&r), fd, &n, 8, 0); io_uring_submit(&r); }
    for (pthread_create(&t, NULL, other, NULL); handled < 40;) {
        struct __kernel_timespec limit = { .tv_nsec = 100000000 }; int by_limit = io_uring_wait_cqe_timeout(&r, &q, &limit) < 0;
        if (!by_limit) { io_uring_cqe_seen(&r, q); io_uring_prep_read(io_uring_get_sqe(&r), fd, &n, 8, 0); io_uring_submit(&r); }
        if (posted > handled) { late += by_limit; handled++; }
    }
    printf("truth: 40 messages, %d of them after the time limit\n", late);
}
