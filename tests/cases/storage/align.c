// AgentENV #274, neon #12821, cloud-hypervisor #8051: O_DIRECT with 512-byte alignment on a device of 4096-byte sectors: EINVAL.
// build: cc -O2 -o align align.c -luring
// run:   truncate -s 64M img; L=$(losetup -f --show -b 4096 img); ./align $L [SIZE=512] [N=400]; losetup -d $L   (SIZE 4096: all is well)
#define _GNU_SOURCE
#include <liburing.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
int main(int c,char**v){
  int sz=c>2?atoi(v[2]):512,n=c>3?atoi(v[3]):400; int fd=open(v[1],O_RDONLY|O_DIRECT); if(fd<0){perror(v[1]);return 1;}
  struct io_uring r; io_uring_queue_init(16,&r,0); char*b; posix_memalign((void**)&b,4096,16*4096); int ok=0,inval=0,other=0;
  for(int i=0;i<n;i+=16){ for(int k=0;k<16;k++){struct io_uring_sqe*s=io_uring_get_sqe(&r);io_uring_prep_read(s,fd,b+k*4096,(i+k)%2?4096:sz,(i+k)%2?(i+k)*4096:(i+k)*(unsigned long)sz);}
    io_uring_submit_and_wait(&r,16); struct io_uring_cqe*q; for(int k=0;k<16;k++){io_uring_wait_cqe(&r,&q); if(q->res>0)ok++; else if(q->res==-22)inval++; else other++; io_uring_cqe_seen(&r,q);} }
  printf("%d ok, %d EINVAL, %d other\n",ok,inval,other);
}
