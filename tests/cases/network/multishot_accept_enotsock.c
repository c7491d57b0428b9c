/* A multishot accept that is armed again after each failure, on a descriptor that is no listening socket any more: a loop of ENOTSOCK.
 * After fabriziosalmi/zion#87.
 * Build: cc -O2 -o multishot_accept_enotsock multishot_accept_enotsock.c -luring
 * Run:   ./multishot_accept_enotsock [stop]     with "stop" the accept is cancelled before its descriptor has another use, and not armed again */
#include <liburing.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(int argc, char **argv) {
    int stop = argc > 1 && !strcmp(argv[1], "stop");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}; socklen_t al = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0); bind(l, (void *)&a, sizeof a); listen(l, 64); getsockname(l, (void *)&a, &al);
    struct io_uring ring; io_uring_queue_init(32, &ring, 0);
    long accepted = 0, failed = 0, armed = 0; int arm = 1, broke = 0;
    for (long t0 = now(); now() - t0 < 1000000000L;) {
        if (arm && !(stop && broke)) { struct io_uring_sqe *s = io_uring_get_sqe(&ring); io_uring_prep_multishot_accept(s, l, NULL, NULL, 0); armed++; arm = 0; }
        if (accepted < 20) { int c = socket(AF_INET, SOCK_STREAM, 0); connect(c, (void *)&a, sizeof a); close(c); }
        struct __kernel_timespec ten = {.tv_nsec = 10000000}; struct io_uring_cqe *c;
        io_uring_submit_and_wait_timeout(&ring, &c, 1, &ten, NULL);
        while (!io_uring_peek_cqe(&ring, &c)) { if (c->res >= 0) { accepted++; close(c->res); } else failed++; if (!(c->flags & IORING_CQE_F_MORE)) arm = 1; io_uring_cqe_seen(&ring, c); }
        if (stop && accepted >= 20 && !broke) { io_uring_prep_cancel_fd(io_uring_get_sqe(&ring), l, IORING_ASYNC_CANCEL_ALL); io_uring_submit_and_wait(&ring, 2); while (!io_uring_peek_cqe(&ring, &c)) io_uring_cqe_seen(&ring, c); }
        if (accepted >= 20 && !broke) { int f = open("/dev/null", O_RDWR); shutdown(l, SHUT_RDWR); dup2(f, l); close(f); broke = 1; }  /* the number has another use now */
    }
    printf("truth: %ld accepted, %ld failed, armed %ld times\n", accepted, failed, armed);
}
