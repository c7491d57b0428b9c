// No-ops, one at a time, through a ring that a thread sets up by system calls alone: what a static program does, or one in Go.
// static COUNT: prints how many were done.
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void *map(int ring, size_t bytes, off_t what)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, what);

	if (at == MAP_FAILED)
		exit(3);
	return at;
}

static void *work(void *text)
{
	long count = atol(text), done = 0;
	struct io_uring_params params = {0};
	int ring = syscall(__NR_io_uring_setup, 8, &params);

	if (ring < 0)
		exit(2);
	// Both queues are in one mapping (IORING_FEAT_SINGLE_MMAP, Linux 5.4), the array at its end.
	char *queues = map(ring, params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	struct io_uring_sqe *entries = map(ring, params.sq_entries * sizeof *entries, IORING_OFF_SQES);
	unsigned *sq_tail = (unsigned *)(queues + params.sq_off.tail), *sq_flags = (unsigned *)(queues + params.sq_off.flags);
	unsigned *cq_head = (unsigned *)(queues + params.cq_off.head), *cq_tail = (unsigned *)(queues + params.cq_off.tail);
	unsigned *array = (unsigned *)(queues + params.sq_off.array);

	for (; done < count; done++) {
		unsigned slot = *sq_tail & (params.sq_entries - 1), how = IORING_ENTER_GETEVENTS;

		memset(&entries[slot], 0, sizeof *entries);
		entries[slot].opcode = IORING_OP_NOP;
		array[slot] = slot;
		__atomic_store_n(sq_tail, *sq_tail + 1, __ATOMIC_SEQ_CST);
		if (params.flags & IORING_SETUP_SQPOLL && __atomic_load_n(sq_flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
			how |= IORING_ENTER_SQ_WAKEUP;
		if (syscall(__NR_io_uring_enter, ring, 1, 1, how, NULL, 0) < 0)
			exit(4);
		while (*cq_head == __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE))
			syscall(__NR_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
		__atomic_store_n(cq_head, *cq_head + 1, __ATOMIC_RELEASE);
	}
	printf("\"done\":%ld\n", done);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 2 || pthread_create(&thread, NULL, work, argv[1]) || pthread_join(thread, NULL))
		return 1;
	return 0;
}
