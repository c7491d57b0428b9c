/* ftruncate(2) succeeds on a file system without free space, and the first store to the mapping ends the program. With posix_fallocate(3), it is told (`allocate`).
 * After dmf-mxl/mxl#300, FirebirdSQL/firebird#8048.
 * Build: cc -O2 -o map_full_tmpfs map_full_tmpfs.c     Run: ./map_full_tmpfs FILE [allocate] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int c, char **v) {
    int fd = open(v[1], O_RDWR | O_CREAT, 0600); long size = 32 << 20; char *m;
    setbuf(stdout, 0); printf("truth: mapped\n"); usleep(200000);
    if (c > 2 && posix_fallocate(fd, 0, size)) { printf("truth: no space\n"); return 0; }
    ftruncate(fd, size); m = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (long i = 0; i < size; i += 4096) memset(m + i, 1, 4096);
    printf("truth: written\n");
}
