// Three call sites, inlined into main: 3 no-ops, 1 read of a closed descriptor and 2 sleeps per turn.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace store {
#define INLINE inline __attribute__((always_inline))

class Ring {
	int fd;
	unsigned *sq_tail, *sq_array, *cq_head, *cq_tail;
	io_uring_sqe *sqes;

	template <typename T> T *at(char *rings, unsigned offset) { return reinterpret_cast<T *>(rings + offset); }

public:
	Ring()
	{
		io_uring_params p {};
		fd = syscall(SYS_io_uring_setup, 8, &p);
		if (fd < 0) {
			perror("io_uring_setup");
			exit(1);
		}
		auto map = [&](size_t bytes, off_t offset) {
			return static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset));
		};
		char *rings = map(4096, IORING_OFF_SQ_RING);
		sqes = reinterpret_cast<io_uring_sqe *>(map(4096, IORING_OFF_SQES));
		sq_tail = at<unsigned>(rings, p.sq_off.tail);
		sq_array = at<unsigned>(rings, p.sq_off.array);
		cq_head = at<unsigned>(rings, p.cq_off.head);
		cq_tail = at<unsigned>(rings, p.cq_off.tail);
	}
	INLINE int next(unsigned char opcode, int of)
	{
		static char bytes[4096];
		unsigned tail = *sq_tail, i = tail & 7;
		memset(&sqes[i], 0, sizeof sqes[i]);
		sqes[i].opcode = opcode;
		sqes[i].fd = of;
		sqes[i].len = 1;
		sqes[i].addr = reinterpret_cast<unsigned long>(bytes);
		sq_array[i] = i;
		*cq_head = *cq_tail;
		__atomic_store_n(sq_tail, tail + 1, __ATOMIC_RELEASE);
		return fd;
	}
};

template <int N> struct Log {
	Ring ring;
	INLINE void submits() { syscall(SYS_io_uring_enter, ring.next(IORING_OP_NOP, -1), 1, N, IORING_ENTER_GETEVENTS, 0, 0); }
	INLINE void fails() { syscall(SYS_io_uring_enter, ring.next(IORING_OP_READ, 999), 1, N, IORING_ENTER_GETEVENTS, 0, 0); }
	INLINE void blocks()
	{
		timespec t { 0, 300000 };
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
	}
	INLINE void naps()
	{
		timespec t { 0, 100000 };
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
	}
};
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1000;
	store::Log<1> log;
	for (int i = 0; i < n; i++) {
		for (int j = 0; j < 3; j++)
			log.submits();
		log.fails();
		log.blocks();
		log.naps();
	}
}
