/* 4 requests are in flight, and each wait is for 16 completions: it ends by its time limit every time.
 * io_uring_submit_and_wait_timeout(3) hides -ETIME if the call submitted something.
 * Build: cc -O2 -o waits_for_too_many waits_for_too_many.c -luring     Run: ./waits_for_too_many FILE [one] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c, char **v) {
    int one = c > 2 && !strcmp(v[2], "one"), fd = open(v[1], O_RDONLY | O_DIRECT), late = 0, done = 0, waits = 0;
    struct io_uring r; io_uring_queue_init(32, &r, 0); char *b = aligned_alloc(4096, 4 * 4096);
    for (int flying = 0; done < 200; waits++) {
        for (; flying < 4; flying++) io_uring_prep_read(io_uring_get_sqe(&r), fd, b + 4096 * flying, 4096, (rand() % 8192) * 4096L);
        struct __kernel_timespec t = { .tv_nsec = 10000000 }; struct io_uring_cqe *q[32];
        io_uring_submit_and_wait_timeout(&r, q, one ? 1 : 16, &t, NULL);
        unsigned n = io_uring_peek_batch_cqe(&r, q, 32); late += n < (one ? 1 : 16); done += n; flying -= n; io_uring_cq_advance(&r, n);
    }
    printf("truth: %d of %d waits ended with fewer completions than they were for\n", late, waits);
}
