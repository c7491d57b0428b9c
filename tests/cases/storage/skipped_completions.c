/* Reads with IOSQE_CQE_SKIP_SUCCESS, whose completions the program waits for (or without the flag: `post`).
 * Build: cc -O2 -o skipped_completions skipped_completions.c -luring     Run: ./skipped_completions FILE [post] */
#include <liburing.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static long got;
static void end(int s) { printf("truth: %ld completions of 1600\n", got); fflush(stdout); _exit(0); }
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; static char b[8][4096]; int fd = open(v[1], O_RDONLY);
    io_uring_queue_init(8, &r, 0); signal(SIGALRM, end); alarm(3);
    for (int i = 0; i < 200; i++) {
        for (int k = 0; k < 8; k++) { struct io_uring_sqe *s = io_uring_get_sqe(&r); io_uring_prep_read(s, fd, b[k], 4096, (i * 8 + k) * 4096L); if (c <= 2) s->flags |= IOSQE_CQE_SKIP_SUCCESS; }
        io_uring_submit(&r);
        for (int k = 0; k < 8; k++) { io_uring_wait_cqe(&r, &q); got++; io_uring_cqe_seen(&r, q); }
    }
    end(0);
}
