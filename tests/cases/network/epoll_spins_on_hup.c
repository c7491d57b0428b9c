/* Level-triggered epoll and a peer that went away: the loop asks for no events of that socket any more, but EPOLLHUP comes always.
 * After scylladb/seastar#1945 (redpanda-data/seastar#64).
 * Build: cc -O2 -o epoll_spins_on_hup epoll_spins_on_hup.c
 * Run:   ./epoll_spins_on_hup [fixed] */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(int argc, char **argv) {
    int fixed = argc > 1 && !strcmp(argv[1], "fixed");
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}; socklen_t al = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM, 0); bind(l, (void *)&a, sizeof a); listen(l, 4); getsockname(l, (void *)&a, &al);
    int c = socket(AF_INET, SOCK_STREAM, 0); connect(c, (void *)&a, sizeof a); int s = accept(l, NULL, NULL);
    int live[2]; socketpair(AF_UNIX, SOCK_STREAM, 0, live);
    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = s}; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
    e.data.fd = live[0]; epoll_ctl(ep, EPOLL_CTL_ADD, live[0], &e);
    struct linger lg = {1, 0}; setsockopt(c, SOL_SOCKET, SO_LINGER, &lg, sizeof lg); close(c);   /* reset */
    long t0 = now(), next = t0, waits = 0, hups = 0, served = 0;
    while (now() - t0 < 1000000000L) {
        if (now() >= next) { if (write(live[1], "x", 1) != 1) return 1; next += 10000000; }
        struct epoll_event ev[8]; int n = epoll_wait(ep, ev, 8, 10); waits++;
        for (int i = 0; i < n; i++) {
            if (ev[i].data.fd == live[0]) { char b[8]; served += read(live[0], b, 8); continue; }
            hups++;
            if (fixed) epoll_ctl(ep, EPOLL_CTL_DEL, s, NULL);
            else if (ev[i].events & EPOLLIN) { e.events = 0; e.data.fd = s; epoll_ctl(ep, EPOLL_CTL_MOD, s, &e); }   /* "not interested" */
        }
    }
    printf("truth: %ld epoll_waits, %ld of one dead socket (fd %d), %ld bytes served\n", waits, hups, s, served);
}
