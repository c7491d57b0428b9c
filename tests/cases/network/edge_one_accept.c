/* 20 clients connect at once. The server accepts one connection per event of a listening socket with EPOLLET, or all (`drains`).
 * Build: cc -O2 -o edge_one_accept edge_one_accept.c -lpthread     Run: ./edge_one_accept [drains] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET };
static void *clients(void *x) {
    char b[8]; int fd[20], answered = 0; struct timeval limit = { .tv_usec = 100000 };
    for (int i = 0; i < 20; i++) { fd[i] = socket(AF_INET, SOCK_STREAM, 0); connect(fd[i], (void *)&at, sizeof at); }
    sleep(2);
    for (int i = 0; i < 20; i++) answered += recv(fd[i], b, 5, MSG_DONTWAIT) == 5;
    printf("truth: %d of 20 clients answered\n", answered); fflush(stdout); return x;
}
int main(int c, char **v) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), ep = epoll_create1(0); socklen_t n = sizeof at; pthread_t t;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(s, (void *)&at, n); listen(s, 64); getsockname(s, (void *)&at, &n);
    pthread_create(&t, NULL, clients, NULL); usleep(100000);
    struct epoll_event e = { .events = EPOLLIN | EPOLLET, .data.fd = s }; epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
    while (epoll_wait(ep, &e, 1, 2200) > 0)
        do { int fd = accept4(s, NULL, NULL, 0); if (fd < 0) break; send(fd, "hello", 5, 0); } while (c > 1);
    pthread_join(t, NULL);
}
