// Four threads read(2) one descriptor: the kernel locks its file position for each call, and one reads at a time. pread(2) needs no lock.
// After a class of reports: thread pools that inherit a FILE or an fd (dup(2) shares the position too).
// build: cc -O2 -o shared_file_position shared_file_position.c -lpthread     run: ./shared_file_position FILE(>=64M) read|pread
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { THREADS = 4, READS = 3000, BYTES = 4096 };
static int fd, with_offset; static long done;
static void*reader(void*x){
  void*b; unsigned seed=(unsigned)(long)x; long n=0; posix_memalign(&b,BYTES,BYTES);
  for(int i=0;i<READS;i++)n+=(with_offset?pread(fd,b,BYTES,(off_t)(rand_r(&seed)%16000)*BYTES):read(fd,b,BYTES))==BYTES;
  __sync_fetch_and_add(&done,n); return NULL;
}
int main(int c,char**v){
  pthread_t t[THREADS]; if(c<3||(fd=open(v[1],O_RDONLY|O_DIRECT))<0){perror("open");return 1;}
  with_offset=!strcmp(v[2],"pread");
  for(long i=0;i<THREADS;i++)pthread_create(t+i,NULL,reader,(void*)i);
  for(int i=0;i<THREADS;i++)pthread_join(t[i],NULL);
  printf("truth: %ld reads by %s\n",done,v[2]);
}
