/* DEFER_TASKRUN, and a loop that submits and peeks but never enters with GETEVENTS: what is ready is never posted.
 * After tokio-rs/io-uring#263 (jordanisaacs/rustix-uring#7), socketry/io-event#166.
 * Build: cc -O2 -o defer_never_entered defer_never_entered.c -luring
 * Run:   ./defer_never_entered [getevents]     (STAY=MS: go on so much longer) */
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { N = 50 };
int main(int argc, char **argv) {
    int ge = argc > 1 && !strcmp(argv[1], "getevents");
    struct io_uring ring; if (io_uring_queue_init(64, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG)) return 1;
    int sv[N][2]; static char b[N][64];
    for (int i = 0; i < N; i++) {
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, sv[i])) return 1;
        struct io_uring_sqe *s = io_uring_get_sqe(&ring); io_uring_prep_recv(s, sv[i][0], b[i], 64, 0); s->user_data = i;
    }
    io_uring_submit(&ring);
    for (int i = 0; i < N; i++) if (write(sv[i][1], "ping", 4) != 4) return 1;
    int answered = 0, flagged = 0, looks = 0;
    for (int ms = 0; ms < 1000 + (getenv("STAY") ? atoi(getenv("STAY")) : 0); ms++) {
        unsigned head, n = 0; struct io_uring_cqe *c;
        io_uring_for_each_cqe(&ring, head, c) n++;
        io_uring_cq_advance(&ring, n); answered += n; looks++;
        flagged += !!(__atomic_load_n(ring.sq.kflags, __ATOMIC_RELAXED) & IORING_SQ_TASKRUN);
        syscall(__NR_io_uring_enter, ring.ring_fd, 0, 0, ge ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
        usleep(1000);
    }
    printf("truth: %d recvs had data, %d were answered in %d looks; IORING_SQ_TASKRUN was set in %d of them\n", N, answered, looks, flagged);
}
