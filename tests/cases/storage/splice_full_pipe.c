/* splice(2) from a socket into a full, non-blocking pipe fails with EAGAIN, and the program waits for the socket, which stays readable. Or for the pipe (`pipe`).
 * After golang/go#75304, h2o/h2o#3075.
 * Build: cc -O2 -o splice_full_pipe splice_full_pipe.c -lpthread     Run: ./splice_full_pipe [pipe] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
static int s[2], p[2]; static char from[65536], to[65536];
static void *source(void *a) { for (int i = 0; i < 50; i++) write(s[1], from, sizeof from); close(s[1]); return 0; }
static void *sink(void *a) { while (read(p[0], to, sizeof to) > 0) usleep(40000); return 0; }
int main(int c, char **v) {
    pthread_t t, u; long calls = 0, failed = 0;
    socketpair(AF_UNIX, SOCK_STREAM, 0, s); pipe(p); fcntl(p[1], F_SETFL, O_NONBLOCK); fcntl(s[0], F_SETFL, O_NONBLOCK);
    struct pollfd full = { .fd = c > 1 ? p[1] : s[0], .events = c > 1 ? POLLOUT : POLLIN }, empty = { .fd = s[0], .events = POLLIN };
    pthread_create(&t, 0, source, 0); pthread_create(&u, 0, sink, 0);
    for (ssize_t n; (n = splice(s[0], 0, p[1], 0, 65536, SPLICE_F_NONBLOCK)) != 0; calls++) if (n < 0) { failed++; poll(&full, 1, -1); poll(&empty, 1, -1); }
    close(p[1]); pthread_join(u, 0); printf("truth: %ld of %ld splices failed\n", failed, calls);
}
