/* Sends 4 MiB over TCP, with SO_SNDBUF set to 4 KiB or unset (`tuned`): each wake-up sends what the buffer takes.
 * Build: cc -O2 -o small_send_buffer small_send_buffer.c -lpthread     Run: ./small_send_buffer [tuned] */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
static int peer;
static void *receive(void *x) { static char b[1 << 20]; while (recv(peer, b, sizeof b, 0) > 0); return x; }
int main(int c, char **v) {
    struct sockaddr_in at = { .sin_family = AF_INET }; socklen_t n = sizeof at; pthread_t t; static char b[1 << 20]; long left = 4 << 20, waits = 0;
    int l = socket(AF_INET, SOCK_STREAM, 0), s = socket(AF_INET, SOCK_STREAM, 0), size = 4096, ep = epoll_create1(0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(l, (void *)&at, n); listen(l, 8); getsockname(l, (void *)&at, &n);
    if (c < 2) setsockopt(s, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    connect(s, (void *)&at, n); peer = accept(l, NULL, NULL); pthread_create(&t, NULL, receive, NULL);
    struct epoll_event e = { .events = EPOLLOUT }; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
    while (left > 0) {
        long sent = send(s, b, left < sizeof b ? left : sizeof b, MSG_DONTWAIT);
        if (sent > 0) left -= sent; else { epoll_wait(ep, &e, 1, -1); waits++; }
    }
    shutdown(s, SHUT_WR); pthread_join(t, NULL); printf("truth: %ld waits for space\n", waits);
}
