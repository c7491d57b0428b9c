// chains FILE N DEPTH: N chains of a direct 4 KiB write and a linked fdatasync, DEPTH in flight. Prints both requests per second.
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void chain(struct io_uring *ring, int fd, char *buffer)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_write(sqe, fd, buffer, 4096, (rand() % 8192) * 4096ull);
	sqe->flags |= IOSQE_IO_LINK;
	sqe->user_data = 0;
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	sqe->user_data = 1;
}

int main(int argc, char **argv)
{
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	char *buffer;
	int fd = argc == 4 ? open(argv[1], O_RDWR | O_DIRECT) : -1;

	if (fd < 0 || posix_memalign((void **)&buffer, 4096, 4096))
		return 1;
	int n = atoi(argv[2]), depth = atoi(argv[3]), started = 0, done = 0;
	memset(buffer, 7, 4096);
	if (io_uring_queue_init(depth * 2, &ring, 0))
		return 1;
	double began = now();
	while (started < depth && started++ < n)
		chain(&ring, fd, buffer);
	while (done < n) {
		unsigned head, reaped = 0;

		if (io_uring_submit_and_wait(&ring, 1) < 0)
			return 1;
		io_uring_for_each_cqe(&ring, head, cqe) {
			reaped++;
			if (cqe->res < 0)
				return 1;
			done += cqe->user_data;
			if (cqe->user_data && started < n && ++started)
				chain(&ring, fd, buffer);
		}
		io_uring_cq_advance(&ring, reaped);
	}
	printf("{\"iops\":%.1f}\n", 2 * n / (now() - began));
	return 0;
}
