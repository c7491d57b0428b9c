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

#define IOTRAIL_MAX_CPUS 1024 /* power of two: it masks an index; `open` refuses a larger machine */

/* The kernel's own interrupt vectors that have tracepoints. */
enum vector {
	VEC_TIMER = 0,
	VEC_RESCHED,
	VEC_CALL_SINGLE,
	VEC_CALL_MANY,
	VEC_IRQ_WORK,
	VEC_PLATFORM,
	VEC_UNTRACED_TIMER, /* a timer's interrupt without a tracepoint of its own */
	VEC_MAX = 8,
};

#define SOFTIRQ_MAX 16 /* the kernel has 10; power of two: it masks an index */

/* How a completion was posted, as observed; Rust names the delivery path (`path/delivery.rs`). */
enum carrier {
	BY_RUN_IN_SYSCALL = 0, /* task work inside system call `nr`; slept = 0 */
	BY_RUN_AFTER_SLEEP,    /* the same, after a sleep in io_uring_enter's wait; `waker` ended it */
	BY_RUN_AT_EXIT,        /* task work at the exit of system call `nr` */
	BY_RUN_AT_RETURN,      /* task work on return from an interrupt or exception: `entry`, and line `nr` */
	BY_IRQ,                /* in the handler of interrupt line `nr` (native aio) */
	BY_SOFTIRQ,            /* in softirq `nr`; `waker` is the interrupt before it, if it must have raised it */
	BY_OTHER,              /* in a thread that is neither a kernel worker nor traced */
	BY_KWORKER,            /* by a kernel worker (native aio) */
	BY_SUBMITTER,          /* by the submitting thread itself (native aio) */
	/* Only in a request's trail; per CPU these are counted in the slots. */
	BY_SUBMISSION, /* while it was being submitted */
	BY_SQPOLL,
	BY_IOWQ,
	BY_IOPOLL,
	BY_OVERFLOW, /* it found the completion queue full: it is flushed later, by an unknown path */
	BY_TEARDOWN, /* by the kernel, which tears the ring down: the program does not get it */
};

/* Source of a wake-up, or the action in the kernel entry on whose return task work ran. */
enum waker {
	WAKER_NONE = 0,
	WAKER_IRQ,    /* in the handler of interrupt line `waker_nr` */
	WAKER_VECTOR, /* in a kernel vector (enum vector) */
	WAKER_SOFTIRQ_OF_IRQ,    /* in a softirq that the handler of line `waker_nr` raised */
	WAKER_SOFTIRQ_OF_VECTOR, /* in a softirq that a kernel vector's handler raised */
	WAKER_SOFTIRQ, /* in softirq `waker_nr`, raised by something else */
	WAKER_OTHER,  /* a thread */
	/* Only for entries: */
	FIRED_PAGE_FAULT,
	FIRED_TIMER, /* a timer ended in no vector that has a tracepoint */
};

struct delivery_key {
	enum carrier carrier;
	__u32 nr;
	__u64 entry;
	enum waker waker; /* with BY_RUN_AT_RETURN: what the entry did */
	__u32 waker_nr;
	__u32 waker_cpu;
	__u32 ring; /* its number if counts are kept by ring, otherwise 0 */
};

/* A return to user mode from an interrupt: its vector (VEC_MAX for a device's) and the kernel entry that it interrupted. */
struct return_key {
	__u64 entry;
	enum vector vector;
	__u32 line; /* of a device's, + 1 */
};

#define KICK_SITES_MAX 4
#define IPI_SENDERS_MAX 2
#define ENTRY_FUNCTIONS_MAX 14

struct function_extent {
	__u64 start;
	__u64 bytes;
};

enum ipi_flag {
	IPI_RESCHED = 1, /* reschedule; otherwise a function call */
	IPI_FOR_WATCHED = 2, /* a kick or a wake-up of a traced thread; otherwise sent by a traced thread, to any target */
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
	__u64 credited; /* those in which I/O of a watched process ended, see credit.h */
	__u64 spent_ns; /* in the line's handler and in the softirqs that it raised; where `spans_timed` */
	__u64 threaded; /* those with an interrupt thread, see threaded.h */
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
	__u32 serial; /* of the line's handler: which of its runs */
	__u32 pending; /* raised, and not run since */
};

/* Action observed in a kernel entry from user mode other than a system call. */
struct fired {
	__u64 entry; /* which entry: see entry_id */
	__u64 done;  /* enum waker << 32 | line or enum vector: one word, since an interrupt may come while it is read */
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
#define OPCODE_INVALID 126 /* unknown to this kernel, which then calls the request a no-op */
#define OPCODES_AIO 96  /* native aio: IOCB_CMD_… from here on */
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
	__u64 skips; /* of these, requests that ask for no completion on success */
	__u64 completions;
	__u64 bytes; /* sum of the results that are not negative */
	__u64 errors;
	__u64 shorts;
	__u64 more;
	__u64 notifications;
	__u64 copied; /* of these, those that report it (IORING_SEND_ZC_REPORT_USAGE) */
	__u64 unposted; /* cancelled with their chain, without a completion */
	__u64 punted_asked;
	__u64 punted_would_block;
	__u64 punted_drained;
	/* Counted only in the hash, not per CPU: see op_part. */
	__u64 reporting; /* notifications whose send asked for a report of copies */
	__u64 held;    /* notifications whose send was observed at its submission, */
	__u64 held_ns; /* and the time from there to the notification: for this long the kernel held the buffer */
	__u64 messages; /* completions that a message is: of IORING_OP_MSG_RING or IORING_REGISTER_SEND_MSG_RING */
	__u64 denied;  /* refused at their submission with EACCES: by the ring's or the task's restrictions, or by a filter */
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
	__u64 waits;  /* io_uring_enter began to wait: in all, */
	__u64 waits_min; /* with a time to wait for more than the first completion (min_wait_usec), */
	__u64 waits_registered; /* with registered arguments, */
	__u64 waits_no_iowait;  /* outside of iowait, */
	__u64 waits_loop; /* and by a BPF program that drives the ring, with a sleep */
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
	__u32 sampled; /* each stands for `one_in` */
	__u32 wide;    /* each has two entries of the queue (IORING_SETUP_SQE_MIXED), and the batch is of entries */
};

/* A thread that uses a ring, by the number of the ring or of its process's use of it. */
struct ring_thread_key {
	__u32 ring;
	__u32 tid;
};

struct ring_thread {
	__u64 waits; /* number of times that io_uring_enter started to wait */
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
	__u64 rearmed; /* requests that were submitted for a file whose last one had ended with ENOBUFS, */
	__u64 unarmed_ns; /* and the time between the two */
	__u64 looks;      /* of these, those at which the number of buffers could be read, */
	__u64 available;  /* and the buffers that there were before each, summed */
	__u64 placed;     /* completions whose place in the buffer ring was found */
	__u64 unplaced;
	__u64 out_of_order;
	__u64 repeated;
	__u64 used_to; /* the end of what the last completion has of an incremental buffer */
	__u32 entries; /* of the buffer ring; 0: none */
	__u32 most;    /* before one was taken */
	__u32 least;   /* after one was taken */
	__u32 last;    /* before the last one was taken */
	__u16 head;
	__u16 position; /* the farthest */
	__u16 used;
	__u16 pad;
};

/* Counts lost because a map was full or the kernel could not allocate an entry. */
enum loss {
	LOSS_THREAD = 0, /* a thread's state: then the delivery paths of its completions are wrong, not only too low */
	LOSS_COUNT,	 /* counts by ring and opcode, and completions' carriers */
	LOSS_CALL,	 /* requests and results of native and POSIX AIO */
	LOSS_CHILD,	 /* processes that should be traced, and are not */
	LOSS_ERRNO,	 /* errors by errno */
	LOSS_INTERRUPT,	 /* interrupts, and returns from them */
	LOSS_IPI,
	LOSS_WORKER, /* io-wq workers */
	LOSS_NAME,   /* names of processes that have ended */
	LOSS_WAIT,   /* waits for completions, by thread and ring */
	LOSS_MAX,
};

/* Consecutive pending completions of one ring. */
struct segment {
	__u32 ring;
	__u32 count;
};
#define TRAILS_WAITING_MAX 512 /* completed, of one thread, waiting for their run */
#define SEGMENTS_MAX 4 /* turns between rings that one thread posts to between two runs: beyond it they are in no order, and of a fifth ring counted as the fourth's */

/* A ring and its last use on this CPU. */
struct in_use {
	__u32 ring;
	__u32 jiffy;
};
#define IN_USE_MAX 4 /* power of two: it masks an index */

/* A request issued during the submission of a chain may be any of the chain's requests. */
enum links {
	LINKED = 1,         /* it is one of a chain */
	LINKED_TO_NEXT = 2,
	LINKED_TO_LAST = 4, /* not the first one */
};

#define CAME (1u << 31)

struct cpu_slot {
	/* hot: every completion accesses these */
	enum current current;
	__u32 tid;     /* owner of the state in the next four, 0: none */
	__u64 pending; /* posted by that thread; their delivery path is unknown yet */
	__u32 waiting; /* io_uring_enter began to wait */
	__u32 slept;   /* and slept since */
	enum waker waker; /* what ended the last sleep */
	__u32 waker_nr;
	__u32 waker_cpu;
	__u32 came_with; /* its flags when it came onto this CPU, and CAME; 0: it has begun to wait since */
	__u32 came_stack; /* by what system calls moved their stack here then */
	/* More state of that thread, if requests are traced. */
	struct segment segments[SEGMENTS_MAX];
	__u32 submitted;   /* submissions since the last run or wait: at most this many can have completed inline */
	__u32 submits;     /* it has submitted */
	__u64 last_request; /* address of the last one it submitted */
	__u64 invalid;      /* the same for the last one that was refused for its opcode */
	__u32 trails_waiting;
	__u32 trails;      /* its completed trails that wait for their run: index + 1 of the last, 0: none */
	__u32 submitting;  /* the traced request being submitted: index + 1 */
	enum links links;  /* of the request that it submitted last */
	__u64 aio_submit_ns; /* while it is in io_submit: when it came, */
	__u32 aio_tail;      /* and the end of the context's ring then, + 1 */
	__u32 aio_entries;   /* the last context of native aio: events in its ring, */
	__u64 aio_context;   /* its address, */
	__u64 aio_user_id;   /* its name */
	__u32 aio_tgid;      /* in this process, */
	__u32 aio_ring;      /* its number */
	__u32 aio_epoch;     /* and the count of rings then */
	__u32 shared;        /* completions whose user data (multishot) or control block (native aio) another open request has too */
	__u64 woken_ns;    /* the last time it was woken */
	__u64 running_ns;  /* and had this CPU */
	__u64 busy_since;  /* and polled a network device in io_uring_enter; 0: it does not */
	__u64 worker_ns;   /* earliest start, by the io-wq worker here, of the work that it has just posted */
	__u64 ring_address; /* the last ring, its number and the count of rings then */
	__u32 ring;
	__u32 ring_epoch;
	__u32 ring_tgid;   /* whose use of it that is */
	__u32 spread;      /* completed trails that waited in a bucket of their own */
	__u64 last_posted; /* the request whose completion was posted last */
	__u64 unreaped;    /* followed requests of native and POSIX AIO whose block was used again, their results not seen to be reaped */
	struct ring_thread_key last_thread; /* of tid 0: none yet; as the last keys below, which other events have */
	__u64 last_thread_waits;
	__u64 running;     /* address of the current task, watched or not */
	__u32 switched;    /* context switches of this CPU */
	__u32 until_next;  /* 1 in N: number of the next request to trace; 0: none is drawn yet */
	__u32 window_since; /* jiffies; see choose.h */
	__u32 window_submits;
	struct in_use in_use[IN_USE_MAX];
	__u64 gaps; /* requests of which one in some is followed, those to `until_next` included */
	__u64 chosen_whole;   /* to be traced, by weight: 1, */
	__u64 chosen_sampled; /* or `one_in` */
	__u64 came_later; /* requests at the end of a window: none is traced */
	__u64 addresses[4]; /* temporary: see address_of */
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
	struct irq_count last_line_count; /* of line `last_irq` */
	struct op_cell ops[OP_CELLS];
	struct ring_cell rings[RING_CELLS];
	__u64 handler_since, softirq_since;
	/* context */
	__u32 watched_here;    /* a traced thread is current */
	__u32 kicks_watched;   /* the last kick requested here was for a traced thread */
	__u32 in_irq;          /* interrupt line + 1 while its handler runs */
	__u32 last_irq;        /* the line of the last handler that ran here, + 1 */
	__u32 in_vector;       /* enum vector + 1 while its handler runs */
	__u32 in_softirq;      /* softirq number + 1 while it runs */
	struct raiser raisers[SOFTIRQ_MAX]; /* who raised each softirq last */
	struct raiser raiser;  /* raiser of the one that runs */
	__u64 preempted;       /* address of the task that was preempted in a softirq, 0: none, */
	__u32 preempted_softirq; /* the softirq's number + 1 */
	struct raiser preempted_raiser; /* and who raised it */
	struct fired fired;    /* by the traced thread's last entry */
	__u64 timers_ended;    /* the moment of those that ended last here, in an interrupt without a tracepoint */
	__u64 waking;          /* address of the watched thread whose wake-up is under way here */
	__u64 stime;        /* kernel time of the current thread that is counted for a system call already, */
	__u64 stime_since;  /* with the programs of `costly_since`; */
	__u32 stime_tid;    /* whose it is */
	__u32 untraced_caller; /* the thread last found to be untraced in a system call */
	__u32 handlers;        /* serial number of the last line handler that ran here */
	__u32 unclaimed;       /* the last one in which a block request ended that cannot be attributed */
	__u32 credited[CREDITS_MAX]; /* serial numbers that are attributed already, by their low bits */
	/* counts */
	__u64 runs;
	__u64 run_batch[16]; /* runs by floor(log2(items)), the last one open-ended */
	__u64 switches;
	__u64 page_faults;
	__u64 syscalls;
	__u64 rw_calls;
	__u64 stray_calls;     /* other than io_uring_enter, of threads that submit */
	__u64 losses[LOSS_MAX];
	__u64 record_lost;     /* events that found the ring buffer full */
	__u64 no_room;         /* chosen requests that were given up */
	__u64 trails_lost;     /* followed to their end, but the ring buffer was full */
	__u64 no_completion;   /* traced, and the slot reused before a completion was observed */
	__u64 skipped;         /* the same for requests that ask for no completion on success */
	__u64 aio_unseen;      /* requests of native aio whose submission's beginning was not seen */
	__u64 posted;          /* completions, where requests are followed */
	__u64 credits;         /* see credit.h */
	__u64 costly;          /* runs of programs that cost much, see costly.rs */
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
	INTERFACE_AIO,	     /* a context of native aio; it has as many entries as events */
	INTERFACE_POSIX_AIO, /* everything that a process does through it; its address is the tgid */
};

struct ring_info {
	__u64 address;
	enum interface interface;
	__u32 tgid;
	__u32 setup_flags;
	__u32 sq_entries;
	__u32 cq_entries;
	__u8 found;   /* its creation was not observed */
	__u8 tagged;  /* resources registered with it may have completions: tags, events of zero-copy receive */
	__u16 gone;   /* it is torn down: later events are not its own */
	__u32 others; /* number of rings of that process that it represents because they had no space; 0: one */
	__u32 first_jiffy; /* times of its first and last use, as far as something was counted; 0: none */
	__u32 last_jiffy;
	__u32 of; /* another process's use of ring number - 1; 0: a ring */
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
	__u64 leader;	   /* address of its first thread, to detect a reused PID. 0: named by user space */
	__u64 whole;	   /* traced from its start: CPU time of its exited threads, */
	__u64 ran_ns;	   /* exactly, */
	__u64 user_ns;	   /* and as divided by the kernel, possibly by ticks */
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
	__u32 ring; /* number of its context */
	__u32 pad;
};

struct aio_request {
	__u64 submitted_ns; /* of the last one; 0: not observed */
	__u64 allocated_ns; /* the block layer had a request for it; this and the next three are 0 where it was not seen */
	__u64 issued_ns;    /* the first one was issued to the driver */
	__u64 ready_ns;	    /* the last one was done */
	__u64 ended_ns;
	__u64 asked_bytes;  /* 0: no plain length, or several different ones */
	__u32 tid;
	__u32 weight; /* how many it stands for; 0: it is not followed */
	__s32 fd;     /* that the program named */
	__u32 ended;  /* its delivery path is known; of this many, if several are open */
	__u16 opcode;
	__u16 more;     /* further open ones: their block was submitted again before its result was reaped */
	__u16 followed; /* of several */
	__u8 several;   /* several were open at one time: the results cannot be attributed */
	__u8 later;     /* it arrived at the end of a window */
	__u8 inlined;   /* it ended in its own io_submit */
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
	__u32 inlined; /* it ended in its own submission */
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
	__u64 starved_ns; /* the queue's, then */
	__u32 end;    /* the queue's tail after it: it is reaped once the head is there */
	__u32 ring;
	__u32 weight;
	__u32 depth;  /* completions in the queue then, including itself */
};

#define LYING_MAX 64 /* power of two: it masks an index */

/* Sampled completions of one ring in posting order. */
struct cq_backlog {
	__u64 ring_address; /* 0: free */
	__u64 rings;	    /* address of the memory that the kernel and the program share, when the first of them was posted */
	__u64 looked_ns;    /* all entries here were observed in the queue then, except those posted later */
	__u64 task;	    /* the thread that used the ring last, */
	__u64 starved_ns;   /* time for which it waited for a CPU while completions were here, */
	__u64 checked_ns;   /* up to here */
	__u64 due_ns;	    /* time at which the number of completions that a wait requested was available, */
	__u32 due_end;	    /* up to here */
	__u32 wanted_end;   /* the tail that a wait waits for, */
	__u32 wanted;	    /* if any */
	__u32 busy;	    /* locked */
	__u32 first;	    /* of `entries` */
	__u32 count;
	__u32 posted;	    /* completions eligible for sampling so far */
	__u32 thinned;	    /* number of times that half of them were dropped for lack of space */
	__u32 cq_entries;
	__u32 deepest;	    /* the maximum observed in the queue */
	__u32 tid;	    /* the thread's number; 0: unknown */
	__u32 pad;
	struct lying entries[LYING_MAX];
};

/* Outcome of one sampled completion. CLOCK_MONOTONIC. */
struct stay {
	__u64 posted_ns;
	__u64 not_yet_ns; /* the last time at which it was observed in the queue */
	__u64 gone_ns;	  /* the first time at which it was not; 0: never */
	__u64 due_ns;	  /* time from which the program, if it waited for more, had as many as requested; 0: never */
	__u64 starved_ns; /* part of its time there in which the program's thread waited for a CPU */
	__u32 ring;
	__u32 weight;
	__u32 depth;
	__u32 deepest;
	__u32 cq_entries;
	__u32 pad;
};

/* Reasons why completions could not be sampled. */
enum stay_loss {
	STAY_NO_QUEUE = 0, /* of too many rings */
	STAY_BUSY,	   /* locked by another CPU */
	STAY_DROPPED,	   /* the memory of the queue's head has changed, or its content is invalid */
	STAY_LOST,	   /* observed, but the ring buffer was full */
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
	TRAIL_LINKED = 1,    /* it is linked to the request before it, */
	TRAIL_HEAD = 4,	     /* or another request to it */
	TRAIL_THROTTLED = 2, /* blk-throttle held its first bio back, and a kernel thread queued it */
	TRAIL_WAITS_FOR_PAGE = 16, /* a buffered read that found its page being read */
	TRAIL_PARTLY_OBSERVED = 8, /* the programs of the block layer were not attached for all of its life */
};

/* One request, from submission to delivery path. Timestamps are CLOCK_MONOTONIC; 0: not observed. */
struct trail {
	__u64 request;
	__u64 task; /* of the submitter */
	__u64 user_data;
	__u64 buffer; /* destination of a read; 0: not read, see memory.bpf.c */
	__s64 offset; /* in the file; negative: it has none, or the file's own position */
	__u64 submitted_ns;
	__u64 issued_ns;
	__u64 ready_ns;
	__u64 ended_ns;
	__u64 queued_ns; /* the last time that task work was added for it */
	__u64 posted_ns;
	__u64 bio_ns; /* its first bio was queued, */
	__u64 allocated_ns; /* the block layer had a request for it, */
	__u64 punted_ns; /* it was handed to io-wq first, */
	__u64 worker_ns; /* and a worker began it last */
	__u64 woken_ns;
	__u64 running_ns;
	__u64 entry; /* as in delivery_key, which the next ones up to waker_cpu are from */
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
	__u32 asked_bytes; /* 0: no plain length */
	__u32 enter_batch; /* 0: not submitted by io_uring_enter */
	__s32 result;
	__u32 cqe_flags;
	enum waker woken_by; /* as `waker`, for any delivery path */
	__u32 woken_by_nr;
	__u32 woken_by_cpu;
	__u32 run_items;
	__u32 position; /* its place among the pending */
	__u32 next;     /* the previously completed one: index + 1 */
	__u32 serial;   /* generation of its slot: a block request may refer to an earlier request */
	__u32 bios;     /* on their way */
	__u32 block_requests;
	enum course course;
	enum punt punt;
	enum meanwhile meanwhile;
	__u32 meanwhile_cpu;
	__u32 meanwhile_tid;
	__u32 switched; /* that CPU's count then */
	__u32 switches; /* and since, at the posting; all ones: not known */
	__u16 opcode;
	__u16 skips; /* it requests no completion on success */
	__u32 weight; /* weight: the inverse of its probability to be selected */
	__u32 shots; /* earlier completions of this request (multishot) */
	enum trail_mark marks;
	__u32 site_weight; /* requests that its user stack stands for, times `weight`; 0: none was taken */
	__u64 site; /* the user stack at its submission, as in a site_key */
	char meanwhile_comm[16];
	__u64 inode; /* of the file that it went to; or the beginning of its kind's name: see FILE_ANONYMOUS */
	__u32 device; /* of its superblock, as the kernel has it */
	__u32 generation;
	__u32 file; /* type of that file (S_IFMT of its mode), and enum file_flag */
	__s32 fd;   /* the descriptor, or the index of a fixed file; meaningless for an operation without a file */
};

enum file_flag {
	FILE_SEEN = 1 << 16,	  /* the file was read */
	FILE_FIXED = 1 << 17,	  /* it was named by the index of a fixed file */
	FILE_DELETED = 1 << 18,	  /* it has no name any longer (deleted) */
	FILE_ANONYMOUS = 1 << 19, /* it has no inode of its own (eventfd, timerfd, epoll): `inode` is 8 bytes of "[eventfd]" */
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
	char name[80]; /* ends with zero; longer names are truncated */
};

enum event_kind {
	EVENT_COMPLETE = 0, /* a completion was posted; `poster` */
	EVENT_RUN,	    /* a run of task work of a thread that is not io_uring's own; `items`, `nr`, `entry`, `line` */
	EVENT_WAIT,	    /* io_uring_enter begins to wait */
	EVENT_SWITCHED_OUT, /* the thread leaves the CPU; if EVENT_ASLEEP: `nr` */
	EVENT_SWITCHED_IN,
	EVENT_WOKEN,	    /* `waker`, `waker_nr`, on `cpu`; `tid` is the woken thread's */
};

/* The thread that posted a completion. */
enum poster {
	POSTED_BY_SUBMITTER = 0, /* the thread itself, inline or by a run: the following events decide */
	POSTED_BY_SQPOLL,
	POSTED_BY_IOWQ,
	POSTED_BY_IOPOLL,
};

enum event_flag {
	EVENT_FINISHED = 1, /* the system call has its result and is about to exit */
	EVENT_LOOPED = 2,   /* a deferred run that went round its list more than once */
	EVENT_ASLEEP = 4,   /* it leaves the CPU to sleep, not because it was preempted */
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
	__u32 items; /* as the kernel reports it */
	enum event_flag flags; /* any of them together */
};

/* Number of stored functions of a sleeper's kernel stack, innermost first. */
#define SLEEP_FRAMES 32

struct sleep_stack {
	__u64 frames[SLEEP_FRAMES]; /* unused ones are 0 */
};

enum sleep_flag {
	SLEEP_DEEP = 1,	   /* uninterruptible */
	SLEEP_IO = 2,	   /* counted as waiting for I/O */
	SLEEP_SAMPLED = 4, /* a short sleep, whose stack represents several */
	SLEEP_LOCK = 8,	   /* futex(2) waits for a lock that another thread has */
};

/* Key of equivalent sleeps of one thread. */
struct sleep_key {
	__u64 stack;  /* its hash; 0: not taken */
	__u32 thread; /* its number in `thread_totals` */
	__s32 nr;     /* the system call; -1: none */
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
	__u64 ns; /* when they were read */
	__u64 ran_ns;
	__u64 queued_ns; /* ready to run, without a CPU */
	__u64 user_ns;	 /* these two by the timer tick, on most kernels */
	__u64 system_ns;
};

/* Times of a thread in states other than sleep, as observed at its switches; and its counters at both ends of the accounted time. */
struct thread_total {
	struct thread_counters began;
	struct thread_counters ended;
	__u64 running_ns;
	struct sleep_sum woken;	    /* woken, and not yet running */
	struct sleep_sum preempted; /* … */
	struct sleep_sum throttled; /* by its cgroup's CPU quota */
	__u32 tid;
	__u32 tgid;
	__u32 flags; /* PF_… */
	__u32 cpus;  /* that it may run on */
	char comm[16];
	__u32 cpu;   /* the last one */
	__u16 policy;	/* SCHED_… */
	__u16 priority; /* without boosts: 120 plus the nice value, below 100 in real time */
};

/* The thread that occupied the CPU while another thread waited for it. */
struct holder_key {
	__u32 thread; /* as in a sleep_key */
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
	THREAD_NEW, /* not yet run */
	THREAD_PREEMPTED,
	THREAD_THROTTLED,
	THREAD_ASLEEP,
};

/* State of a thread's account, in task storage. */
struct thread_account {
	__u64 since;  /* start of the present state; 0: not accounted now */
	__u64 off_ns; /* duration of its time off the CPU before the present run; a part of this was the wait for the CPU */
	__u64 ready_ns; /* the last part of this, from its wake-up; 0: the wake-up was not observed */
	__u64 woken_ns; /* its last wake-up */
	__u64 queued_ns; /* this and the next are those of `thread_counters` when it left the CPU */
	__u64 ran_ns;
	enum thread_doing doing;
	__u32 number; /* 0: not yet seen */
	__u32 closed; /* the span that its account was closed in */
	__s32 slept_in; /* the system call that it slept in last; -1: none since that one returned */
	__u32 samples;
	__u32 holder_tid; /* previous user of the CPU before the present run; HOLDER_UNSEEN: unknown */
	struct holder holder;
	__u64 stime; /* kernel time that is counted for a system call already */
	struct sleep_key sleep; /* the one under way, or the last */
	struct sleep_key last;	/* `sum` is of these, until there are others */
	__u64 site; /* the user stack of the current sleep, as in a site_key */
	__u32 site_weight; /* weight of that sleep; 0: no stack was taken */
	__u32 pad;
	__u64 sited_ns; /* its time on a CPU when that was sampled last; 0: not yet */
	struct sleep_sum sum;
	struct thread_total total;
};

#define USER_FRAMES 32
#define STUB_CALLERS 4

/* A user stack, once per distinct stack. */
struct user_stack {
	__u64 hash;
	__u64 callers[STUB_CALLERS]; /* possible return addresses of functions without frames, the innermost first; unused ones are 0 */
	__u64 frames[USER_FRAMES]; /* innermost first; unused ones are 0 */
	__u32 tgid;
	__u32 tid;
	char comm[16];
};

/* Actions at a call site. */
enum site_kind {
	SITE_SLEEPS = 0, /* in system call `nr` */
	SITE_CALLS,	 /* makes it */
	SITE_REFUSED,	 /* submits a request with opcode `nr` that is refused */
	SITE_RUNS,	 /* is on the CPU in system call `nr`, or in none: SITE_USER */
};

#define SITE_USER 0xffffffffu

struct site_key {
	__u64 stack; /* its hash; 0: it cannot be read */
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
	WAIT_EPOLL,  /* … in a user's array of struct epoll_event */
	WAIT_POLL,   /* … in the user's array of struct pollfd */
	WAIT_FUTEX,  /* … if the operation is a wait */
	WAIT_SLEEP,  /* ends with its time limit */
};

/* Counts of one system call. */
struct call_count {
	__u64 count;
	/* For calls that wait: how the waits ended. */
	__u64 completions;
	__u64 time_limits;
	__u64 signals;
	__u64 nothing;
	__u64 partial; /* of `time_limits`: with fewer completions than requested */
	__u64 results; /* of calls that do not wait: the sum of the positive ones */
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
	__s32 fd; /* -1: not known */
	__u32 events;
};

struct wake {
	__u64 count; /* of the sampled waits */
	__u32 mode;
	__u32 unused;
	char name[16]; /* the last component of its path; for a socket, the name of its protocol */
};

#endif
