// io_getevents(2) with min_nr 0 and a time limit of 0 in a loop: some 100 calls per read, and a CPU while the device works.
// After a class of reports on event loops that look for native aio (SPDK's aio bdev, libaio back ends without an eventfd).
// build: cc -O2 -o aio_looks aio_looks.c     run: ./aio_looks FILE(>=64M) look|wait
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int main(int c,char**v){
  int fd=c>2?open(v[1],O_RDONLY|O_DIRECT):-1,wait=c>2&&!strcmp(v[2],"wait"); aio_context_t x=0; void*b; long calls=0,n=0;
  if(fd<0||syscall(SYS_io_setup,8,&x)){perror("setup");return 1;}
  posix_memalign(&b,4096,4096);
  for(;n<3000;n++){
    struct iocb cb={.aio_lio_opcode=IOCB_CMD_PREAD,.aio_fildes=(unsigned)fd,.aio_buf=(uintptr_t)b,.aio_nbytes=4096,.aio_offset=(rand()%16000)*4096l},*p=&cb;
    struct io_event e; struct timespec none={0}; long got; if(syscall(SYS_io_submit,x,1l,&p)!=1){perror("submit");return 1;}
    do{got=syscall(SYS_io_getevents,x,(long)wait,1l,&e,wait?NULL:&none);calls++;}while(got<1);
  }
  printf("truth: %ld reads, %ld io_getevents\n",n,calls);
}
