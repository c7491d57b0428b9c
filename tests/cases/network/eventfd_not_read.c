/* A ring's eventfd is in poll(2)'s set, and the loop reaps the ring but never reads the eventfd: poll returns at once for ever.
 * Build: cc -O2 -o eventfd_not_read eventfd_not_read.c -luring     Run: ./eventfd_not_read [read] */
#include <liburing.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
int main(int c, char **v) {
    int reads = c > 1 && !strcmp(v[1], "read"), e = eventfd(0, EFD_NONBLOCK); long polls = 0; unsigned done = 0;
    struct io_uring r; io_uring_queue_init(8, &r, 0); io_uring_register_eventfd(&r, e);
    struct __kernel_timespec t = { .tv_nsec = 20000000 };
    for (int i = 0; i < 50; i++) {
        io_uring_prep_timeout(io_uring_get_sqe(&r), &t, 0, 0); io_uring_submit(&r);
        for (struct io_uring_cqe *q = NULL; !q;) {
            struct pollfd p = { e, POLLIN, 0 }; unsigned long n; poll(&p, 1, -1); polls++;
            if (reads) read(e, &n, 8);
            if (!io_uring_peek_cqe(&r, &q)) { io_uring_cqe_seen(&r, q); done++; } else q = NULL;
        }
    }
    printf("truth: %u timers, %ld polls\n", done, polls);
}
