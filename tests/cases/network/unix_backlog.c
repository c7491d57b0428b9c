/* Non-blocking connects to an AF_UNIX socket with a backlog of 4 fail with EAGAIN. Or the backlog is 64 (`long`).
 * Build: cc -O2 -o unix_backlog unix_backlog.c -lpthread     Run: ./unix_backlog [long] */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
static int l;
static void *server(void *a) { for (;;) { int s = accept(l, 0, 0); usleep(2000); close(s); } }
int main(int c, char **v) {
    struct sockaddr_un to = { .sun_family = AF_UNIX }; int n = sprintf(to.sun_path + 1, "case-%d", getpid()), made = 0, full = 0; pthread_t t;
    socklen_t k = sizeof to.sun_family + 1 + n;
    l = socket(AF_UNIX, SOCK_STREAM, 0); bind(l, (void *)&to, k); listen(l, c > 1 ? 64 : 4); pthread_create(&t, 0, server, 0);
    for (int i = 0; i < 30; i++) {
        int fd[10];
        for (int j = 0; j < 10; j++) {
            fd[j] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
            if (!connect(fd[j], (void *)&to, k)) made++; else if (errno == EAGAIN) full++;
        }
        usleep(40000); for (int j = 0; j < 10; j++) close(fd[j]);
    }
    printf("truth: %d connected, %d EAGAIN\n", made, full); exit(0);
}
