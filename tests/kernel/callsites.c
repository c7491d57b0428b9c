/* Three call sites that submit, fail and sleep in known proportions: 3 no-ops, 1 read of a closed descriptor and 2 sleeps per turn.
 * With a second argument, that many turns in which `computes` uses three times the CPU of `adds`.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct { int fd; unsigned *sq_tail, *sq_mask, *sq_array, *cq_head, *cq_tail, *cq_mask; struct io_uring_sqe *sqes; struct io_uring_cqe *cqes; } ring;

static void ring_open(void)
{
	struct io_uring_params p = {};
	ring.fd = syscall(SYS_io_uring_setup, 8, &p);
	if (ring.fd < 0) { perror("io_uring_setup"); exit(1); }
	size_t n = p.sq_off.array + p.sq_entries * 4, m = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	char *rings = mmap(0, n > m ? n : m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQ_RING);
	ring.sqes = mmap(0, p.sq_entries * sizeof(*ring.sqes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, IORING_OFF_SQES);
	ring.sq_tail = (void *)(rings + p.sq_off.tail); ring.sq_mask = (void *)(rings + p.sq_off.ring_mask); ring.sq_array = (void *)(rings + p.sq_off.array);
	ring.cq_head = (void *)(rings + p.cq_off.head); ring.cq_tail = (void *)(rings + p.cq_off.tail); ring.cq_mask = (void *)(rings + p.cq_off.ring_mask); ring.cqes = (void *)(rings + p.cq_off.cqes);
}
static void one(unsigned char opcode, int fd)
{
	unsigned tail = *ring.sq_tail, i = tail & *ring.sq_mask;
	memset(&ring.sqes[i], 0, sizeof(ring.sqes[i]));
	ring.sqes[i].opcode = opcode; ring.sqes[i].fd = fd; ring.sqes[i].len = 1;
	static char b[4096]; ring.sqes[i].addr = (unsigned long)b;
	ring.sq_array[i] = i;
	__atomic_store_n(ring.sq_tail, tail + 1, __ATOMIC_RELEASE);
}
static void reap(void) { *ring.cq_head = *ring.cq_tail; }
__attribute__((noinline)) void submits(void) { one(IORING_OP_NOP, -1); syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0); reap(); }
__attribute__((noinline)) void fails(void) { one(IORING_OP_READ, 999); syscall(SYS_io_uring_enter, ring.fd, 1, 1, IORING_ENTER_GETEVENTS, 0, 0); reap(); }
__attribute__((noinline)) void blocks(void) { struct timespec t = { 0, 300000 }; clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0); }
__attribute__((noinline)) void naps(void) { struct timespec t = { 0, 100000 }; nanosleep(&t, 0); }
static volatile unsigned long sum;
__attribute__((noinline)) void computes(void) { for (long n = 0; n < 3000000; n++) sum += n; }
__attribute__((noinline)) void adds(void) { for (long n = 0; n < 1000000; n++) sum += n; }
int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000;
	ring_open();
	for (int i = 0; i < n; i++) {
		submits(); submits(); submits();
		fails();
		blocks();
		naps();
	}
	for (int i = 0; argc > 2 && i < atoi(argv[2]); i++) {
		computes();
		adds();
	}
	return 0;
}
