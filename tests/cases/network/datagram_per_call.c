/* A QUIC or VPN sender that makes one sendto(2) for each datagram: the calls are the CPU time, and UDP_SEGMENT needs a fortieth of them.
 * After firezone/firezone#7210, coturn/coturn#1907, hgaiser/moonshine#113.
 * Build: cc -O2 -o datagram_per_call datagram_per_call.c -lpthread
 * Run:   ./datagram_per_call [gso] */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
enum { DATAGRAMS = 200000, BYTES = 1200, SEGMENTS = 40, UDP_SEGMENTS = 103, UDP_GATHERS = 104 };
static int receiver;
static void *drain(void *x) {
    static char b[65536];
    while (recv(receiver, b, sizeof b, 0) > 0);
    return x;
}
int main(int argc, char **argv) {
    int gso = argc > 1, one = 1, bytes = 8 << 20, segment = BYTES;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}; socklen_t al = sizeof a;
    struct timeval limit = {.tv_usec = 100000};
    receiver = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(receiver, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes); setsockopt(receiver, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (gso) setsockopt(receiver, IPPROTO_UDP, UDP_GATHERS, &one, sizeof one);
    bind(receiver, (void *)&a, sizeof a); getsockname(receiver, (void *)&a, &al);
    int s = socket(AF_INET, SOCK_DGRAM, 0); connect(s, (void *)&a, al);
    if (gso && setsockopt(s, IPPROTO_UDP, UDP_SEGMENTS, &segment, sizeof segment)) perror("UDP_SEGMENT");
    pthread_t t; pthread_create(&t, NULL, drain, NULL);
    static char b[BYTES * SEGMENTS]; long calls = 0, sent = 0, each = gso ? sizeof b : BYTES;
    while (sent < (long)DATAGRAMS * BYTES && send(s, b, each, 0) == each) { sent += each; calls++; }
    pthread_join(t, NULL);
    printf("truth: %ld datagrams, %ld sends\n", sent / BYTES, calls);
}
