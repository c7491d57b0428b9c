/* Each receive is cancelled with another user_data than its own, and stays. Or the cancels come after the requests have
 * completed, which is harmless (`late`).
 * Build: cc -O2 -o cancels_find_nothing cancels_find_nothing.c -luring     Run: ./cancels_find_nothing [late] */
#include <liburing.h>
#include <stdio.h>
#include <sys/socket.h>
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; int s[2], late = c > 1, none = 0, stay = 0; static char b[300];
    io_uring_queue_init(64, &r, 0); if (socketpair(AF_UNIX, SOCK_STREAM, 0, s)) return 1;
    for (int i = 1; i <= 300; i++) {
        struct io_uring_sqe *e = io_uring_get_sqe(&r);
        if (late) io_uring_prep_nop(e); else io_uring_prep_recv(e, s[0], &b[i - 1], 1, 0);
        e->user_data = i; io_uring_submit(&r);
        if (late) { io_uring_wait_cqe(&r, &q); io_uring_cqe_seen(&r, q); } else stay++;
        e = io_uring_get_sqe(&r); io_uring_prep_rw(IORING_OP_ASYNC_CANCEL, e, -1, (void *)(long)(late ? i : 1000 + i), 0, 0); e->user_data = 9999;
        io_uring_submit_and_wait(&r, 1); if (!io_uring_peek_cqe(&r, &q)) { none += q->res == -2; io_uring_cqe_seen(&r, q); }
    }
    printf("truth: %d cancels found nothing, %d receives left\n", none, stay);
}
