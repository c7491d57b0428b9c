/* io_submit(2) takes as many of 1,024 reads as the context has free events; the rest is dropped, and the wait for all never ends.
 * After chimera-nas/libevpl#68. The program ends itself after 4 s.
 * Build: cc -O2 -o submits_part submits_part.c     Run: ./submits_part FILE [all] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
enum { N = 1024 };
static int taken, done;
static void ends(int s) { dprintf(1, "truth: %d of 1024 submitted, %d completed\n", taken, done); _exit(0); }
int main(int c, char **v) {
    int all = c > 2, fd = open(v[1], O_RDONLY | O_DIRECT); char *b = aligned_alloc(4096, N * 4096); aio_context_t x = 0;
    static struct iocb of[N], *p[N]; static struct io_event e[N]; syscall(SYS_io_setup, 64, &x); signal(SIGALRM, ends); alarm(4);
    for (int i = 0; i < N; i++) {
        of[i] = (struct iocb) { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = fd, .aio_buf = (long)b + 4096L * i, .aio_nbytes = 4096, .aio_offset = 4096L * i };
        p[i] = of + i;
    }
    for (int once = 1; done < N; once = all) {
        if (once && taken < N) { int n = syscall(SYS_io_submit, x, N - taken, p + taken); if (n > 0) taken += n; }
        int n = syscall(SYS_io_getevents, x, 1, N, e, NULL); if (n > 0) done += n;
    }
    ends(0);
}
