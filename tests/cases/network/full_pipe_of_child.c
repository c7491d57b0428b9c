/* A process waits for its child before it reads the child's output, and the child is blocked in write: the pipe is full. A
 * process outside ends the child after 3 s. Or it reads first (`reads`).
 * Build: cc -O2 -o full_pipe_of_child full_pipe_of_child.c     Run: ./full_pipe_of_child [reads] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static pid_t child;
static void ends(int s) { kill(child, SIGKILL); }
int main(int c, char **v) {
    int p[2]; char b[4096]; long got = 0; ssize_t n;
    if (pipe(p)) return 1;
    memset(b, 'x', sizeof b); signal(SIGALRM, ends); child = fork();
    if (!child) { close(p[0]); for (int i = 0; i < 100; i++) if (write(p[1], b, sizeof b) < 0) _exit(1); _exit(0); }
    close(p[1]); alarm(3);
    if (c > 1) while ((n = read(p[0], b, sizeof b)) > 0) got += n;
    while (wait(0) < 0);
    while ((n = read(p[0], b, sizeof b)) > 0) got += n;
    printf("truth: %ld of 409600 bytes\n", got);
}
