/* A stall by name. It begins when a line comes on standard input and lasts until the next one, so that no test depends on time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct io_uring ring;

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "%s: %s\n", what, strerror(errno));
		exit(1);
	}
}

static void line(void)
{
	char c;

	while (read(0, &c, 1) == 1 && c != '\n')
		;
}

static void submit(void (*prepare)(struct io_uring_sqe *))
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	need(sqe != NULL, "a free SQE");
	prepare(sqe);
	need(io_uring_submit(&ring) == 1, "io_uring_submit");
}

static void reap(void)
{
	struct io_uring_cqe *cqe;

	need(io_uring_wait_cqe(&ring, &cqe) == 0, "io_uring_wait_cqe");
	io_uring_cqe_seen(&ring, cqe);
}

static void nop(struct io_uring_sqe *sqe)
{
	io_uring_prep_nop(sqe);
}

/* A thread that computes for 5 ms. */
static void *computes(void *unused)
{
	struct timespec used = {0};

	while (used.tv_nsec < 5000000)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	return unused;
}

static int ends[2];
static char byte;

static void of_pipe(struct io_uring_sqe *sqe)
{
	io_uring_prep_read(sqe, ends[0], &byte, 1, 0);
}

static char fifo[] = "/tmp/stalls-XXXXXX/fifo";

/* An io-wq worker waits for the other end. */
static void open_fifo(struct io_uring_sqe *sqe)
{
	io_uring_prep_openat(sqe, AT_FDCWD, fifo, O_RDONLY, 0);
	/* The first attempt, in the submission, would open it without waiting. */
	sqe->flags |= IOSQE_ASYNC;
}

static void *page;
static int zero;

/* The kernel reads the vector from memory that is not there. */
static void vector_of_page(struct io_uring_sqe *sqe)
{
	io_uring_prep_readv(sqe, zero, page, 1, 0);
}

static int file;
static atomic_int is_over, is_missed;

/* It waits for the file's lock in a worker. */
static void fallocate_file(struct io_uring_sqe *sqe)
{
	io_uring_prep_fallocate(sqe, file, 0, 0, 4096);
}

static void expiring(struct io_uring_sqe *sqe)
{
	static struct __kernel_timespec time = { .tv_nsec = 1000000 };

	io_uring_prep_timeout(sqe, &time, 0, 0);
}

/* Holds the file's lock until its page is resolved. */
static void *write_page(void *unused)
{
	need(pwrite(file, page, 4096, 0) == 4096, "pwrite");
	atomic_store(&is_over, 1);
	return unused;
}

/* What the main thread waits for. The ring is entered by its descriptor, as liburing's queue belongs to the main thread. */
static void *supply(void *unused)
{
	line();
	io_uring_prep_nop(io_uring_get_sqe(&ring));
	io_uring_submit(&ring);
	return unused;
}

/* Stops the process in a wait of its main thread, which has a second left. */
static void *stop(void *of)
{
	char name[64], text[128] = "";

	snprintf(name, sizeof(name), "/proc/self/task/%d/syscall", *(int *)of);
	line();
	for (;;) {
		int fd = open(name, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		text[n > 0 ? n : 0] = 0;
		if (atoi(text) == SYS_io_uring_enter)
			break;
		usleep(1000);
	}
	kill(getpid(), SIGSTOP);
	line();
	atomic_store(&is_over, 1);
	return NULL;
}

static void *resolve(void *of)
{
	static char zeros[4096] __attribute__((aligned(4096)));
	int fd = *(int *)of;
	struct uffd_msg message;

	need(read(fd, &message, sizeof(message)) == sizeof(message), "a page fault");
	atomic_store(&is_missed, 1);
	line();
	struct uffdio_copy copy = { .dst = (unsigned long)page, .src = (unsigned long)zeros, .len = 4096 };
	need(ioctl(fd, UFFDIO_COPY, &copy) == 0, "UFFDIO_COPY");
	return NULL;
}

static pthread_t start(void *(*of)(void *), void *with)
{
	pthread_t thread;

	need(pthread_create(&thread, NULL, of, with) == 0, "pthread_create");
	return thread;
}

/* A page that the next line resolves. */
static pthread_t missing_page(void)
{
	static int fd;
	fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };

	need(fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0, "userfaultfd");
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = { .range = { (unsigned long)page, 4096 }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	need(ioctl(fd, UFFDIO_REGISTER, &range) == 0, "UFFDIO_REGISTER");
	return start(resolve, &fd);
}

static void blocked(void)
{
	pthread_t thread = missing_page();

	zero = open("/dev/zero", O_RDONLY);
	submit(vector_of_page);
	reap();
	pthread_join(thread, NULL);
}

/* One request waits in a worker, while others complete. */
static void slow_worker(void)
{
	pthread_t thread = missing_page(), writer;
	struct io_uring_cqe *cqe;
	int left = 1;

	file = memfd_create("stalls", 0);
	writer = start(write_page, NULL);
	/* The writer has the lock when it waits for its page. */
	while (!atomic_load(&is_missed))
		usleep(1000);
	submit(fallocate_file);
	while (!atomic_load(&is_over)) {
		submit(nop);
		left++;
		usleep(1000);
		while (io_uring_peek_cqe(&ring, &cqe) == 0) {
			io_uring_cqe_seen(&ring, cqe);
			left--;
		}
	}
	while (left--)
		reap();
	pthread_join(writer, NULL);
	pthread_join(thread, NULL);
}

/* Two completions are awaited, and one is there. */
static void waits_for_two(void (*other)(struct io_uring_sqe *))
{
	struct io_uring_cqe *cqe;
	pthread_t thread;

	submit(other);
	/* It is there when the wait begins. */
	need(io_uring_wait_cqe(&ring, &cqe) == 0, "io_uring_wait_cqe");
	thread = start(supply, NULL);
	need(io_uring_wait_cqe_nr(&ring, &cqe, 2) == 0, "io_uring_wait_cqe_nr");
	pthread_join(thread, NULL);
	reap();
	reap();
}

static void late_wait(void)
{
	static int self;
	struct __kernel_timespec second = { .tv_sec = 1 };
	struct io_uring_cqe *cqe;
	pthread_t thread;

	self = syscall(SYS_gettid);
	thread = start(stop, &self);
	while (!atomic_load(&is_over))
		io_uring_wait_cqe_timeout(&ring, &cqe, &second);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	struct io_uring_params params = { 0 };

	if (!strcmp(name, "task_work_waits"))
		params.flags = IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER;
	if (!strcmp(name, "sqpoll_asleep")) {
		params.flags = IORING_SETUP_SQPOLL;
		params.sq_thread_idle = 1;
	}
	need(io_uring_queue_init_params(8, &ring, &params) == 0, "io_uring_queue_init_params");
	need(pipe(ends) == 0, "pipe");
	if (!strcmp(name, "late_wait")) {
		late_wait();
		line();
		return 0;
	}
	line();
	if (!strcmp(name, "unreaped")) {
		submit(nop);
		line();
		reap();
	} else if (!strcmp(name, "overflow")) {
		for (int i = 0; i < 20; i++)
			submit(nop);
		line();
		for (int i = 0; i < 20; i++)
			reap();
	} else if (!strcmp(name, "task_work_waits")) {
		submit(of_pipe);
		need(write(ends[1], "x", 1) == 1, "write");
		line();
		reap();
	} else if (!strcmp(name, "unsubmitted") || !strcmp(name, "sqpoll_asleep")) {
		if (params.flags)
			while (!(IO_URING_READ_ONCE(*ring.sq.kflags) & IORING_SQ_NEED_WAKEUP))
				usleep(1000);
		io_uring_prep_nop(io_uring_get_sqe(&ring));
		/* What io_uring_submit does before it enters the kernel. */
		ring.sq.sqe_head = ring.sq.sqe_tail;
		ring.sq.array[0] = 0;
		io_uring_smp_store_release(ring.sq.ktail, ring.sq.sqe_tail);
		line();
		io_uring_enter(ring.ring_fd, 1, 0, params.flags ? IORING_ENTER_SQ_WAKEUP : 0, NULL);
		reap();
	} else if (!strcmp(name, "slow_request")) {
		char *end = strrchr(fifo, '/');
		*end = 0;
		need(mkdtemp(fifo) != NULL, "mkdtemp");
		*end = '/';
		need(mkfifo(fifo, 0600) == 0, "mkfifo");
		submit(open_fifo);
		line();
		need(open(fifo, O_WRONLY) >= 0, "open");
		reap();
		unlink(fifo);
		*end = 0;
		rmdir(fifo);
	} else if (!strcmp(name, "blocked_submission")) {
		blocked();
	} else if (!strcmp(name, "slow_worker")) {
		slow_worker();
	} else if (!strcmp(name, "waits_for_more")) {
		submit(of_pipe);
		waits_for_two(nop);
		need(write(ends[1], "x", 1) == 1, "write");
		reap();
	} else if (!strcmp(name, "threads")) {
		for (int i = 0; i < 50; i++) {
			pthread_t thread;
			need(!pthread_create(&thread, NULL, computes, NULL) && !pthread_join(thread, NULL), "a thread");
		}
	} else if (!strcmp(name, "timeout_unread")) {
		waits_for_two(expiring);
	} else {
		/* Healthy: it sleeps, submits and reaps. */
		for (int i = 0; i < 500; i++) {
			struct __kernel_timespec time = { .tv_nsec = 2000000 };
			io_uring_prep_timeout(io_uring_get_sqe(&ring), &time, 0, 0);
			io_uring_prep_nop(io_uring_get_sqe(&ring));
			need(io_uring_submit(&ring) == 2, "io_uring_submit");
			reap();
			reap();
		}
	}
	/* It goes on, healthy, until its input ends. */
	line();
	return 0;
}
