/* DEFER_TASKRUN: a hundred receives are ready, and io_uring_wait_cqes(1) brings twenty.
 * After axboe/liburing#1474.
 * Build: cc -O2 -o defer_runs_twenty defer_runs_twenty.c -luring
 * Run:   ./defer_runs_twenty [wait100]     waits for a hundred instead of one */
#include <liburing.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
enum { N = 100, ROUNDS = 100 };
int main(int argc, char **argv) {
    int all = argc > 1 && !strcmp(argv[1], "wait100");
    struct io_uring ring; if (io_uring_queue_init(256, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)) return 1;
    int sv[N][2]; static char b[N][64];
    for (int i = 0; i < N; i++) if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv[i])) return 1;
    long got = 0, waits = 0, twenties = 0;
    for (int r = 0; r < ROUNDS; r++) {
        for (int i = 0; i < N; i++) { struct io_uring_sqe *s = io_uring_get_sqe(&ring); io_uring_prep_recv(s, sv[i][0], b[i], 64, 0); s->user_data = i; }
        io_uring_submit(&ring);
        for (int i = 0; i < N; i++) if (write(sv[i][1], "ping", 4) != 4) return 1;
        usleep(1000);
        for (int left = N; left > 0;) {
            struct io_uring_cqe *c; unsigned head, n = 0;
            io_uring_wait_cqes(&ring, &c, all ? left : 1, NULL, NULL); waits++;
            io_uring_for_each_cqe(&ring, head, c) n++;
            io_uring_cq_advance(&ring, n);
            left -= n; got += n; twenties += n == 20;
        }
    }
    printf("truth: %ld completions in %ld waits, %ld of which brought exactly 20\n", got, waits, twenties);
}
