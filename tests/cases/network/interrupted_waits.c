/* A timer of 1 kHz sends SIGALRM to the thread that waits in io_uring_enter: nearly all of its waits end with EINTR. After axboe/fio#1556.
 * Build: cc -O2 -o interrupted_waits interrupted_waits.c -luring -lpthread     Run: ./interrupted_waits [masked] */
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>
static int p[2];
static void tick(int s) {}
static void *peer(void *x) { for (int i = 0; i < 30; i++) { usleep(100000); while (write(p[1], "x", 1) != 1) ; } close(p[1]); return x; }
int main(int c, char **v) {
    int masked = c > 1, got = 0, interrupted = 0, n; char b[8]; pthread_t t; struct io_uring_cqe *q; sigset_t alarms; pipe(p);
    sigemptyset(&alarms); sigaddset(&alarms, SIGALRM); pthread_sigmask(SIG_BLOCK, &alarms, NULL); pthread_create(&t, NULL, peer, NULL);
    if (!masked) pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    struct sigaction a = { .sa_handler = tick }; sigaction(SIGALRM, &a, NULL);
    struct itimerval each = { { 0, 1000 }, { 0, 1000 } }; setitimer(ITIMER_REAL, &each, NULL);
    struct io_uring r; io_uring_queue_init(8, &r, 0);
    do {
        io_uring_prep_read(io_uring_get_sqe(&r), p[0], b, 1, -1); io_uring_submit(&r);
        while (io_uring_wait_cqe(&r, &q) == -EINTR) interrupted++;
        n = q->res; io_uring_cqe_seen(&r, q); got += n > 0;
    } while (n > 0);
    printf("truth: %d messages, %d waits ended with EINTR\n", got, interrupted);
}
