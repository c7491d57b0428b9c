/* A multishot accept ends with EMFILE. The server does not submit it again, or does (`again`) when a connection closes.
 * Build: cc -O2 -o multishot_accept_emfile multishot_accept_emfile.c -luring     Run: ./multishot_accept_emfile [again] */
#include <liburing.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET };
static int dial(void) { int s = socket(AF_INET, SOCK_STREAM, 0); struct timeval tv = { .tv_sec = 2 }; setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv); connect(s, (void *)&at, sizeof at); return s; }
static int ask(int s) { char b[8] = "x"; return send(s, b, 1, MSG_NOSIGNAL) == 1 && recv(s, b, 1, 0) == 1; }
static void client(void) {
    int s[60], ok = 0, lost = 0; for (int i = 0; i < 60; i++) { s[i] = dial(); usleep(2000); }
    for (int i = 0; i < 30; i++) { ask(s[i]); close(s[i]); }
    usleep(50000); 
    for (int i = 0; i < 100; i++) { ask(s[35]); usleep(10000); }
    int n[10]; for (int i = 0; i < 10; i++) n[i] = dial();
    for (int i = 0; i < 10; i++) send(n[i], "x", 1, 0);
    for (int i = 0; i < 100; i++) { ask(s[35]); usleep(10000); }
    for (int i = 0; i < 10; i++) { char b; if (recv(n[i], &b, 1, MSG_DONTWAIT) == 1) ok++; else lost++; }
    printf("truth: %d of 10 new connections were answered, %d not\n", ok, lost); fflush(stdout); _exit(0);
}
int main(int c, char **v) {
    struct io_uring r; struct io_uring_cqe *q; struct io_uring_sqe *s; static char b[1024][8]; socklen_t len = sizeof at; int again = c > 1, dead = 0;
    int l = socket(AF_INET, SOCK_STREAM, 0); at.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(l, (void *)&at, len); getsockname(l, (void *)&at, &len); listen(l, 128);
    pid_t kid = fork(); if (!kid) client();
    struct rlimit lim = { 48, 48 }; setrlimit(RLIMIT_NOFILE, &lim); io_uring_queue_init(128, &r, 0);
    s = io_uring_get_sqe(&r); io_uring_prep_multishot_accept(s, l, 0, 0, 0); s->user_data = 0;
    for (;;) {
        struct __kernel_timespec lim = { .tv_nsec = 200000000 };
        io_uring_submit_and_wait_timeout(&r, &q, 1, &lim, 0); int st; if (waitpid(kid, &st, WNOHANG) == kid) break;
        while (!io_uring_peek_cqe(&r, &q)) {
            int res = q->res, fl = q->flags; unsigned long id = q->user_data; io_uring_cqe_seen(&r, q);
            if (id == 0) {
                if (res >= 0) { s = io_uring_get_sqe(&r); io_uring_prep_recv(s, res, b[res], 1, 0); s->user_data = res; } 
                if (!(fl & IORING_CQE_F_MORE)) { dead = 1; }
            } else if (id < 1024) {
                if (res <= 0) { close(id); if (dead && again) { s = io_uring_get_sqe(&r); io_uring_prep_multishot_accept(s, l, 0, 0, 0); s->user_data = 0; dead = 0; } }
                else { s = io_uring_get_sqe(&r); io_uring_prep_send(s, id, b[id], 1, MSG_NOSIGNAL); s->user_data = id + 1024; }
            } else { s = io_uring_get_sqe(&r); io_uring_prep_recv(s, id - 1024, b[id - 1024], 1, 0); s->user_data = id - 1024; }
        }
    }
}
