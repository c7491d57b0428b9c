/* All four threads of a pool are blocked in flock(2); the task that releases the lock is queued behind them. Or the main thread releases it (`main`).
 * After denoland/deno#32789. The program ends itself after 3 s.
 * Build: cc -O2 -o locks_fill_the_pool locks_fill_the_pool.c -lpthread     Run: ./locks_fill_the_pool FILE [main] */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <unistd.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t more = PTHREAD_COND_INITIALIZER, less = PTHREAD_COND_INITIALIZER;
static int fds[6], queue[16], head, tail, done;
static void ends(int s) { dprintf(1, "truth: %d of 4 tasks done\n", done); _exit(0); }
static void put(int task) { pthread_mutex_lock(&m); queue[tail++] = task; pthread_cond_signal(&more); pthread_mutex_unlock(&m); }
static void *worker(void *a) {
    for (;;) {
        pthread_mutex_lock(&m); while (head == tail) pthread_cond_wait(&more, &m); int task = queue[head++]; pthread_mutex_unlock(&m);
        if (task < 5) { flock(fds[task], LOCK_EX); usleep(10000); flock(fds[task], LOCK_UN); } else flock(fds[task], LOCK_UN);
        pthread_mutex_lock(&m); done += task < 5; pthread_cond_signal(&less); pthread_mutex_unlock(&m);
    }
}
int main(int c, char **v) {
    pthread_t t; signal(SIGALRM, ends); alarm(3);
    for (int i = 1; i < 6; i++) fds[i] = open(v[1], O_RDWR | O_CREAT, 0600);
    flock(fds[5], LOCK_EX);
    for (int i = 1; i < 5; i++) { pthread_create(&t, 0, worker, 0); put(i); }
    usleep(300000); if (c > 2) flock(fds[5], LOCK_UN); else put(5);
    pthread_mutex_lock(&m); while (done < 4) pthread_cond_wait(&less, &m); pthread_mutex_unlock(&m);
    ends(0);
}
