/* Records of a snapshot, one per thread, ring, request, socket and process; `snapshot.rs` reads them. And the state of the walk that
 * writes them.
 */
#ifndef IOTRAIL_SNAPSHOT_H
#define IOTRAIL_SNAPSHOT_H

#define FRAMES 16
#define RINGS 8       /* per process, by descriptor: with their requests they fit in the iterator's 32 KiB per task */
#define REQUESTS 32   /* per ring, in a deep reading */
#define SOCKETS 64
#define DESCRIPTORS (1 << 16)
#define LONGEST_LIST 4096

#define SAME_SLEEP 0xffff /* value of frames: the stack is that of the previous reading */

enum snapshot_kind { SNAPSHOT_THREAD = 1, SNAPSHOT_RING, SNAPSHOT_REQUEST, SNAPSHOT_DEPTH, SNAPSHOT_SOCKET, SNAPSHOT_QUEUE, SNAPSHOT_PROCESS };

/* Data to read in addition to heads and tails: stacks of sleeping threads once per sleep; all stacks, requests and lists. */
enum reading { READ_BRIEF, READ_SLEEPS, READ_DEEP };

struct snapshot_thread {
	__u32 kind;
	__u32 tid;
	__u32 tgid;
	__u32 state; /* __state; 0: running or runnable */
	__s32 call;  /* system call number; negative: none */
	__u16 frames;
	__u8 task_work; /* pending io_uring task work */
	__u8 kernels;   /* an SQPOLL thread or io-wq worker */
	__u64 arguments[5];
	__u64 asleep_ns; /* since it was last switched in; 0: unknown */
	__u64 switches;
	__u64 sleeps; /* voluntary switches */
	__u64 started_ns; /* CLOCK_MONOTONIC */
	__u64 ran_ns;
	__u64 runnable_ns; /* 0: not counted */
	__u64 last_ring; /* the ring that it entered last */
	__u64 iowait;
	__u64 faults; /* minor page faults since its creation */
	__u64 waits_on; /* private data of the file in its call's first argument: an epoll in epoll_wait */
	__u64 peer_inode; /* of the AF_UNIX socket in its call's first argument; 0: none */
	char comm[16];
	__u64 stack[FRAMES];
};

struct snapshot_ring {
	__u32 kind;
	__u32 tgid;
	__u64 ring;
	__s32 fd; /* -1: found through a thread that entered the ring */
	__u32 setup_flags;
	__u32 sq_flags;
	__u32 sq_entries;
	__u32 cq_entries;
	__u32 sq_tail;
	__u32 sq_taken; /* the kernel's own head */
	__u32 cq_head;
	__u32 cq_tail;
	__u32 submitter; /* TID, for a ring with a single issuer; 0: none */
	__u32 sq_thread;
	__u32 sq_state;
	__u8 task_work; /* DEFER_TASKRUN: pending task work */
	__u8 overflowed;
	__u16 pad;
};

/* Details of a ring, sent after the records of its requests. */
struct snapshot_depth {
	__u32 kind;
	__u32 overflow_list;
	__u64 ring;
	__u32 allocated_known;
	__u32 allocated;
	__u32 free;
	__u32 armed;
	__u64 soonest_ns; /* CLOCK_MONOTONIC; 0: none, or another clock */
	__u32 timeouts;
	__u32 pad;
};

/* A request that waits for its file to become ready. */
struct snapshot_request {
	__u32 kind;
	__u32 tgid;
	__u64 ring;
	__u64 request;
	__u64 user_data;
	__u64 file;
	__s64 references; /* references to the file; 0: unknown */
	__s32 fd;
	__u32 opcode;
	__u32 fixed;
	__u32 pad;
};

/* A TCP socket whose last, short segment waits for an acknowledgement. */
struct snapshot_socket {
	__u32 kind;
	__u32 tgid;
	__u32 fd;
	__u32 unsent;
	__u32 unacknowledged; /* packets */
	__u32 pad;
};

enum socket_queue {
	QUEUE_UNREAD,     /* bytes that a read left, which EPOLLET does not report; without an epoll, or with EPOLLONESHOT: all bytes */
	QUEUE_UNACCEPTED, /* connections of a listening socket that is in an epoll with EPOLLET */
	QUEUE_DROPPED,    /* datagrams, or connections of a listening socket, since its creation */
	QUEUE_FULL,       /* bytes in a send buffer whose size the program set, while a sender waits for space */
};

/* A socket queue that is or was full, or whose entries wait for a call. */
struct snapshot_queue {
	__u32 kind;
	__u32 tgid;
	__u32 fd;
	__u32 queue;
	__u32 amount;
	__u32 limit;   /* bytes of the buffer, or connections */
	__u32 listens;
	__u16 is_set;  /* the program set the size of the buffer */
	__u16 is_disarmed; /* EPOLLONESHOT has disabled its events */
	__u64 epoll;   /* private data of its file; 0: the socket is in none */
	__u64 file;
};

struct snapshot_process {
	__u32 kind;
	__u32 tgid;
	__u32 tcp_sockets;
	__u32 held_sockets;
	__u32 throttled_bios; /* bios of its cgroup queued by blk-throttle */
	__u32 pad;
	__u64 quota_ns; /* time throttled by its cgroup's CPU quota, summed over CPUs */
	__u64 exited_ns; /* CPU time of its exited threads */
};

/* A thread on the machine, traced or not. */
struct survey_thread {
	__u32 tid;
	__u32 tgid;
	__u32 cpu;
	__u16 asynchronous; /* it has used io_uring or native aio */
	__u16 kernels;
	__u64 ran_ns;
	char comm[16];
};

/* State of a walk over a list or table. */
struct walk {
	struct seq_file *seq;
	__u64 at;   /* address of the next element */
	__u64 end;
	__u64 node;
	__u64 ring;
	__u64 files;
	__u64 operations[2];
	__u64 soonest_ns;
	__u32 found;
	__u32 written;
	__u32 sockets;
	__u32 queues;
	__u32 tgid;
	__u32 deep; /* also read lists and requests */
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct list_head {
	struct list_head *next;
};

struct hlist_node {
	struct hlist_node *next;
};

struct hlist_head {
	struct hlist_node *first;
};

struct llist_node {
	struct llist_node *next;
};

struct llist_head {
	struct llist_node *first;
};

typedef struct {
	long counter;
} atomic_long_t;

struct file_ref {
	atomic_long_t refcnt;
};

struct file___held {
	void *f_op;
	void *private_data;
	struct hlist_head *f_ep;
	atomic_long_t f_count; /* before 6.13: number of references */
	struct file_ref f_ref; /* since 6.13: references minus one */
};

#pragma clang attribute pop

#endif
