/* A multishot recv that ends with ENOBUFS and is armed again by a 10 ms timer: the data waits for the timer, not for a buffer.
 * After PADL/IORingSwift#10, axboe/liburing#1275 (Dragonfly), moq-dev/moq#3133.
 * Build: cc -O2 -o enobufs_timer_rearm enobufs_timer_rearm.c -luring -lpthread
 * Run:   ./enobufs_timer_rearm [BUFFERS=8]     64 are enough for this load */
#include <liburing.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
enum { SZ = 2048, BURST = 32, ROUNDS = 50, MSG = 64 };
static int sv[2];
static void *feeder(void *x) {
    char m[MSG] = {0};
    for (int r = 0; r < ROUNDS; r++) { for (int i = 0; i < BURST; i++) send(sv[1], m, sizeof m, 0); usleep(20000); }
    shutdown(sv[1], SHUT_WR);
    return x;
}
static struct io_uring_buf_ring *br; static char *mem; static unsigned nbufs; static unsigned short tail;
static void give(unsigned short bid) {
    struct io_uring_buf *b = &br->bufs[tail & (nbufs - 1)];
    b->addr = (unsigned long)(mem + bid * SZ); b->len = SZ; b->bid = bid;
    __atomic_store_n(&br->tail, ++tail, __ATOMIC_RELEASE);
}
static void arm(struct io_uring *r) {
    struct io_uring_sqe *s = io_uring_get_sqe(r);
    io_uring_prep_recv(s, sv[0], NULL, 0, 0);
    s->ioprio |= IORING_RECV_MULTISHOT; s->flags |= IOSQE_BUFFER_SELECT; s->buf_group = 7; s->user_data = 1;
}
int main(int argc, char **argv) {
    nbufs = argc > 1 ? atoi(argv[1]) : 8;
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv);
    struct io_uring ring; io_uring_queue_init(64, &ring, 0);
    br = mmap(NULL, nbufs * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0);
    mem = malloc(nbufs * SZ);
    struct io_uring_buf_reg reg = {.ring_addr = (unsigned long)br, .ring_entries = nbufs, .bgid = 7};
    if (syscall(__NR_io_uring_register, ring.ring_fd, IORING_REGISTER_PBUF_RING, &reg, 1)) { perror("register"); return 1; }
    for (unsigned i = 0; i < nbufs; i++) give(i);
    pthread_t t; pthread_create(&t, NULL, feeder, NULL);
    arm(&ring);
    long got = 0, nobufs = 0, arms = 1; int end = 0;
    struct __kernel_timespec ten = {.tv_nsec = 10000000};
    while (!end) {
        io_uring_submit_and_wait(&ring, 1);
        struct io_uring_cqe *c; unsigned short held[256]; int nh = 0, again = 0;
        while (!io_uring_peek_cqe(&ring, &c)) {
            if (c->user_data == 2) { arm(&ring); arms++; }
            else if (c->res == -ENOBUFS) { nobufs++; again = 1; }
            else if (c->res <= 0) end = 1;
            else { got++; held[nh++] = c->flags >> IORING_CQE_BUFFER_SHIFT; if (!(c->flags & IORING_CQE_F_MORE)) again = 1; }
            io_uring_cqe_seen(&ring, c);
        }
        for (int i = 0; i < nh; i++) give(held[i]);
        if (again) { struct io_uring_sqe *s = io_uring_get_sqe(&ring); io_uring_prep_timeout(s, &ten, 0, 0); s->user_data = 2; }
    }
    pthread_join(t, NULL);
    printf("truth: %d messages sent, %ld received, %ld ENOBUFS, %ld times armed, %u buffers\n", BURST * ROUNDS, got, nobufs, arms, nbufs);
}
