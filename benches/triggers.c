/* Stalls for benches/triggers.sh that tests/kernel/stalls.c does not have: triggers MODE [FILE]. One begins when a line comes on standard input and lasts
   until the next one. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define DEPTH 16

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

/* Whether a line, or the end of the input, has come. */
static int has_line(int ms)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	if (poll(&input, 1, ms) <= 0)
		return 0;
	line();
	return 1;
}

static void reap(void)
{
	struct io_uring_cqe *cqe;
	int error;

	/* A stopped process's wait ends with EINTR. */
	do
		error = io_uring_wait_cqe(&ring, &cqe);
	while (error == -EINTR);
	need(error == 0, "io_uring_wait_cqe");
	io_uring_cqe_seen(&ring, cqe);
}

static void nop(void)
{
	io_uring_prep_nop(io_uring_get_sqe(&ring));
	need(io_uring_submit(&ring) == 1, "io_uring_submit");
}

static void *stops(void *unused)
{
	line();
	kill(getpid(), SIGSTOP);
	return unused;
}

/* The main thread waits. The process is stopped, and then a process that shares the ring posts a completion. */
static void asleep_with_completions(void)
{
	pthread_t thread;
	pid_t child = fork();

	if (!child) {
		char path[64], text[256];
		pid_t parent = getppid();
		snprintf(path, sizeof(path), "/proc/%d/stat", parent);
		for (;;) {
			int fd = open(path, O_RDONLY);
			ssize_t n = read(fd, text, sizeof(text) - 1);
			close(fd);
			text[n > 0 ? n : 0] = 0;
			char *state = strrchr(text, ')');
			if (!state || getppid() != parent)
				_exit(1);
			if (state[2] == 'T')
				break;
			usleep(1000);
		}
		io_uring_prep_nop(io_uring_get_sqe(&ring));
		io_uring_submit(&ring);
		_exit(0);
	}
	need(child > 0 && pthread_create(&thread, NULL, stops, NULL) == 0, "pthread_create");
	reap();
	pthread_join(thread, NULL);
	waitpid(child, NULL, 0);
	line();
}

/* Serves one file, mounted at `path`: its fsync takes until the next line. */
static void *serve(void *of)
{
	static char in[1 << 18];
	int fd = *(int *)of;

	for (;;) {
		struct fuse_in_header *request = (void *)in;
		struct {
			struct fuse_out_header header;
			union {
				struct fuse_init_out init;
				struct fuse_attr_out attr;
				struct fuse_open_out open;
			};
		} out;
		size_t length = 0;
		if (read(fd, in, sizeof(in)) < (ssize_t)sizeof(*request))
			return NULL;
		memset(&out, 0, sizeof(out));
		switch (request->opcode) {
		case FUSE_INIT:
			out.init.major = FUSE_KERNEL_VERSION;
			out.init.minor = FUSE_KERNEL_MINOR_VERSION;
			out.init.max_write = 4096;
			out.init.max_background = 4;
			length = sizeof(out.init);
			break;
		case FUSE_GETATTR:
			out.attr.attr.ino = 1;
			out.attr.attr.mode = S_IFREG | 0600;
			out.attr.attr.nlink = 1;
			length = sizeof(out.attr);
			break;
		case FUSE_OPEN:
			length = sizeof(out.open);
			break;
		case FUSE_FSYNC:
			line();
			break;
		case FUSE_RELEASE:
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			continue;
		default:
			out.header.error = -ENOSYS;
		}
		out.header.unique = request->unique;
		out.header.len = sizeof(out.header) + length;
		if (write(fd, &out, out.header.len) != out.header.len)
			return NULL;
	}
}

static void slow_sync(const char *path)
{
	char options[128];
	pthread_t thread;
	static int fd;
	int file;

	fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=100600,user_id=0,group_id=0", fd);
	need(fd >= 0 && mount("triggers", path, "fuse", MS_NOSUID | MS_NODEV, options) == 0, "mount");
	need(pthread_create(&thread, NULL, serve, &fd) == 0, "pthread_create");
	/* The first flush shows the kernel that there is none, which otherwise would wait for the server when the process exits. */
	close(open(path, O_RDWR));
	file = open(path, O_RDWR);
	umount2(path, MNT_DETACH);
	need(file >= 0, path);
	line();
	need(fsync(file) == 0, "fsync");
	close(file);
}

/* Direct reads at a depth; a cgroup throttles them meanwhile. */
static void throttled_io(const char *path)
{
	int file = open(path, O_RDONLY | O_DIRECT), in_flight = 0;
	char *buffers = aligned_alloc(4096, DEPTH * 4096);

	need(file >= 0, path);
	line();
	do
		while (in_flight < DEPTH) {
			io_uring_prep_read(io_uring_get_sqe(&ring), file, buffers + in_flight * 4096, 4096,
					   (rand() % 32768) * 4096L);
			need(io_uring_submit(&ring) == 1, "io_uring_submit");
			in_flight++;
		}
	while (reap(), in_flight--, !has_line(0));
	while (in_flight--)
		reap();
}

static void throttled_cpu(void)
{
	line();
	for (volatile long i = 0; i % 100000 || !has_line(0); i++)
		;
}

static void write_errors(void)
{
	int full = open("/dev/full", O_WRONLY);

	need(full >= 0, "/dev/full");
	while (!has_line(2)) {
		io_uring_prep_write(io_uring_get_sqe(&ring), full, "x", 1, 0);
		need(io_uring_submit(&ring) == 1, "io_uring_submit");
		reap();
	}
}

static void punts(void)
{
	while (!has_line(2)) {
		for (int i = 0; i < DEPTH; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
			io_uring_prep_nop(sqe);
			sqe->flags |= IOSQE_ASYNC;
		}
		need(io_uring_submit(&ring) == DEPTH, "io_uring_submit");
		for (int i = 0; i < DEPTH; i++)
			reap();
	}
}

static atomic_int is_over;

static void *sleeps(void *unused)
{
	while (!atomic_load(&is_over))
		usleep(10000);
	return unused;
}

static void when(void)
{
	pthread_t threads[8];

	line();
	for (int i = 0; i < 8; i++)
		need(pthread_create(&threads[i], NULL, sleeps, NULL) == 0, "pthread_create");
	line();
	atomic_store(&is_over, 1);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "", *path = argc > 2 ? argv[2] : "";
	struct io_uring_params params = { 0 };

	prctl(PR_SET_NAME, name);
	if (!strcmp(name, "sqpoll_spins")) {
		params.flags = IORING_SETUP_SQPOLL;
		/* As long as a stall at most, so that the thread sleeps before and after it. */
		params.sq_thread_idle = 60000;
		line();
	}
	need(io_uring_queue_init_params(DEPTH, &ring, &params) == 0, "io_uring_queue_init_params");
	if (!strcmp(name, "sqpoll_spins")) {
		nop();
		reap();
		line();
		io_uring_queue_exit(&ring);
		return 0;
	} else if (!strcmp(name, "asleep_with_c")) {
		asleep_with_completions();
	} else if (!strcmp(name, "slow_sync")) {
		slow_sync(path);
	} else if (!strcmp(name, "throttled_io")) {
		throttled_io(path);
	} else if (!strcmp(name, "throttled_cpu")) {
		throttled_cpu();
	} else if (!strcmp(name, "when_threads")) {
		when();
	} else if (!strcmp(name, "windows")) {
		/* Each line has the name of the next stall. */
		char what;
		while (read(0, &what, 1) == 1) {
			line();
			if (what == 'w')
				write_errors();
			else
				punts();
		}
	} else {
		fprintf(stderr, "unknown mode '%s'\n", name);
		return 2;
	}
	/* It goes on, healthy, until its input ends. */
	line();
	return 0;
}
