/* 100 reads for a ring of 64 entries: io_uring_get_sqe returns NULL for 36, which are dropped, and the wait for all 100 never ends.
 * After lalinsky/zio#628, romange/helio#3. The program ends itself after 4 s.
 * Build: cc -O2 -o drops_when_full drops_when_full.c -luring     Run: ./drops_when_full FILE [submit] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static int taken, dropped, done;
static void ends(int s) { dprintf(1, "truth: %d submitted, %d dropped, %d of 100 completed\n", taken, dropped, done); _exit(0); }
int main(int c, char **v) {
    int submits = c > 2, fd = open(v[1], O_RDONLY | O_DIRECT); char *b = aligned_alloc(4096, 100 * 4096); struct io_uring_cqe *q;
    struct io_uring r; io_uring_queue_init(64, &r, 0); signal(SIGALRM, ends); alarm(4);
    for (int i = 0; i < 100; i++) {
        struct io_uring_sqe *e = io_uring_get_sqe(&r);
        if (!e && submits) { taken += io_uring_submit(&r); e = io_uring_get_sqe(&r); }
        if (e) io_uring_prep_read(e, fd, b + 4096 * i, 4096, 4096L * i); else dropped++;
    }
    for (taken += io_uring_submit(&r); done < 100; done++) { while (io_uring_wait_cqe(&r, &q)) ; io_uring_cqe_seen(&r, q); }
    ends(0);
}
