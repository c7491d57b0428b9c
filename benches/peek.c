// Direct reads at depth 4 by liburing, which looks at the ring's own flags. Waits in the kernel, or by looking.
// peek FILE COUNT wait|peek [FLAG...]: io_uring_setup flags by their bits' numbers.
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEPTH = 4, BLOCK = 4096, BLOCKS = 16384 };

int main(int argc, char **argv)
{
	struct io_uring_params params = {0};
	struct io_uring ring;
	struct timespec began, ended;
	int fd = open(argv[1], O_RDONLY | O_DIRECT);
	long count = atol(argv[2]), sent = 0, done = 0;
	int peeks = !strcmp(argv[3], "peek");
	char *buffers = aligned_alloc(BLOCK, DEPTH * BLOCK);

	for (int i = 4; i < argc; i++)
		params.flags |= 1u << atoi(argv[i]);
	if (fd < 0 || io_uring_queue_init_params(DEPTH, &ring, &params) < 0)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &began);
	while (done < count) {
		struct io_uring_cqe *cqe;
		int submit = 0;

		for (; sent < count && sent - done < DEPTH; sent++, submit++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
			io_uring_prep_read(sqe, fd, buffers + sent % DEPTH * BLOCK, BLOCK, sent * 7919 % BLOCKS * BLOCK);
		}
		if (submit)
			io_uring_submit(&ring);
		while (peeks ? io_uring_peek_cqe(&ring, &cqe) : io_uring_wait_cqe(&ring, &cqe))
			;
		if (cqe->res != BLOCK)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
		done++;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("riops %.1f\n", count / (ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9));
}
