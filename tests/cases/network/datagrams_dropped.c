/* A sender sends bursts of 100 datagrams to a receiver whose receive buffer holds a few of them, or all (`large`).
 * Build: cc -O2 -o datagrams_dropped datagrams_dropped.c -lpthread     Run: ./datagrams_dropped [large] */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int r; static long got;
static void *receive(void *x) { char b[2048]; while (recv(r, b, sizeof b, 0) > 3) got++; return x; }
int main(int c, char **v) {
    struct sockaddr_in at = { .sin_family = AF_INET }; socklen_t n = sizeof at; pthread_t t; char b[500] = { 0 };
    int size = c > 1 ? 4 << 20 : 4096, s = socket(AF_INET, SOCK_DGRAM, 0); r = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(r, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK); bind(r, (void *)&at, n); getsockname(r, (void *)&at, &n); connect(s, (void *)&at, n);
    pthread_create(&t, NULL, receive, NULL);
    for (int i = 0; i < 50; i++) { for (int j = 0; j < 100; j++) send(s, b, sizeof b, 0); usleep(10000); }
    usleep(50000); send(s, "end", 3, 0); pthread_join(t, NULL); printf("truth: %ld of 5000 received\n", got);
}
