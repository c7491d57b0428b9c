/* One peer has closed: its receive ends with 0 and is submitted again, and the receive of the other peer waits next to a loop.
 * Build: cc -O2 -o end_of_stream end_of_stream.c -luring -lpthread     Run: ./end_of_stream [close] */
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
static int gone[2], sv[2];
static void *peer(void *x) { for (int i = 0; i < 20; i++) { usleep(100000); write(sv[1], "x", 1); } shutdown(sv[1], SHUT_WR); return x; }
static void receive(struct io_uring *r, int fd, char *b, int user_data) {
    struct io_uring_sqe *e = io_uring_get_sqe(r); io_uring_prep_recv(e, fd, b, 64, 0); e->user_data = user_data;
}
int main(int c, char **v) {
    int closes = c > 1, got = 0; long empty = 0; char a[64], b[64]; pthread_t t; struct io_uring_cqe *q;
    socketpair(AF_UNIX, SOCK_STREAM, 0, gone); socketpair(AF_UNIX, SOCK_STREAM, 0, sv); close(gone[1]); pthread_create(&t, NULL, peer, NULL);
    struct io_uring r; io_uring_queue_init(8, &r, 0); receive(&r, gone[0], a, 1); receive(&r, sv[0], b, 2);
    for (int open = 1; open;) {
        io_uring_submit_and_wait(&r, 1); io_uring_wait_cqe(&r, &q); int who = q->user_data, n = q->res; io_uring_cqe_seen(&r, q);
        if (who == 1) { empty++; if (closes) close(gone[0]); else receive(&r, gone[0], a, 1); }
        else if (n <= 0) open = 0;
        else { got++; receive(&r, sv[0], b, 2); }
    }
    printf("truth: %d messages, %ld receives of 0 bytes\n", got, empty);
}
