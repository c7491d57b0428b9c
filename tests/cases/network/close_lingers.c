/* close(2) of sockets with SO_LINGER whose peer does not read: each stops the thread for the linger time.
 * After a class of reports on event loops that set SO_LINGER to flush their last response (nginx lingering_close does it without).
 * Build: cc -O2 -o close_lingers close_lingers.c
 * Run:   ./close_lingers [plain] */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
int main(int argc, char **argv) {
    static char b[8 << 20]; double blocked = 0;
    for (int i = 0; i < 3; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}; socklen_t al = sizeof a;
        int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0); bind(l, (void *)&a, al); listen(l, 1);
        getsockname(l, (void *)&a, &al); connect(c, (void *)&a, al); int s = accept(l, NULL, NULL);
        struct linger linger = {1, 1}; if (argc < 2) setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        while (send(s, b, sizeof b, MSG_DONTWAIT) > 0);
        double t = now(); close(s); blocked += now() - t; close(c); close(l);
    }
    printf("truth: 3 closes took %.1f s\n", blocked); usleep(300000);
}
