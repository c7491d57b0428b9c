/* A connection is closed, but a forked child has inherited it: epoll reports the open file for ever. Or EPOLL_CTL_DEL removes it
 * first (`del`).
 * Build: cc -O2 -o closed_descriptor_in_epoll closed_descriptor_in_epoll.c     Run: ./closed_descriptor_in_epoll [del] */
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000L + t.tv_nsec / 1000000; }
int main(int c, char **v) {
    int ep = epoll_create1(EPOLL_CLOEXEC), s[2], w[2], junk = 0, messages = 0; struct epoll_event e[8];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, s) || socketpair(AF_UNIX, SOCK_STREAM, 0, w)) return 1;
    struct epoll_event of = { .events = EPOLLIN, .data.fd = s[0] }; epoll_ctl(ep, EPOLL_CTL_ADD, s[0], &of);
    of.data.fd = w[0]; epoll_ctl(ep, EPOLL_CTL_ADD, w[0], &of);
    pid_t child = fork();
    if (!child) { for (int i = 0; i < 30; i++) { usleep(40000); if (write(w[1], "x", 1) != 1) _exit(1); } _exit(0); }
    if (c > 1) epoll_ctl(ep, EPOLL_CTL_DEL, s[0], 0);
    if (write(s[1], "bye", 3) != 3) return 1;
    close(s[0]);
    for (long end = now() + 2000; now() < end && messages < 30; ) {
        int n = epoll_wait(ep, e, 8, 500); char b[8];
        for (int i = 0; i < n; i++) if (read(e[i].data.fd, b, 8) < 0) { junk++; epoll_ctl(ep, EPOLL_CTL_DEL, e[i].data.fd, 0); } else messages++;
    }
    kill(child, SIGKILL); wait(0); printf("truth: %d events of a closed descriptor, %d messages\n", junk, messages);
}
