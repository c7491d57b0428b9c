/* Replies are sent by a ring whose eventfd is registered with IORING_REGISTER_EVENTFD_ASYNC (or IORING_REGISTER_EVENTFD: `all`).
 * Build: cc -O2 -o eventfd_async eventfd_async.c -luring -lpthread     Run: ./eventfd_async [all] */
#include <liburing.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static int p[2];
static void *client(void *a) { char b[64] = {0}; for (int i = 0; i < 20; i++) { write(p[0], b, 64); read(p[0], b, 64); } shutdown(p[0], SHUT_WR); return 0; }
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; pthread_t t; char b[64]; long late = 0, n = 0; unsigned long val; int end = 0;
    io_uring_queue_init(8, &r, 0); int e = eventfd(0, EFD_NONBLOCK), ep = epoll_create1(0); struct epoll_event ev = { .events = EPOLLIN };
    if (c > 1) io_uring_register_eventfd(&r, e); else io_uring_register_eventfd_async(&r, e);
    epoll_ctl(ep, EPOLL_CTL_ADD, e, &ev); socketpair(AF_UNIX, SOCK_STREAM, 0, p); pthread_create(&t, 0, client, 0);
    struct io_uring_sqe *s = io_uring_get_sqe(&r); io_uring_prep_recv(s, p[1], b, 64, 0); s->user_data = 1; io_uring_submit(&r);
    while (!end) {
        int w = epoll_wait(ep, &ev, 1, 100); if (w == 1) read(e, &val, 8); 
        while (!io_uring_peek_cqe(&r, &q)) {
            int res = q->res, id = q->user_data; io_uring_cqe_seen(&r, q); n++; late += w == 0;
            if (id == 1 && res <= 0) { end = 1; break; }
            s = io_uring_get_sqe(&r);
            if (id == 1) { io_uring_prep_send(s, p[1], b, 64, 0); s->user_data = 2; io_uring_submit(&r); break; }
            io_uring_prep_recv(s, p[1], b, 64, 0); s->user_data = 1; io_uring_submit(&r);
        }
    }
    pthread_join(t, 0); printf("truth: %ld of %ld completions were seen after the time limit\n", late, n);
}
