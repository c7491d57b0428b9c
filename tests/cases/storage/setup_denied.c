// lance #8725, cloudnative-pg #10446: io_uring_setup is refused (EPERM by seccomp or kernel.io_uring_disabled); the worker thread ends, and requests that are
// queued to it wait for ever. Here: a seccomp filter of its own, a 1 s wait, exit 1.
// build: cc -O2 -o setup_denied setup_denied.c -luring -lpthread     run: ./setup_denied [allowed]   (allowed: no filter; a request is submitted and completes)
#define _GNU_SOURCE
#include <liburing.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
static pthread_mutex_t m=PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t cv=PTHREAD_COND_INITIALIZER; static int done;
static void*worker(void*a){(void)a; struct io_uring r; struct io_uring_cqe*q; if(io_uring_queue_init(64,&r,0)<0)return 0;
  for(int i=0;i<200;i++){io_uring_prep_nop(io_uring_get_sqe(&r));io_uring_submit_and_wait(&r,1);io_uring_wait_cqe(&r,&q);io_uring_cqe_seen(&r,q);}
  pthread_mutex_lock(&m); done=1; pthread_cond_signal(&cv); pthread_mutex_unlock(&m); return 0;}
int main(int c,char**v){ int allowed=c>1&&!strcmp(v[1],"allowed");
  struct sock_filter f[]={BPF_STMT(BPF_LD|BPF_W|BPF_ABS,offsetof(struct seccomp_data,nr)),BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,SYS_io_uring_setup,0,1),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ERRNO|EPERM),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)};
  struct sock_fprog p={4,f}; prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0); if(!allowed)prctl(PR_SET_SECCOMP,SECCOMP_MODE_FILTER,&p);
  pthread_t t; pthread_create(&t,0,worker,0); struct timespec ts; clock_gettime(CLOCK_REALTIME,&ts); ts.tv_sec+=1;
  pthread_mutex_lock(&m); int e=0; while(!done&&!e)e=pthread_cond_timedwait(&cv,&m,&ts); puts(done?"done":"request still pending after 1 s"); return !done;
}
