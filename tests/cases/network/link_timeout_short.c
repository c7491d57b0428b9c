/* Each receive has a linked timeout that ends it before the peer answers: all are cancelled and submitted again.
 * Build: cc -O2 -o link_timeout_short link_timeout_short.c -luring -lpthread     Run: ./link_timeout_short [long] */
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
static int sv[2];
static void *peer(void *x) { char b[8]; while (read(sv[1], b, 8) > 0) { usleep(20000); write(sv[1], b, 8); } return x; }
int main(int c, char **v) {
    int is_long = c > 1, cancelled = 0, got = 0; char b[8] = ""; pthread_t t;
    socketpair(AF_UNIX, SOCK_STREAM, 0, sv); pthread_create(&t, NULL, peer, NULL);
    struct io_uring r; io_uring_queue_init(8, &r, 0); struct io_uring_cqe *q;
    for (int i = 0; i < 30; i++) for (int answered = write(sv[0], b, 8) != 8; !answered;) {
        struct __kernel_timespec s = { .tv_nsec = is_long ? 500000000 : 2000000 }; struct io_uring_sqe *e = io_uring_get_sqe(&r);
        io_uring_prep_recv(e, sv[0], b, 8, 0); e->flags |= IOSQE_IO_LINK; e->user_data = 1;
        e = io_uring_get_sqe(&r); io_uring_prep_link_timeout(e, &s, 0); e->user_data = 2; io_uring_submit_and_wait(&r, 2);
        for (int k = 0; k < 2; k++) { io_uring_wait_cqe(&r, &q); if (q->user_data == 1) { if (q->res > 0) answered = ++got; else cancelled++; } io_uring_cqe_seen(&r, q); }
    }
    printf("truth: %d receives, %d cancelled by their timeout\n", got, cancelled);
}
