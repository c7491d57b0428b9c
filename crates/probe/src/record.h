/* Layout of all data passed from BPF to user space. libbpf-cargo generates the Rust types (`types::…`) from the object's
 * BTF; `watch/layout.rs` asserts the sizes below, so that both sides agree.
 *
 * Aggregation: no data is passed per event. Plain counters are in one slot per CPU, without atomics, because only that CPU
 * writes there. Counts with a key are in hashes that allocate only used entries. The slot caches the counts of the last
 * keys, so most events do not access a hash.
 *
 * Recording, in addition: one `struct event` per event that decides a delivery path, through a ring buffer.
 */
#ifndef IOTRAIL_RECORD_H
#define IOTRAIL_RECORD_H

#define IOTRAIL_MAX_CPUS 1024 /* power of two: it masks an index; `open` rejects larger machines */

/* The kernel's own interrupt vectors that have tracepoints. */
enum vector {
	VEC_TIMER = 0,
	VEC_RESCHED,
	VEC_CALL_SINGLE,
	VEC_CALL_MANY,
	VEC_IRQ_WORK,
	VEC_PLATFORM,
	VEC_UNTRACED_TIMER, /* a timer interrupt without a tracepoint */
	VEC_MAX = 8,
};

#define SOFTIRQ_MAX 16 /* the kernel has 10; power of two: it masks an index */

/* How a completion was posted, as observed; Rust names the delivery path (`path/delivery.rs`). */
enum carrier {
	BY_RUN_IN_SYSCALL = 0, /* task work within system call `nr`; slept = 0 */
	BY_RUN_AFTER_SLEEP,    /* the same after a sleep in io_uring_enter's wait, which `waker` ended */
	BY_RUN_AT_EXIT,        /* task work at the exit of system call `nr` */
	BY_RUN_AT_RETURN,      /* task work on return from an interrupt or exception: `entry`, and line `nr` */
	BY_IRQ,                /* in the handler of interrupt line `nr` (native aio) */
	BY_SOFTIRQ,            /* in softirq `nr`; `waker` is the interrupt that must have raised it, if any */
	BY_OTHER,              /* in a thread that is neither a kernel worker nor traced */
	BY_KWORKER,            /* by a kernel worker (native aio) */
	BY_SUBMITTER,          /* by the submitting thread itself (native aio) */
	/* Only in a request's trail; per CPU these are counted in the slots. */
	BY_SUBMISSION, /* during its submission */
	BY_SQPOLL,
	BY_IOWQ,
	BY_IOPOLL,
	BY_OVERFLOW, /* the CQ was full: flushed later, by an unknown path */
	BY_TEARDOWN, /* posted by the kernel while it tears the ring down: the program does not get it */
};

/* Source of a wake-up, or the action in the kernel entry on whose return task work ran. */
enum waker {
	WAKER_NONE = 0,
	WAKER_IRQ,    /* in the handler of interrupt line `waker_nr` */
	WAKER_VECTOR, /* in a kernel vector (enum vector) */
	WAKER_SOFTIRQ_OF_IRQ,    /* in a softirq that the handler of line `waker_nr` raised */
	WAKER_SOFTIRQ_OF_VECTOR, /* in a softirq that a kernel vector's handler raised */
	WAKER_SOFTIRQ, /* in softirq `waker_nr`, raised otherwise */
	WAKER_OTHER,  /* a thread */
	/* Only for entries: */
	FIRED_PAGE_FAULT,
	FIRED_TIMER, /* a timer expired in an interrupt without a tracepoint */
};

struct delivery_key {
	enum carrier carrier;
	__u32 nr;
	__u64 entry;
	enum waker waker; /* with BY_RUN_AT_RETURN: the action in the entry */
	__u32 waker_nr;
	__u32 waker_cpu;
	__u32 ring; /* ring number if counts are kept by ring, otherwise 0 */
};

/* A return to user mode from an interrupt: its vector (VEC_MAX for a device's) and the kernel entry that it interrupted. */
struct return_key {
	__u64 entry;
	enum vector vector;
	__u32 line; /* line of a device's interrupt, + 1 */
};

#define KICK_SITES_MAX 4
#define IPI_SENDERS_MAX 2
#define ENTRY_FUNCTIONS_MAX 14

struct function_extent {
	__u64 start;
	__u64 bytes;
};

enum ipi_flag {
	IPI_RESCHED = 1, /* a reschedule IPI; otherwise a function call IPI */
	IPI_FOR_WATCHED = 2, /* kicks or wakes a traced thread; otherwise a traced thread sent it, to any target */
};

struct ipi_key {
	__u64 site;
	__u32 to_cpu;
	enum ipi_flag flags;
	__u32 from_cpu;
	__u32 pad;
};

/* A line's counts on one CPU, which only that CPU writes. */
struct irq_key {
	__u32 line;
	__u32 cpu;
};

struct vector_count {
	__u64 count;
	__u64 on_watched;
};

struct irq_count {
	__u64 count;
	__u64 on_watched;
	__u64 credited; /* interrupts in which I/O of a traced process ended, see credit.h */
	__u64 spent_ns; /* in the line's handler and the softirqs that it raised; if `spans_timed` */
	__u64 threaded; /* interrupts with an IRQ thread, see threaded.h */
};

/* The handler run on whose behalf a thread works. */
struct handler_run {
	__u32 line; /* + 1 */
	__u32 serial;
	__u32 cpu;
};

/* The interrupt whose handler raised a softirq. At most one of the first two is not 0. */
struct raiser {
	__u32 irq;    /* interrupt line + 1 */
	__u32 vector; /* enum vector + 1 */
	__u32 serial; /* serial number of the handler run */
	__u32 pending; /* raised, but not run yet */
};

/* Action observed in a kernel entry from user mode other than a system call. */
struct fired {
	__u64 entry; /* identifies the entry: see entry_id */
	__u64 done;  /* enum waker << 32 | line or enum vector: a single word, since an interrupt may arrive during a read */
};

#define CREDITS_MAX 16 /* power of two: it masks an index */

/* Kind of the current thread, as observed. */
enum current {
	CURRENT_UNSEEN = 0, /* not traced, or its switch-in was missed: check the task */
	CURRENT_SUBMITTER,  /* a traced thread of the program */
	CURRENT_HELPER,     /* an SQPOLL thread or io-wq worker of a traced process */
};

/* Rings and their counts. */
#define OPCODES_MAX 128
#define OPCODE_NONE 127 /* a completion that cannot be attributed to a request */
#define OPCODE_INVALID 126 /* unknown to this kernel, which reports the request as a no-op */
#define OPCODES_AIO 96  /* native aio: IOCB_CMD_… + this */
#define AIO_CMDS 16
#define OPCODES_POSIX_AIO 112
enum posix_opcode {
	POSIX_AIO_READ = OPCODES_POSIX_AIO,
	POSIX_AIO_WRITE,
	POSIX_AIO_FSYNC,
};

/* The functions of POSIX AIO: the cookies of their probes. */
enum posix_function {
	FUNCTION_AIO_READ = 0,
	FUNCTION_AIO_WRITE,
	FUNCTION_AIO_FSYNC,
	FUNCTION_LIO_LISTIO,
	FUNCTION_AIO_RETURN,
};

struct op_count {
	__u64 requests;
	__u64 skips; /* of these, requests with IOSQE_CQE_SKIP_SUCCESS */
	__u64 completions;
	__u64 bytes; /* sum of the non-negative results */
	__u64 errors;
	__u64 shorts;
	__u64 more;
	__u64 notifications;
	__u64 copied; /* of these, the ones that report a copy (IORING_SEND_ZC_REPORT_USAGE) */
	__u64 unposted; /* cancelled with their chain, without a completion */
	__u64 punted_asked;
	__u64 punted_would_block;
	__u64 punted_drained;
	/* Counted only in the hash, not per CPU: see op_part. */
	__u64 reporting; /* notifications of sends that requested a copy report */
	__u64 held;    /* notifications of sends whose submission was observed */
	__u64 held_ns; /* time from these submissions to the notifications, in which the kernel held the buffer */
	__u64 messages; /* completions that are messages: of IORING_OP_MSG_RING or IORING_REGISTER_SEND_MSG_RING */
	__u64 denied;  /* rejected at submission with EACCES: by restrictions of ring or task, or by a filter */
};

/* A CPU's part of a key's counts until the key's cell is reassigned. Most requests are counted here. */
struct op_part {
	__u64 requests;
	__u64 skips;
	__u64 completions;
	__u64 bytes;
	__u64 errors;
	__u64 shorts;
	__u64 more;
	__u64 notifications;
	__u64 copied;
	__u64 unposted;
	__u64 punted_asked;
	__u64 punted_would_block;
	__u64 punted_drained;
};

/* Counts of a ring that have no opcode. */
struct ring_count {
	__u64 inlined;
	__u64 sqpoll;
	__u64 iowq;
	__u64 iopoll;
	__u64 overflows;
	__u64 unseen; /* reaped without an observed end (native aio) */
	__u64 waits;  /* waits begun in io_uring_enter */
	__u64 waits_min; /* of these, with min_wait_usec */
	__u64 waits_registered; /* with registered arguments */
	__u64 waits_no_iowait;  /* without iowait */
	__u64 waits_loop; /* by a BPF program that drives the ring, with a sleep */
};

/* Stands for rings without their own number whose process is unknown. */
#define RING_OTHERS 0xffffffffu

struct op_key {
	__u32 ring;
	__u32 opcode;
};

/* Cached counts that are not in the hashes yet. */
#define OP_CELLS 16
#define RING_CELLS 4

struct op_cell {
	struct op_key key;
	struct op_part count;
};

struct ring_cell {
	__u32 ring;
	__u32 used;
	struct ring_count count;
};

/* Requests by the number that their io_uring_enter was asked to submit. */
struct batch_key {
	__u32 ring;
	__u32 batch;
	__u32 sampled; /* each represents `one_in` */
	__u32 wide;    /* each occupies two SQ entries (IORING_SETUP_SQE_MIXED), and the batch counts entries */
};

/* A thread that uses a ring, by the number of the ring or of its process's use of it. */
struct ring_thread_key {
	__u32 ring;
	__u32 tid;
};

struct ring_thread {
	__u64 waits; /* number of waits begun in io_uring_enter */
	char comm[16];
};

struct buffer_key {
	__u32 ring;
	__u32 group;
};

/* Provided buffers of a group. Values that are not sums come from the posting thread: they may be inconsistent if several
 * threads post to the ring.
 */
struct buffer_count {
	__u64 taken;
	__u64 enobufs;
	__u64 rearmed; /* requests submitted for a file whose previous request failed with ENOBUFS */
	__u64 unarmed_ns; /* time between the failures and these submissions */
	__u64 looks;      /* checks that could read the number of buffers */
	__u64 available;  /* sum of the buffers available before these checks */
	__u64 placed;     /* completions whose buffer ring position was found */
	__u64 unplaced;
	__u64 out_of_order;
	__u64 repeated;
	__u64 used_to; /* end of the last completion's data in an incremental buffer */
	__u32 entries; /* size of the buffer ring; 0: not a ring */
	__u32 most;    /* maximum number of buffers before consuming one */
	__u32 least;   /* minimum number of buffers after consuming one */
	__u32 last;    /* before the last one was consumed */
	__u16 head;
	__u16 position; /* furthest consumed position */
	__u16 used;
	__u16 pad;
};

struct armed_key {
	__u32 ring;
	__s32 fd; /* of a registered file: ~slot */
};

/* A request that ended although the program did not cancel it: multishot, or one without a buffer. */
struct disarmed {
	__u64 ns;
	__u32 opcode;
	__s32 result;
};

/* Counts lost because a map was full or the kernel could not allocate an entry. */
enum loss {
	LOSS_THREAD = 0, /* thread state: the delivery paths of the thread's completions are wrong, not just too low */
	LOSS_COUNT,	 /* counts by ring and opcode, and completions by delivery path */
	LOSS_CALL,	 /* requests and results of native and POSIX AIO */
	LOSS_CHILD,	 /* child processes that should be traced */
	LOSS_ERRNO,	 /* errors by errno */
	LOSS_INTERRUPT,	 /* interrupts and returns from interrupts */
	LOSS_IPI,
	LOSS_WORKER, /* io-wq workers */
	LOSS_NAME,   /* names of exited processes */
	LOSS_WAIT,   /* waits for completions, by thread and ring */
	LOSS_MAX,
};

/* Consecutive pending completions of one ring. */
struct segment {
	__u32 ring;
	__u32 count;
};
#define TRAILS_WAITING_MAX 512 /* completed trails per thread that wait for their run */
#define SEGMENTS_MAX 4 /* further segments lose their order, and a fifth ring is counted with the fourth */

/* A ring and its last use on this CPU. */
struct in_use {
	__u32 ring;
	__u32 jiffy;
};
#define IN_USE_MAX 4 /* power of two: it masks an index */

/* A request issued during the submission of a chain may be any of the chain's requests. */
enum links {
	LINKED = 1,         /* part of a chain */
	LINKED_TO_NEXT = 2,
	LINKED_TO_LAST = 4, /* not the chain's first */
};

#define CAME (1u << 31)

struct cpu_slot {
	/* hot: every completion accesses these */
	enum current current;
	__u32 tid;     /* thread whose state the next four fields contain; 0: none */
	__u64 pending; /* posted by that thread, with an undecided delivery path */
	__u32 waiting; /* a wait in io_uring_enter has begun */
	__u32 slept;   /* the thread has slept in this wait */
	enum waker waker; /* waker of the last sleep */
	__u32 waker_nr;
	__u32 waker_cpu;
	__u32 came_with; /* thread flags at its switch-in on this CPU, and CAME; 0: a wait has begun since */
	__u32 came_stack; /* system-call stack offset at that switch-in */
	/* More state of that thread, if requests are traced. */
	struct segment segments[SEGMENTS_MAX];
	__u32 submitted;   /* submissions since the last run or wait: an upper bound of inline completions */
	__u32 submits;     /* the thread has submitted requests */
	__u64 last_request; /* address of its last submitted request */
	__u64 invalid;      /* address of the last request rejected because of its opcode */
	__u32 trails_waiting;
	__u32 trails;      /* completed trails that wait for their run: index + 1 of the last; 0: none */
	__u32 submitting;  /* traced request being submitted: index + 1 */
	enum links links;  /* chain state of its last submitted request */
	__u64 aio_submit_ns; /* entry time of the current io_submit call */
	__u32 aio_tail;      /* end of the context's event ring at that time, + 1 */
	__u32 aio_entries;   /* cached native aio context: number of events in its ring */
	__u64 aio_context;   /* its address */
	__u64 aio_user_id;   /* its name */
	__u32 aio_tgid;      /* its process */
	__u32 aio_ring;      /* its number */
	__u32 aio_epoch;     /* rings_made when it was cached */
	__u32 shared;        /* completions whose user data (multishot) or control block (native aio) another request in flight shares */
	__u64 woken_ns;    /* last time the thread was woken */
	__u64 running_ns;  /* last time it was switched in on this CPU */
	__u64 busy_since;  /* end of its first NAPI poll in io_uring_enter; 0: it does not busy-poll */
	__u64 worker_ns;   /* earliest start of the work that this CPU's io-wq worker has just posted */
	__u64 ring_address; /* address of the cached ring */
	__u32 ring;
	__u32 ring_epoch;
	__u32 ring_tgid;   /* process whose use of the ring is cached */
	__u32 spread;      /* completed trails that waited in another bucket */
	__u64 last_posted; /* request whose completion was posted last */
	__u64 unreaped;    /* traced native and POSIX AIO requests whose control block was reused before an observed reap */
	struct ring_thread_key last_thread; /* tid 0: none yet; like the last keys below, which other events use */
	__u64 last_thread_waits;
	__u64 running;     /* address of the current task, traced or not */
	__u32 switched;    /* context switches of this CPU */
	__u32 until_next;  /* 1 in N: requests until the next traced one; 0: not drawn yet */
	__u32 window_since; /* jiffies; see choose.h */
	__u32 window_submits;
	struct in_use in_use[IN_USE_MAX];
	__u64 gaps; /* requests in the sampled mode, including those up to `until_next` */
	__u64 chosen_whole;   /* selected requests of weight 1 */
	__u64 chosen_sampled; /* selected requests of weight `one_in` */
	__u64 came_later; /* requests at the end of a window, none of which is selected */
	__u64 addresses[4]; /* scratch space: see address_of */
	__u64 sqpoll;
	__u64 iowq;
	__u64 iopoll;
	__u64 inlined;
	/* The last key of each kind, and its counts that are not in the hash yet. Most events repeat the previous key. */
	struct delivery_key last_delivery;
	__u64 last_delivery_count;
	struct ipi_key last_ipi;
	__u64 last_ipi_count;
	struct return_key last_return;
	__u64 last_return_count;
	struct irq_count last_line_count; /* counts of line `last_irq` */
	struct op_cell ops[OP_CELLS];
	struct ring_cell rings[RING_CELLS];
	__u64 handler_since, softirq_since;
	/* context */
	__u32 watched_here;    /* a traced thread is current */
	__u32 kicks_watched;   /* the last kick requested on this CPU was for a traced thread */
	__u32 in_irq;          /* interrupt line + 1 while its handler runs */
	__u32 last_irq;        /* line of the last handler that ran on this CPU, + 1 */
	__u32 in_vector;       /* enum vector + 1 while its handler runs */
	__u32 in_softirq;      /* softirq number + 1 while it runs */
	struct raiser raisers[SOFTIRQ_MAX]; /* last raiser of each softirq */
	struct raiser raiser;  /* raiser of the running softirq */
	__u64 preempted;       /* address of the task preempted in a softirq; 0: none */
	__u32 preempted_softirq; /* number of that softirq + 1 */
	struct raiser preempted_raiser; /* raiser of that softirq */
	struct fired fired;    /* action in the traced thread's last entry */
	__u64 timers_ended;    /* expiry time of the last timers that expired in an interrupt without a tracepoint */
	__u64 waking;          /* address of the traced thread that is being woken on this CPU */
	__u64 stime;        /* kernel time of thread `stime_tid` that is already attributed to a system call */
	__u64 stime_since;  /* costly_since at that time */
	__u32 stime_tid;    /* thread of the two fields above */
	__u32 untraced_caller; /* last thread found to be untraced in a system call */
	__u32 handlers;        /* serial number of the last line handler on this CPU */
	__u32 unclaimed;       /* serial number of the last one in which an unattributable block request ended */
	__u32 credited[CREDITS_MAX]; /* serial numbers that are already attributed, by their low bits */
	/* counts */
	__u64 runs;
	__u64 run_batch[16]; /* runs by floor(log2(items)); the last bin is open-ended */
	__u64 switches;
	__u64 page_faults;
	__u64 syscalls;
	__u64 rw_calls;
	__u64 stray_calls;     /* system calls of submitting threads other than io_uring_enter */
	__u64 losses[LOSS_MAX];
	__u64 record_lost;     /* events that found the ring buffer full */
	__u64 no_room;         /* selected requests that were given up */
	__u64 trails_lost;     /* completely traced, but the ring buffer was full */
	__u64 no_completion;   /* the slot was reused before a completion was observed */
	__u64 skipped;         /* the same for requests with IOSQE_CQE_SKIP_SUCCESS */
	__u64 aio_unseen;      /* native aio requests whose submission began unobserved */
	__u64 posted;          /* completions, if requests are traced */
	__u64 credits;         /* see credit.h */
	__u64 costly;          /* runs of the costly programs, see costly.rs */
	struct vector_count vectors[VEC_MAX];
} __attribute__((aligned(64)));

/* A thread's state while it is off the CPU, and its last waker until it is switched in. */
struct thread_state {
	__u64 pending;
	__u32 waiting;
	__u32 slept;
	enum waker waker;
	__u32 waker_nr;
	__u32 waker_cpu;
	__u32 trails;
	__u32 trails_waiting;
	__u32 submitted;
	__u32 submits;
	__u32 submitting;
	__u32 aio_tail;
	__u32 pad;
	__u64 aio_submit_ns;
	__u64 woken_ns;
	struct fired fired;
	struct segment segments[SEGMENTS_MAX];
};

/* Kind of a numbered object: rings and contexts share the numbering. */
enum interface {
	INTERFACE_IO_URING = 0,
	INTERFACE_AIO,	     /* a native aio context; its entries are events */
	INTERFACE_POSIX_AIO, /* all POSIX AIO of a process; the address is the tgid */
};

struct ring_info {
	__u64 address;
	enum interface interface;
	__u32 tgid;
	__u32 setup_flags;
	__u32 sq_entries;
	__u32 cq_entries;
	__u8 found;   /* it existed before the trace */
	__u8 tagged;  /* its registered resources may post completions: tags, zero-copy receive events */
	__u16 gone;   /* it was torn down: later events belong to another ring */
	__u32 others; /* number of the process's rings without a number that it represents; 0: it is one ring */
	__u32 first_jiffy; /* times of its first and last counted use; 0: none */
	__u32 last_jiffy;
	__u32 of; /* number + 1 of the ring of which this is another process's use; 0: a ring */
	char comm[16];
};

/* Opcode base under which io_uring_register calls are counted by errno (0: none); the operation is added. */
#define REGISTER_OPS 0x8000

struct errno_key {
	__u32 ring;
	__u16 opcode;
	__u16 number;
};

struct process_info {
	char comm[16];
	__u64 executed_ns; /* time of its exec, CLOCK_MONOTONIC; 0: not observed */
	__u64 leader;	   /* address of its first thread, to detect a reused PID; 0: added by user space */
	__u64 whole;	   /* traced from its start; the next three are CPU time of its exited threads */
	__u64 ran_ns;	   /* exact */
	__u64 user_ns;	   /* as split by the kernel, possibly by ticks */
	__u64 system_ns;
};

/* An exited traced process. */
struct ended {
	char comm[16];
	__u64 executed_ns;
	__u64 ended_ns;
	__u32 tgid;
	__u32 pad;
};

/* An exited SQPOLL thread. Record kinds in the ring buffer differ in size. */
struct sq_ended {
	__u64 ran_ns;
	__u64 started_ns; /* CLOCK_MONOTONIC */
	__u64 ended_ns;
	__u64 sleeps; /* voluntary context switches, without its exit */
	__u32 tid;
	__u32 tgid;
	__u64 pad;
};

/* A request of native or POSIX AIO, by the program's address of its control block; kept from submission until its result is reaped. */
#define AIO_REQUESTS_MAX 65536 /* fs.aio-max-nr's default */

struct aio_key {
	__u64 block;
	__u32 ring; /* number of the context */
	__u32 pad;
};

struct aio_request {
	__u64 submitted_ns; /* submission time of the last one; 0: not observed */
	__u64 allocated_ns; /* the block layer allocated a request; this and the next three are 0 if unobserved */
	__u64 issued_ns;    /* the first block request was issued to the driver */
	__u64 ready_ns;	    /* the last block request was done */
	__u64 ended_ns;
	__u64 asked_bytes;  /* 0: not a plain length, or several different ones */
	__u32 tid;
	__u32 weight; /* number of requests that it represents; 0: not traced */
	__s32 fd;     /* descriptor that the program used */
	__u32 ended;  /* number of requests whose delivery path is known, if several are in flight */
	__u16 opcode;
	__u16 more;     /* further requests in flight: the control block was submitted again before its result was reaped */
	__u16 followed; /* of several requests: number of traced ones */
	__u8 several;   /* several were in flight: results cannot be attributed */
	__u8 later;     /* submitted at the end of a window */
	__u8 inlined;   /* completed in its own io_submit */
};

/* Timestamps of a traced aio request. CLOCK_MONOTONIC. */
struct reaped {
	__u64 submitted_ns;
	__u64 reaped_ns;
	__u64 allocated_ns; /* as in aio_request */
	__u64 issued_ns;
	__u64 ready_ns;
	__u64 ended_ns;
	__s64 result;
	__u32 ring;
	__u32 tgid;
	__u32 opcode;
	__u32 weight;
	__s32 fd;
	__u32 inlined; /* completed during its own submission */
};

/* All registered buffers of a ring were unregistered. */
struct unregistered {
	__u64 ns; /* CLOCK_MONOTONIC */
	__u32 ring;
	__u32 pad;
};

/* A sampled completion in a ring's CQ, until the program reaps it (reap.h). */
struct lying {
	__u64 posted_ns;
	__u64 starved_ns; /* starved_ns of the queue at posting */
	__u32 end;    /* CQ tail after it: reaped once the head is there */
	__u32 ring;
	__u32 weight;
	__u32 depth;  /* completions in the CQ at its posting, including itself */
};

#define LYING_MAX 64 /* power of two: it masks an index */

/* Sampled completions of one ring in posting order. */
struct cq_backlog {
	__u64 ring_address; /* 0: free */
	__u64 rings;	    /* address of the shared ring memory when the first of them was posted */
	__u64 looked_ns;    /* time when all entries were seen in the CQ, except those posted later */
	__u64 task;	    /* the thread that used the ring last */
	__u64 starved_ns;   /* time for which it waited for a CPU while completions were queued */
	__u64 checked_ns;   /* time up to which this is accounted */
	__u64 due_ns;	    /* time when a wait had as many completions as it requested */
	__u32 due_end;	    /* completions up to this CQ tail were complete for the wait at due_ns */
	__u32 wanted_end;   /* CQ tail that a wait is waiting for */
	__u32 wanted;	    /* 1: a wait for several completions is in progress */
	__u32 busy;	    /* locked */
	__u32 first;	    /* index of the first of `entries` */
	__u32 count;
	__u32 posted;	    /* eligible completions so far */
	__u32 thinned;	    /* number of times that half of them were dropped because the queue was full */
	__u32 cq_entries;
	__u32 deepest;	    /* maximum number seen in the CQ */
	__u32 tid;	    /* TID of the thread; 0: unknown */
	__u32 pad;
	struct lying entries[LYING_MAX];
};

/* Outcome of one sampled completion. CLOCK_MONOTONIC. */
struct stay {
	__u64 posted_ns;
	__u64 not_yet_ns; /* last time at which it was seen in the CQ */
	__u64 gone_ns;	  /* first time at which it was gone; 0: never */
	__u64 due_ns;	  /* time when a program that waited for more had as many as requested; 0: never */
	__u64 starved_ns; /* part of its time in the CQ in which the program's thread waited for a CPU */
	__u32 ring;
	__u32 weight;
	__u32 depth;
	__u32 deepest;
	__u32 cq_entries;
	__u32 pad;
};

/* Reasons why completions could not be sampled. */
enum stay_loss {
	STAY_NO_QUEUE = 0, /* too many rings */
	STAY_BUSY,	   /* another CPU held the lock */
	STAY_DROPPED,	   /* the ring's memory was replaced, or the head was invalid */
	STAY_LOST,	   /* sampled, but the ring buffer was full */
	STAY_LOSS_MAX,
};

enum course {
	COURSE_DIRECT = 0,
	COURSE_BLOCK,
	COURSE_POLL,
};

enum meanwhile {
	MEANWHILE_UNSEEN = 0,
	MEANWHILE_RUNNING,
	MEANWHILE_RUNNABLE,
	MEANWHILE_SLEEPING,
};

enum punt {
	PUNT_NONE = 0,
	PUNT_ASKED,
	PUNT_WOULD_BLOCK,
	PUNT_DRAINED,
};

enum trail_mark {
	TRAIL_LINKED = 1,    /* linked to the previous request */
	TRAIL_HEAD = 4,	     /* the next request is linked to it */
	TRAIL_THROTTLED = 2, /* blk-throttle delayed its first bio, and a kernel thread queued it */
	TRAIL_WAITS_FOR_PAGE = 16, /* a buffered read that found its page under read I/O */
	TRAIL_PARTLY_OBSERVED = 8, /* the block programs were attached for only part of its life */
	TRAIL_RING_CLOSED = 32,	   /* BY_TEARDOWN, and its thread was not exiting */
};

/* One request, from submission to delivery path. Timestamps are CLOCK_MONOTONIC; 0: not observed. */
struct trail {
	__u64 request;
	__u64 task; /* task_struct of the submitter */
	__u64 user_data;
	__u64 buffer; /* destination of a read; 0: unknown, see memory.bpf.c */
	__s64 offset; /* file offset; negative: none, or the file's own position */
	__u64 submitted_ns;
	__u64 issued_ns;
	__u64 ready_ns;
	__u64 ended_ns;
	__u64 queued_ns; /* last time that task work was added for it */
	__u64 posted_ns;
	__u64 bio_ns; /* its first bio was queued */
	__u64 allocated_ns; /* the block layer allocated a request for it */
	__u64 punted_ns; /* it was first punted to io-wq */
	__u64 worker_ns; /* a worker last began it */
	__u64 woken_ns;
	__u64 running_ns;
	__u64 entry; /* as in delivery_key, like the fields up to waker_cpu */
	enum carrier carrier;
	__u32 nr;
	enum waker waker;
	__u32 waker_nr;
	__u32 waker_cpu;
	__u32 ring;
	__u32 tgid;
	__u32 tid;
	__u16 submitted_cpu;
	__u16 issued_cpu;
	__u16 ready_cpu;
	__u16 ended_cpu;
	__u16 queued_cpu;
	__u16 posted_cpu;
	__u32 asked_bytes; /* 0: not a plain length */
	__u32 enter_batch; /* 0: not submitted by io_uring_enter */
	__s32 result;
	__u32 cqe_flags;
	enum waker woken_by; /* as `waker`, but for any delivery path */
	__u32 woken_by_nr;
	__u32 woken_by_cpu;
	__u32 run_items;
	__u32 position; /* its position among the pending completions */
	__u32 next;     /* index + 1 of the previously completed one */
	__u32 serial;   /* generation of its slot: a block request may refer to an earlier request */
	__u32 bios;     /* bios in flight */
	__u32 block_requests;
	enum course course;
	enum punt punt;
	enum meanwhile meanwhile;
	__u32 meanwhile_cpu;
	__u32 meanwhile_tid;
	__u32 switched; /* context switches of that CPU at that time */
	__u32 switches; /* context switches from then until posting; all ones: unknown */
	__u16 opcode;
	__u16 skips; /* it has IOSQE_CQE_SKIP_SUCCESS */
	__u32 weight; /* inverse of the probability of its selection */
	__u32 shots; /* number of earlier completions of this request (multishot) */
	enum trail_mark marks;
	__u32 site_weight; /* number of requests that its user stack represents, times `weight`; 0: no stack */
	__u64 site; /* hash of the user stack at its submission, as in a site_key */
	char meanwhile_comm[16];
	__u64 inode; /* inode of its file, or the beginning of the kind's name: see FILE_ANONYMOUS */
	__u32 device; /* superblock's device, in the kernel's encoding */
	__u32 generation;
	__u32 file; /* file type (S_IFMT of its mode) and enum file_flag */
	__s32 fd;   /* descriptor, or index of a fixed file; meaningless for an operation without a file */
};

enum file_flag {
	FILE_SEEN = 1 << 16,	  /* the file was read */
	FILE_FIXED = 1 << 17,	  /* the program used a fixed-file index */
	FILE_DELETED = 1 << 18,	  /* deleted: it no longer has a name */
	FILE_APPENDED = 1 << 20,  /* O_APPEND moved the write from its offset to the end */
	FILE_ANONYMOUS = 1 << 19, /* without its own inode (eventfd, timerfd, epoll): `inode` is 8 bytes of "[eventfd]" */
};

/* Identity of a file; inode numbers may be reused. */
struct file_key {
	__u64 inode;
	__u32 device;
	__u32 generation;
};

/* The last component of a file's name, once per file. */
struct file_name {
	struct file_key key;
	char name[80]; /* NUL-terminated; longer names are truncated */
};

enum event_kind {
	EVENT_COMPLETE = 0, /* a completion was posted; `poster` */
	EVENT_RUN,	    /* a task work run of a thread other than io_uring's own; `items`, `nr`, `entry`, `line` */
	EVENT_WAIT,	    /* io_uring_enter begins to wait */
	EVENT_SWITCHED_OUT, /* the thread is switched out; with EVENT_ASLEEP: `nr` */
	EVENT_SWITCHED_IN,
	EVENT_WOKEN,	    /* `waker`, `waker_nr`, on `cpu`; `tid` is the woken thread's */
};

/* The thread that posted a completion. */
enum poster {
	POSTED_BY_SUBMITTER = 0, /* the thread itself, inline or in a run: later events decide */
	POSTED_BY_SQPOLL,
	POSTED_BY_IOWQ,
	POSTED_BY_IOPOLL,
};

enum event_flag {
	EVENT_FINISHED = 1, /* the system call has its result and is about to exit */
	EVENT_LOOPED = 2,   /* a deferred run that processed its list more than once */
	EVENT_ASLEEP = 4,   /* switched out to sleep, not preempted */
};

struct event {
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 entry;   /* return address of the outermost entry */
	__u32 cpu;
	__u32 tid;
	enum event_kind kind;
	enum poster poster;
	enum waker waker;
	__u32 waker_nr;
	__s32 nr;    /* system call number of the outermost entry; negative: an interrupt or exception */
	__u32 line;  /* line of the last handler that ran on this CPU, + 1 */
	__u32 items; /* as reported by the kernel */
	enum event_flag flags; /* a combination of flags */
};

/* Number of stored functions of a sleeper's kernel stack, innermost first. */
#define SLEEP_FRAMES 32

struct sleep_stack {
	__u64 frames[SLEEP_FRAMES]; /* unused ones are 0 */
};

enum sleep_flag {
	SLEEP_DEEP = 1,	   /* uninterruptible */
	SLEEP_IO = 2,	   /* counted as iowait */
	SLEEP_SAMPLED = 4, /* a short sleep, whose stack represents several */
	SLEEP_LOCK = 8,	   /* futex(2) waits for a lock that another thread holds */
};

/* Key of equivalent sleeps of one thread. */
struct sleep_key {
	__u64 stack;  /* stack hash; 0: not read */
	__u32 thread; /* number in `thread_totals` */
	__s32 nr;     /* system call; -1: none */
	enum sleep_flag flags;
	__u32 unused;
};

struct sleep_sum {
	__u64 ns;
	__u64 count;
	__u64 longest_ns;
};
#define HOLDER_UNSEEN 0xffffffff

/* The kernel's own counters of a thread. */
struct thread_counters {
	__u64 ns; /* time of the reading */
	__u64 ran_ns;
	__u64 queued_ns; /* runnable without a CPU */
	__u64 user_ns;	 /* on most kernels, these two by the timer tick */
	__u64 system_ns;
};

/* Times of a thread in states other than sleep, as observed at its switches; and its counters at both ends of the accounted time. */
struct thread_total {
	struct thread_counters began;
	struct thread_counters ended;
	__u64 running_ns;
	struct sleep_sum woken;	    /* woken, but not running yet */
	struct sleep_sum preempted; /* … */
	struct sleep_sum throttled; /* throttled by its cgroup's CPU quota */
	__u32 tid;
	__u32 tgid;
	__u32 flags; /* PF_… */
	__u32 cpus;  /* number of CPUs on which it may run */
	char comm[16];
	__u32 cpu;   /* the last CPU */
	__u16 policy;	/* SCHED_… */
	__u16 priority; /* without boosts: 120 plus the nice value; below 100 for real-time */
};

/* The thread that occupied the CPU while another thread waited for it. */
struct holder_key {
	__u32 thread; /* number, as in a sleep_key */
	__u32 tid;    /* 0: the CPU was idle */
};

struct holder {
	__u64 ns;
	char comm[16];
};

/* Kernel time of one thread in one system call, by ticks. */
struct kernel_key {
	__u32 thread;
	__u32 nr;
};

/* In place of a system call's number: NAPI busy polling in io_uring_enter, from its first poll. Measured, not by ticks. */
#define KERNEL_BUSY_POLL 0xffffffffu

enum thread_doing {
	THREAD_RUNNING = 0,
	THREAD_NEW, /* has not run yet */
	THREAD_PREEMPTED,
	THREAD_THROTTLED,
	THREAD_ASLEEP,
};

/* State of a thread's account, in task storage. */
struct thread_account {
	__u64 since;  /* start of the current state; 0: not accounted now */
	__u64 off_ns; /* time off the CPU before the current run, which includes the wait for the CPU */
	__u64 ready_ns; /* the last part of it, since its wake-up; 0: the wake-up was not observed */
	__u64 woken_ns; /* time of its last wake-up */
	__u64 queued_ns; /* this and the next are those of `thread_counters` at its last switch-out */
	__u64 ran_ns;
	enum thread_doing doing;
	__u32 number; /* 0: not seen yet */
	__u32 closed; /* span in which its account was closed */
	__s32 slept_in; /* the system call in which it last slept; -1: it has returned since */
	__u32 samples;
	__u32 holder_tid; /* thread that had the CPU before the current run; HOLDER_UNSEEN: unknown */
	struct holder holder;
	__u64 stime; /* kernel time already attributed to a system call */
	struct sleep_key sleep; /* the current sleep, or the last one */
	struct sleep_key last;	/* key of `sum`, until another key replaces it */
	__u64 site; /* hash of the user stack of the current sleep, as in a site_key */
	__u32 site_weight; /* weight of that sleep; 0: no stack */
	__u32 pad;
	__u64 sited_ns; /* CPU time at its last sample; 0: not sampled yet */
	struct sleep_sum sum;
	struct thread_total total;
};

#define USER_FRAMES 32
#define STUB_CALLERS 4

/* A user stack, once per distinct stack. */
struct user_stack {
	__u64 hash;
	__u64 callers[STUB_CALLERS]; /* possible return addresses of functions without frames, innermost first; unused ones are 0 */
	__u64 frames[USER_FRAMES]; /* innermost first; unused ones are 0 */
	__u32 tgid;
	__u32 tid;
	char comm[16];
};

/* Actions at a call site. */
enum site_kind {
	SITE_SLEEPS = 0, /* sleeps in system call `nr` */
	SITE_CALLS,	 /* makes it */
	SITE_REFUSED,	 /* submits a request with opcode `nr` that is rejected */
	SITE_RUNS,	 /* is on the CPU in system call `nr`, or in none: SITE_USER */
};

#define SITE_USER 0xffffffffu

struct site_key {
	__u64 stack; /* stack hash; 0: unreadable */
	enum site_kind kind;
	__u32 nr;
};

struct site_sum {
	__u64 ns;
	__u64 count; /* estimated */
	__u64 errors;
	__u64 samples;
};

/* Events of one class on one CPU, some of which have their stacks sampled. */
struct site_class {
	__u32 since; /* jiffies */
	__u32 taken;
	__u32 until_next;
};

/* How a system call waits, as far as this determines the meaning of its result. */
enum wait_kind {
	WAIT_NONE = 0,
	WAIT_ENTER,  /* io_uring_enter(2) */
	WAIT_EVENTS, /* returns the number of events */
	WAIT_EPOLL,  /* … in a user array of struct epoll_event */
	WAIT_POLL,   /* … in a user array of struct pollfd */
	WAIT_FUTEX,  /* … if the operation is a wait */
	WAIT_SLEEP,  /* ends at its timeout */
};

/* Counts of one system call. */
struct call_count {
	__u64 count;
	/* For calls that wait: how the waits ended. */
	__u64 completions;
	__u64 time_limits;
	__u64 signals;
	__u64 nothing;
	__u64 partial; /* of `time_limits`, with fewer completions than requested */
	__u64 results; /* for calls that do not wait: the sum of the positive results */
};
#define CALLS_MAX 512 /* power of two: it masks an index */

struct call_error {
	__u32 nr;
	__u32 errno;
};

/* A descriptor that ended a wait for events. */
struct wake_key {
	__u32 nr; /* the call */
	__u32 tgid;
	__s32 fd; /* -1: unknown */
	__u32 events;
};

struct wake {
	__u64 count; /* number of sampled waits */
	__u32 mode;
	__u32 closed; /* at the last sample, the descriptor was closed, or open for another file */
	char name[16]; /* last component of its path; for a socket, its protocol's name */
};

#endif
