// The thread that waits for I/O runs under SCHED_IDLE (a wrapper's chrt -i), and threads of the same program compute: it gets no CPU.
// After Mesa3D/mesa#7 (SCHED_IDLE threads starve) and services with CPUSchedulingPolicy=idle.
// build: cc -O2 -o idle_policy idle_policy.c -luring -lpthread     run: ./idle_policy FILE(>=64M) idle|other
#define _GNU_SOURCE
#include <liburing.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static double now(void){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec+t.tv_nsec/1e9;}
static volatile int stop,started;
static void*compute(void*x){__sync_fetch_and_add(&started,1);while(!stop);return x;}
int main(int c,char**v){
  int fd=c>2?open(v[1],O_RDONLY|O_DIRECT):-1; struct io_uring r; struct sched_param p={0}; pthread_t t; void*b; long n=0,threads=sysconf(_SC_NPROCESSORS_ONLN);
  if(fd<0||io_uring_queue_init(8,&r,0)){perror("setup");return 1;}
  posix_memalign(&b,4096,4096);
  for(int i=0;i<threads;i++)pthread_create(&t,NULL,compute,NULL);
  while(started<threads)sched_yield();
  if(!strcmp(v[2],"idle"))sched_setscheduler(0,SCHED_IDLE,&p);
  double t0=now();
  while(n<1000&&now()-t0<3){
    struct io_uring_sqe*s=io_uring_get_sqe(&r); struct io_uring_cqe*q;
    io_uring_prep_read(s,fd,b,4096,(rand()%16000)*4096ull); io_uring_submit_and_wait(&r,1); io_uring_peek_cqe(&r,&q); io_uring_cqe_seen(&r,q); n++;
  }
  printf("truth: %s 1000 reads\n",n<1000?"fewer than":"all"); stop=1; fflush(NULL); _exit(0);
}
