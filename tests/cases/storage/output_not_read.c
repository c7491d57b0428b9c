/* The parent waits for its child before it reads the child's output: the pipe is full, and both wait for ever. Or it reads first (`read`).
 * After sheredom/subprocess.h#82, stemdeckapp/stemdeck#516. The program ends itself after 3 s.
 * Build: cc -O2 -o output_not_read output_not_read.c     Run: ./output_not_read [read] */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static pid_t child; static long got;
static void ends(int s) { kill(child, SIGKILL); dprintf(1, "truth: %ld bytes read\n", got); _exit(1); }
int main(int c, char **v) {
    int p[2]; char b[4096] = {0}; ssize_t n; pipe(p); signal(SIGALRM, ends);
    if (!(child = fork())) { close(p[0]); for (int i = 0; i < 400; i++) { write(p[1], b, 1024); usleep(1000); } _exit(0); }
    close(p[1]); alarm(3);
    if (c == 1) waitpid(child, 0, 0);
    while ((n = read(p[0], b, sizeof b)) > 0) got += n;
    waitpid(child, 0, 0); printf("truth: %ld bytes read\n", got);
}
