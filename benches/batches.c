// batches FILE [CHANGE]: 20,000 direct reads of 4 KiB in batches of 16, and four fsyncs. CHANGE plants one deviation:
// call (one more system call per 100 reads), fsync (one more fsync), punt (every 100th read to io-wq), sqpoll (a ring with SQPOLL).
#define _GNU_SOURCE
#include <fcntl.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READS = 20000, BATCH = 16, BLOCK = 4096, BLOCKS = 4096 };

int main(int argc, char **argv)
{
	const char *change = argc > 2 ? argv[2] : "";
	int call = !strcmp(change, "call"), fsyncs = 4 + !strcmp(change, "fsync"), punt = !strcmp(change, "punt");
	struct io_uring_params params = { .flags = strcmp(change, "sqpoll") ? 0 : IORING_SETUP_SQPOLL, .sq_thread_idle = 2000 };
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	char *buffers;
	int fd = argc > 1 ? open(argv[1], O_RDWR | O_DIRECT) : -1;

	if (fd < 0 || posix_memalign((void **)&buffers, BLOCK, BATCH * BLOCK) || io_uring_queue_init_params(BATCH, &ring, &params))
		return 1;
	for (int n = 0; n < READS; n += BATCH) {
		unsigned head, reaped = 0;

		for (int i = 0; i < BATCH; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

			io_uring_prep_read(sqe, fd, buffers + i * BLOCK, BLOCK, (unsigned long long)(rand() % BLOCKS) * BLOCK);
			if (punt && (n + i) % 100 == 0)
				sqe->flags |= IOSQE_ASYNC;
			if (call && (n + i) % 100 == 0)
				getppid();
		}
		if (io_uring_submit_and_wait(&ring, BATCH) < 0)
			return 1;
		io_uring_for_each_cqe(&ring, head, cqe) {
			reaped++;
			if (cqe->res != BLOCK)
				return 1;
		}
		if (reaped != BATCH)
			return 1;
		io_uring_cq_advance(&ring, reaped);
		if (n / BATCH % (READS / BATCH / 4) == 0 && n / BATCH / (READS / BATCH / 4) < 4 && fsync(fd))
			return 1;
	}
	if (fsyncs == 5 && fsync(fd))
		return 1;
	io_uring_queue_exit(&ring);
	return 0;
}
