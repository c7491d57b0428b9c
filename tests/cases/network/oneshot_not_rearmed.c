/* EPOLLONESHOT: after an EPOLLOUT event that ends a long send, the descriptor is not armed again for EPOLLIN. Or it is (`arms`).
 * Build: cc -O2 -o oneshot_not_rearmed oneshot_not_rearmed.c -lpthread     Run: ./oneshot_not_rearmed [arms] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#define LONG (8 << 20)
static void client(int port) {
    int s = socket(AF_INET, SOCK_STREAM, 0); struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    static char b[1 << 20]; long all = 0, n;
    if (connect(s, (void *)&to, sizeof to)) _exit(1);
    while (all < LONG && (n = read(s, b, sizeof b)) > 0) all += n;
    for (int i = 0; i < 25; i++) { if (write(s, b, 100) != 100) _exit(1); usleep(20000); }
    sleep(2); _exit(0);
}
int main(int c, char **v) {
    int l = socket(AF_INET, SOCK_STREAM, 0), got = 0; struct sockaddr_in of = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t k = sizeof of; bind(l, (void *)&of, k); getsockname(l, (void *)&of, &k); listen(l, 8);
    if (!fork()) client(of.sin_port);
    int s = accept4(l, 0, 0, SOCK_NONBLOCK), ep = epoll_create1(0); struct epoll_event e = { .events = EPOLLIN | EPOLLOUT | EPOLLONESHOT, .data.fd = s };
    epoll_ctl(ep, EPOLL_CTL_ADD, s, &e); static char b[1 << 16]; long sent = 0;
    for (;;) {
        struct epoll_event o; ssize_t n = epoll_wait(ep, &o, 1, 2500); if (n <= 0) break;
        if (o.events & EPOLLOUT) {
            while (sent < LONG && (n = write(s, b, sizeof b)) > 0) sent += n;
            e.events = (sent < LONG ? EPOLLIN | EPOLLOUT : EPOLLIN) | EPOLLONESHOT;
            if (sent < LONG || c > 1) epoll_ctl(ep, EPOLL_CTL_MOD, s, &e);
        } else if (o.events & EPOLLIN) {
            while ((n = read(s, b, sizeof b)) > 0) got += n;
            if (!n) break;
            e.events = EPOLLIN | EPOLLONESHOT; epoll_ctl(ep, EPOLL_CTL_MOD, s, &e);
        }
    }
    printf("truth: %d of 2500 bytes received\n", got); close(s); wait(0);
}
