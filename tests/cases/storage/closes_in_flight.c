/* A ring is closed while reads of a pipe are in flight: the kernel cancels them, and the program cannot reap the completions.
 * Build: cc -O2 -o closes_in_flight closes_in_flight.c -luring
 * Run:   ./closes_in_flight [cancel]     with "cancel" it is done right: cancel the reads and reap them before the close */
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
enum { ROUNDS = 10, READS = 20, NOPS = 100 };
static int reaped;
static void reap(struct io_uring *ring, int n) {
    io_uring_submit_and_wait(ring, n);
    for (int i = 0; i < n; i++) {
        struct io_uring_cqe *c;
        io_uring_wait_cqe(ring, &c);
        if (c->user_data == 1) reaped++;
        io_uring_cqe_seen(ring, c);
    }
}
int main(int argc, char **argv) {
    int cancel = argc > 1 && !strcmp(argv[1], "cancel");
    static char buf[READS][64];
    for (int k = 0; k < ROUNDS; k++) {
        struct io_uring ring; io_uring_queue_init(64, &ring, 0);
        int p[2]; if (pipe(p)) return 1;
        for (int i = 0; i < READS; i++) {
            struct io_uring_sqe *s = io_uring_get_sqe(&ring);
            io_uring_prep_read(s, p[0], buf[i], sizeof buf[i], 0);
            s->user_data = 1;
        }
        io_uring_submit(&ring);
        for (int i = 0; i < NOPS; i++) {
            struct io_uring_sqe *s = io_uring_get_sqe(&ring);
            io_uring_prep_nop(s);
            s->user_data = 2;
            reap(&ring, 1);
        }
        if (cancel) {
            struct io_uring_sqe *s = io_uring_get_sqe(&ring);
            io_uring_prep_cancel64(s, 1, IORING_ASYNC_CANCEL_ALL);
            s->user_data = 2;
            reap(&ring, READS + 1);
        }
        io_uring_queue_exit(&ring);
        close(p[0]); close(p[1]);
    }
    usleep(300000);
    printf("truth: %d reads submitted, %d reaped\n", ROUNDS * READS, reaped);
}
