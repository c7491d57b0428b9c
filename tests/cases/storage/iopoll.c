// liburing #1389, nomt #806: a ring with IORING_SETUP_IOPOLL on a device without poll queues: EOPNOTSUPP.
// build: cc -O2 -o iopoll iopoll.c -luring     run: ./iopoll FILE [N=400] [plain]   (plain: a ring without IORING_SETUP_IOPOLL)
#define _GNU_SOURCE
#include <liburing.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int c,char**v){ int n=c>2?atoi(v[2]):400,ok=0,no=0; struct io_uring r; io_uring_queue_init(16,&r,c>3&&!strcmp(v[3],"plain")?0:IORING_SETUP_IOPOLL); int fd=open(v[1],O_RDONLY|O_DIRECT); char*b; posix_memalign((void**)&b,4096,4096);
  for(int i=0;i<n;i++){struct io_uring_sqe*s=io_uring_get_sqe(&r);io_uring_prep_read(s,fd,b,4096,i*4096);io_uring_submit(&r);struct io_uring_cqe*q;io_uring_wait_cqe(&r,&q);ok+=q->res==4096;no+=q->res==-95;io_uring_cqe_seen(&r,q);} printf("%d ok, %d EOPNOTSUPP\n",ok,no); }
