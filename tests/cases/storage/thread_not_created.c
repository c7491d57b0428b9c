/* pthread_create(3) fails with EAGAIN (RLIMIT_NPROC), and the program ignores it: the task never runs, and its waiters sleep for ever.
 * After tokio-rs/tokio#8406. The program ends itself after 3 s. `more`: the limit allows the thread.
 * Build: cc -O2 -o thread_not_created thread_not_created.c -lpthread     Run: ./thread_not_created [more] */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t cv = PTHREAD_COND_INITIALIZER; static int done;
static void ends(int s) { dprintf(1, "truth: the task %s\n", done ? "ran" : "did not run"); _exit(0); }
static void *task(void *a) { pthread_mutex_lock(&m); done = 1; pthread_cond_broadcast(&cv); pthread_mutex_unlock(&m); return 0; }
static void *waits(void *a) { pthread_mutex_lock(&m); while (!done) pthread_cond_wait(&cv, &m); pthread_mutex_unlock(&m); return 0; }
int main(int c, char **v) {
    pthread_t t; struct rlimit limit = { c > 1 ? 100 : 3, c > 1 ? 100 : 3 }; signal(SIGALRM, ends);
    setrlimit(RLIMIT_NPROC, &limit); if (setgid(61234) || setuid(61234)) return 2;
    alarm(3);
    for (int i = 0; i < 2; i++) pthread_create(&t, 0, waits, 0);
    usleep(50000); pthread_create(&t, 0, task, 0); waits(0); ends(0);
}
