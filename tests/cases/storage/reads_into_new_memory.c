/* Reads a cached file in pieces of 1 MiB, each into a new mapping, as malloc(3) and free(3) do with large buffers, or into one buffer (`kept`).
 * Build: cc -O2 -o reads_into_new_memory reads_into_new_memory.c     Run: ./reads_into_new_memory FILE [kept] */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#define MAP() mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1, 0)
int main(int c, char **v) {
    int f = open(v[1], O_RDONLY); char *kept = MAP(); long n = 0; memset(kept, 0, 1 << 20);
    for (int i = 0; i < 1500; i++) {
        char *b = c > 2 ? kept : MAP(); n += pread(f, b, 1 << 20, (long)(i % 64) << 20);
        if (b != kept) munmap(b, 1 << 20);
    }
    printf("truth: %ld MiB read\n", n >> 20);
}
