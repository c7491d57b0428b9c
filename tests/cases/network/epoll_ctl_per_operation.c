/* An epoll loop that adds a descriptor before each operation and removes it after: four epoll_ctl for one echo.
 * After lalinsky/zio#510; ruby/ruby#18566.
 * Build: cc -O2 -o epoll_ctl_per_operation epoll_ctl_per_operation.c -lpthread
 * Run:   ./epoll_ctl_per_operation [kept] */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
enum { N = 5000 };
static struct sockaddr_in a = {.sin_family = AF_INET};
static void *client(void *x) {
    int c = socket(AF_INET, SOCK_STREAM, 0), one = 1; connect(c, (void *)&a, sizeof a); setsockopt(c, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char b[64] = {0}; for (int i = 0; i < N; i++) { if (write(c, b, 64) != 64 || read(c, b, 64) != 64) break; }
    close(c); return x;
}
int main(int argc, char **argv) {
    int kept = argc > 1 && !strcmp(argv[1], "kept"), one = 1; socklen_t al = sizeof a;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int l = socket(AF_INET, SOCK_STREAM, 0); bind(l, (void *)&a, sizeof a); listen(l, 4); getsockname(l, (void *)&a, &al);
    pthread_t t; pthread_create(&t, NULL, client, NULL);
    int s = accept(l, NULL, NULL); setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    int ep = epoll_create1(0); long ctls = 0, waits = 0, echoes = 0; char b[64]; struct epoll_event e;
    if (kept) { e.events = EPOLLIN; e.data.fd = s; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e); ctls++; }
    for (;;) {
        if (!kept) { e.events = EPOLLIN; e.data.fd = s; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e); ctls++; }
        epoll_wait(ep, &e, 1, -1); waits++;
        if (!kept) { epoll_ctl(ep, EPOLL_CTL_DEL, s, NULL); ctls++; }
        if (read(s, b, 64) != 64) break;
        if (!kept) { e.events = EPOLLOUT; e.data.fd = s; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e); epoll_wait(ep, &e, 1, -1); epoll_ctl(ep, EPOLL_CTL_DEL, s, NULL); ctls += 2; waits++; }
        if (write(s, b, 64) != 64) break;
        echoes++;
    }
    pthread_join(t, NULL);
    printf("truth: %ld echoes, %ld epoll_ctl, %ld epoll_wait\n", echoes, ctls, waits);
}
