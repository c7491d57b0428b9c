/* A socket that is closed while a recv on it is in flight: no FIN goes out, and the recv never completes.
 * After axboe/liburing#932 (Hazelcast), #1048, #568.
 * Build: cc -O2 -o close_pending_recv close_pending_recv.c -luring -lpthread
 * Run:   ./close_pending_recv [shutdown] (STAY=MS: hang so much longer)     with "shutdown" it is done right: shutdown(2) before close(2) */
#include <liburing.h>
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
enum { N = 20 };
static int peers[N], saw_eof;
static void *peer(void *arg) {
    int fd = *(int *)arg; char b[16];
    struct timeval tv = {.tv_sec = 1};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    if (read(fd, b, sizeof b) == 0) __sync_fetch_and_add(&saw_eof, 1);
    return NULL;
}
int main(int argc, char **argv) {
    int orderly = argc > 1 && !strcmp(argv[1], "shutdown");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t al = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0), fd[N];
    bind(l, (void *)&a, sizeof a); listen(l, N); getsockname(l, (void *)&a, &al);
    struct io_uring ring; io_uring_queue_init(64, &ring, 0);
    static char buf[N][4096];
    pthread_t t[N];
    for (int i = 0; i < N; i++) {
        peers[i] = socket(AF_INET, SOCK_STREAM, 0);
        connect(peers[i], (void *)&a, sizeof a);
        fd[i] = accept(l, NULL, NULL);
        pthread_create(&t[i], NULL, peer, &peers[i]);
        struct io_uring_sqe *s = io_uring_get_sqe(&ring);
        io_uring_prep_recv(s, fd[i], buf[i], sizeof buf[i], 0);
        s->user_data = 1000 + i;
    }
    io_uring_submit(&ring);
    usleep(100000);
    for (int i = 0; i < N; i++) { if (orderly) shutdown(fd[i], SHUT_RDWR); close(fd[i]); }
    int done = 0;
    for (int ms = 0; ms < 1500 + (getenv("STAY") ? atoi(getenv("STAY")) : 0); ms += 10) {
        struct io_uring_cqe *c;
        while (!io_uring_peek_cqe(&ring, &c)) { done++; io_uring_cqe_seen(&ring, c); }
        usleep(10000);
    }
    for (int i = 0; i < N; i++) pthread_join(t[i], NULL);
    printf("truth: %d closed, %d recvs completed, %d peers saw the end\n", N, done, saw_eof);
}
