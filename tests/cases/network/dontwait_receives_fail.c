/* recvmmsg by eight receives at once, all but the first with MSG_DONTWAIT: they fail at once with EAGAIN instead of waiting their turn.
 * After netty/netty#17187.
 * Build: cc -O2 -o dontwait_receives_fail dontwait_receives_fail.c -luring -lpthread
 * Run:   ./dontwait_receives_fail [linked|waiting]     with "linked" each waits for the one before; with "waiting" none has MSG_DONTWAIT */
#include <liburing.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
enum { K = 8, MSGS = 2000 };
static struct sockaddr_in a = {.sin_family = AF_INET};
static void *sender(void *x) {
    int s = socket(AF_INET, SOCK_DGRAM, 0); connect(s, (void *)&a, sizeof a); char m[200] = {0};
    for (int i = 0; i < MSGS; i += K) { for (int k = 0; k < K; k++) send(s, m, sizeof m, 0); usleep(500); }
    usleep(100000); for (int k = 0; k < K; k++) send(s, m, 1, 0); return x;
}
int main(int argc, char **argv) {
    int linked = argc > 1 && !strcmp(argv[1], "linked"), waiting = argc > 1 && !strcmp(argv[1], "waiting"), end = 0; socklen_t al = sizeof a; a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int r = socket(AF_INET, SOCK_DGRAM, 0); bind(r, (void *)&a, sizeof a); getsockname(r, (void *)&a, &al);
    pthread_t t; pthread_create(&t, NULL, sender, NULL);
    struct io_uring ring; io_uring_queue_init(32, &ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
    static char b[K][2048]; static struct iovec v[K]; static struct msghdr h[K];
    long got = 0, again = 0, rounds = 0;
    while (!end) {
        for (int k = 0; k < K; k++) {
            v[k] = (struct iovec){b[k], sizeof b[k]}; h[k] = (struct msghdr){.msg_iov = &v[k], .msg_iovlen = 1};
            struct io_uring_sqe *s = io_uring_get_sqe(&ring); io_uring_prep_recvmsg(s, r, &h[k], k && !waiting ? MSG_DONTWAIT : 0);
            if (linked && k < K - 1) s->flags |= IOSQE_IO_HARDLINK;
        }
        rounds++;
        for (int left = K; left > 0;) {
            io_uring_submit_and_wait(&ring, 1); struct io_uring_cqe *c;
            while (!io_uring_peek_cqe(&ring, &c)) { if (c->res == 1) end = 1; if (c->res >= 0) got++; else again += c->res == -11; left--; io_uring_cqe_seen(&ring, c); }
        }
    }
    pthread_join(t, NULL);
    printf("truth: %d messages sent, %ld received, %ld receives failed with EAGAIN, %ld rounds of %d\n", MSGS + K, got, again, rounds, K);
}
