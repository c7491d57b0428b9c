/* An epoll loop reads a blocking socket until EAGAIN, which does not come: the other connection waits. Or it reads with
 * MSG_DONTWAIT (`dontwait`).
 * Build: cc -O2 -o blocking_read_in_loop blocking_read_in_loop.c -lpthread     Run: ./blocking_read_in_loop [dontwait] */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static int s[2][2]; static long worst;
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000L + t.tv_nsec / 1000000; }
static void *rare(void *a) { usleep(300000); for (int i = 0; i < 16; i++) { write(s[0][1], "x", 1); usleep(100000); } shutdown(s[0][1], SHUT_WR); return 0; }
static void *asks(void *a) {
    char b[8]; usleep(350000);
    for (int i = 0; i < 16; i++) { long t = now(); write(s[1][1], "x", 1); read(s[1][1], b, 1); if (now() - t > worst) worst = now() - t; usleep(50000); }
    shutdown(s[1][1], SHUT_WR); return 0;
}
int main(int c, char **v) {
    int ep = epoll_create1(0), open = 2; struct epoll_event e = { .events = EPOLLIN }; pthread_t t[2];
    for (int j = 0; j < 2; j++) { socketpair(AF_UNIX, SOCK_STREAM, 0, s[j]); e.data.fd = s[j][0]; epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e); }
    pthread_create(&t[0], 0, rare, 0); pthread_create(&t[1], 0, asks, 0);
    while (open) {
        struct epoll_event o[4]; int n = epoll_wait(ep, o, 4, -1);
        for (int i = 0; i < n; i++) {
            char b[64]; ssize_t r; int fd = o[i].data.fd;
            while ((r = recv(fd, b, sizeof b, c > 1 ? MSG_DONTWAIT : 0)) > 0) if (fd == s[1][0]) write(fd, "a", 1);
            if (!r) { close(fd); open--; }
        }
    }
    pthread_join(t[0], 0); pthread_join(t[1], 0); printf("truth: an answer took up to %ld ms\n", worst);
}
