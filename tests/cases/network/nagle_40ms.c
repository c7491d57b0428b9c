/* A response in two sends without TCP_NODELAY: the second waits for the peer's delayed ACK, 40 ms for each request.
 * After bearcove/loona#209 (44 ms on the io_uring path); http-rs/async-h1#199.
 * Build: cc -O2 -o nagle_40ms nagle_40ms.c -luring -lpthread
 * Run:   ./nagle_40ms [nodelay] */
#include <liburing.h>
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
enum { N = 30 };
static struct sockaddr_in a = {.sin_family = AF_INET}; static long total;
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
static void *client(void *x) {
    int c = socket(AF_INET, SOCK_STREAM, 0), one = 1; connect(c, (void *)&a, sizeof a); setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char b[512]; long t0 = now();
    for (int i = 0; i < N; i++) { if (write(c, "GET", 3) != 3) break; for (int g = 0; g < 300;) { int n = read(c, b, sizeof b); if (n <= 0) return x; g += n; } }
    total = now() - t0; close(c); return x;
}
static int op(struct io_uring *r, int fd, void *b, int n, int snd) {
    struct io_uring_sqe *s = io_uring_get_sqe(r); struct io_uring_cqe *c;
    if (snd) io_uring_prep_send(s, fd, b, n, 0); else io_uring_prep_recv(s, fd, b, n, 0);
    io_uring_submit_and_wait(r, 1); if (io_uring_peek_cqe(r, &c)) return -1; n = c->res; io_uring_cqe_seen(r, c); return n;
}
int main(int argc, char **argv) {
    int nd = argc > 1 && !strcmp(argv[1], "nodelay"), one = 1; socklen_t al = sizeof a; a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int l = socket(AF_INET, SOCK_STREAM, 0); bind(l, (void *)&a, sizeof a); listen(l, 4); getsockname(l, (void *)&a, &al);
    pthread_t t; pthread_create(&t, NULL, client, NULL);
    int s = accept(l, NULL, NULL); if (nd) setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct io_uring ring; io_uring_queue_init(8, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    char b[512] = {0}; int served = 0;
    while (op(&ring, s, b, sizeof b, 0) > 0) { op(&ring, s, b, 100, 1); op(&ring, s, b, 200, 1); served++; }
    pthread_join(t, NULL);
    printf("truth: %d requests, %.2f ms each; 2 sends for each\n", served, total / 1e6 / N);
}
