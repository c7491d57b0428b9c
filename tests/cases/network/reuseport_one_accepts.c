/* Two listening sockets on one port with SO_REUSEPORT; the server accepts from one of them by its ring (or both: `both`).
 * Build: cc -O2 -o reuseport_one_accepts reuseport_one_accepts.c -luring -lpthread     Run: ./reuseport_one_accepts [both] */
#include <liburing.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET }; static volatile int end;
static void *client(void *a) {
    int s[40], ok = 0; for (int i = 0; i < 40; i++) { struct timeval tv = { .tv_usec = 50000 }; s[i] = socket(AF_INET, SOCK_STREAM, 0); setsockopt(s[i], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
        connect(s[i], (void *)&at, sizeof at); send(s[i], "x", 1, 0); char b; ok += recv(s[i], &b, 1, 0) == 1; }
    sleep(1); printf("truth: %d of 40 connections were answered\n", ok); fflush(stdout); _exit(0);
}
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; struct io_uring_sqe *s; pthread_t t; int l[2], one = 1; socklen_t len = sizeof at; static char b[1024];
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 2; i++) { l[i] = socket(AF_INET, SOCK_STREAM, 0); setsockopt(l[i], SOL_SOCKET, SO_REUSEPORT, &one, 4); bind(l[i], (void *)&at, len); getsockname(l[i], (void *)&at, &len); listen(l[i], 64); }
    io_uring_queue_init(64, &r, 0); pthread_create(&t, 0, client, 0);
    for (int i = 0; i < (c > 1 ? 2 : 1); i++) { s = io_uring_get_sqe(&r); io_uring_prep_multishot_accept(s, l[i], 0, 0, 0); s->user_data = 1000; }
    for (;;) {
        io_uring_submit_and_wait(&r, 1);
        while (!io_uring_peek_cqe(&r, &q)) { int res = q->res; unsigned long id = q->user_data; io_uring_cqe_seen(&r, q);
            if (id == 1000) { s = io_uring_get_sqe(&r); io_uring_prep_recv(s, res, b, 1, 0); s->user_data = res; }
            else if (id < 1000) { s = io_uring_get_sqe(&r); if (res > 0) { io_uring_prep_send(s, id, "y", 1, 0); s->user_data = 2000; } else { io_uring_prep_close(s, id); s->user_data = 2000; } } }
    }
}
