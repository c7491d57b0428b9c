// fio #718: POSIX AIO is no faster with more requests in flight: glibc executes the requests of one descriptor one after another, in one thread.
// build: cc -O2 -o posix_aio posix_aio_one_descriptor.c     run: ./posix_aio FILE(>=64M) [DESCRIPTORS=1] [ROUNDS=150]   (16 descriptors: all is well)
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { DEPTH = 16 };
int main(int c, char **v) {
  int n = c > 2 ? atoi(v[2]) : 1, rounds = c > 3 ? atoi(v[3]) : 150, fd[DEPTH], done = 0; char *b; struct aiocb a[DEPTH];
  if (posix_memalign((void **)&b, 4096, DEPTH * 4096)) return 1;
  for (int i = 0; i < n; i++) if ((fd[i] = open(v[1], O_RDONLY | O_DIRECT)) < 0) { perror(v[1]); return 1; }
  for (int round = 0; round < rounds; round++) {
    for (int i = 0; i < DEPTH; i++) {
      memset(&a[i], 0, sizeof a[i]); a[i].aio_fildes = fd[i % n]; a[i].aio_buf = b + i * 4096; a[i].aio_nbytes = 4096;
      a[i].aio_offset = 4096L * ((round * 7919L + i * 104729L) % 16384); aio_read(&a[i]);
    }
    for (int i = 0; i < DEPTH; i++) {
      const struct aiocb *one[1] = { &a[i] };
      while (aio_error(&a[i]) == EINPROGRESS) aio_suspend(one, 1, 0);
      done += aio_return(&a[i]) == 4096;
    }
  }
  printf("%d of %d reads on %d descriptors\n", done, rounds * DEPTH, n);
}
