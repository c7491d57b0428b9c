/* Batches of 8, of which one has an opcode that the kernel does not know: the submission ends there (or goes on: `all`).
 * Build: cc -O2 -o submission_ends_early submission_ends_early.c -luring     Run: ./submission_ends_early FILE [all] */
#include <liburing.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static struct io_uring r; static long got, bad;
static void end(int s) { printf("truth: %ld of 1600 completions, %ld errors, %u SQEs left\n", got, bad, io_uring_sq_ready(&r)); fflush(stdout); _exit(0); }
int main(int c, char **v) {
    struct io_uring_cqe *q; static char b[8][4096]; int fd = open(v[1], O_RDONLY);
    io_uring_queue_init(16, &r, c > 2 ? IORING_SETUP_SUBMIT_ALL : 0); signal(SIGALRM, end); alarm(3);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 8; k++) { struct io_uring_sqe *s = io_uring_get_sqe(&r); io_uring_prep_read(s, fd, b[k], 4096, (i * 8 + k) * 4096L); if (i == 100 && k == 2) s->opcode = 200; }
        io_uring_submit(&r);
        for (int k = 0; k < 8; k++) { io_uring_wait_cqe(&r, &q); got++; bad += q->res < 0; io_uring_cqe_seen(&r, q); }
    }
    end(0);
}
