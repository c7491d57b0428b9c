/* EPOLLET and one read of 512 bytes per event, of messages of 1,000: the rest is not reported, and both sides wait. After netty/netty#5061, #7788.
 * Build: cc -O2 -o edge_short_reads edge_short_reads.c -lpthread     Run: ./edge_short_reads [drains [SECONDS]] */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET };
static void *peer(void *x) {
    char b[1000] = { 0 }; int fd = socket(AF_INET, SOCK_STREAM, 0); connect(fd, (void *)&at, sizeof at);
    for (int i = 0; i < 200 && write(fd, b, sizeof b) > 0 && read(fd, b, 1) > 0; i++) ;
    close(fd); return x;
}
int main(int c, char **v) {
    int drains = c > 1 && v[1][0] == 'd', s = socket(AF_INET, SOCK_STREAM, 0), e = epoll_create1(0), r = 1; char b[512]; pthread_t t; long got = 0;
    socklen_t n = sizeof at; at.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(s, (void *)&at, n); listen(s, 1); getsockname(s, (void *)&at, &n);
    pthread_create(&t, NULL, peer, NULL); int fd = accept(s, NULL, NULL); fcntl(fd, F_SETFL, O_NONBLOCK);
    struct epoll_event w = { .events = EPOLLIN | EPOLLET }, one; epoll_ctl(e, EPOLL_CTL_ADD, fd, &w);
    for (time_t end = time(NULL) + (c > 2 ? atoi(v[2]) : 4); r && time(NULL) < end;) {
        if (epoll_wait(e, &one, 1, 1000) < 1) continue;
        do { if ((r = read(fd, b, sizeof b)) > 0 && (got += r) % 1000 == 0) write(fd, b, 1); } while (drains && r > 0);
        usleep(5000);
    }
    printf("truth: %ld of 200000 bytes read\n", got);
}
