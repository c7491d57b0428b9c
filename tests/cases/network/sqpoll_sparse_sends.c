/* SQPOLL for a packet now and then: with sq_thread_idle of 2 s the kernel thread never sleeps and takes a CPU for 50 packets a second.
 * After axboe/liburing#997 (mediasoup), #846; libuv/libuv#4089, #4308.
 * Build: cc -O2 -o sqpoll_sparse_sends sqpoll_sparse_sends.c -luring
 * Run:   ./sqpoll_sparse_sends [IDLE_MS=2000] */
#include <liburing.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t al = sizeof a;
    int r = socket(AF_INET, SOCK_DGRAM, 0), s = socket(AF_INET, SOCK_DGRAM, 0);
    bind(r, (void *)&a, sizeof a); getsockname(r, (void *)&a, &al); connect(s, (void *)&a, sizeof a);
    struct io_uring_params p = {.flags = IORING_SETUP_SQPOLL, .sq_thread_idle = argc > 1 ? atoi(argv[1]) : 2000};
    struct io_uring ring; if (io_uring_queue_init_params(64, &ring, &p)) return 1;
    static char pkt[200], in[2048]; int sent = 0, got = 0;
    for (int i = 0; i < 75; i++) {
        struct io_uring_sqe *q = io_uring_get_sqe(&ring);
        io_uring_prep_send(q, s, pkt, sizeof pkt, 0);
        io_uring_submit(&ring);
        usleep(20000);
        struct io_uring_cqe *c; while (!io_uring_peek_cqe(&ring, &c)) { sent += c->res == sizeof pkt; io_uring_cqe_seen(&ring, c); }
        while (recv(r, in, sizeof in, MSG_DONTWAIT) > 0) got++;
    }
    struct rusage u; getrusage(RUSAGE_SELF, &u);
    io_uring_queue_exit(&ring);
    printf("truth: %d packets sent, %d arrived; CPU of the process and its SQPOLL thread: user %ld ms, system %ld ms\n", sent, got,
           u.ru_utime.tv_sec * 1000 + u.ru_utime.tv_usec / 1000, u.ru_stime.tv_sec * 1000 + u.ru_stime.tv_usec / 1000);
}
