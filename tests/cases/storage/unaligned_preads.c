/* pread(2) with O_DIRECT into a buffer that is not aligned fails with EINVAL. `aligned`: it is.
 * After HDFGroup/hdf5#6324.
 * Build: cc -O2 -o unaligned_preads unaligned_preads.c     Run: ./unaligned_preads FILE [aligned] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int c, char **v) {
    int fd = open(v[1], O_RDONLY | O_DIRECT), failed = 0; char *b = aligned_alloc(4096, 8192);
    for (int i = 0; i < 500; i++) { failed += pread(fd, c > 2 ? b : b + 16, 4096, 4096L * (rand() % 8192)) < 0; usleep(2000); }
    printf("truth: %d of 500 reads failed\n", failed);
}
