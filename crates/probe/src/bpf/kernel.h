/* The kernel types that the probes read, as CO-RE shadows: only the members in use, relocated by BTF at load time. Smaller
 * than a dumped vmlinux.h, and one header serves all kernels.
 */
#ifndef IOTRAIL_KERNEL_H
#define IOTRAIL_KERNEL_H

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };
enum { BPF_F_NO_PREALLOC = 1 }; /* allowed in these programs since 6.1 (96da3f7d489d) */
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_AVAIL_DATA = 0 };

/* include/uapi/asm-generic/errno-base.h, errno.h */
#define EPOLLIN 1u
#define EPOLLET (1u << 31)
#define EINTR 4
#define EBADF 9
#define EACCES 13
#define EINVAL 22
#define EOPNOTSUPP 95
#define ETIME 62
#define ENOBUFS 105
#define ETIMEDOUT 110
#define EINPROGRESS 115
#define ECANCELED 125
#define ERESTARTSYS 512 /* up to 516: a signal interrupted the call, which may restart */
#define ERESTART_RESTARTBLOCK 516
#define MAX_ERRNO 4095

/* include/linux/sched.h */
#define PF_EXITING 0x00000004
#define PF_IO_WORKER 0x00000010 /* io-wq workers and SQPOLL threads (5.12 and later) */
#define PF_WQ_WORKER 0x00000020
#define PF_KTHREAD 0x00200000
#define TASK_UNINTERRUPTIBLE 0x00000002 /* bit of __state */
#define TASK_DEAD 0x00000080 /* bit of __state: the thread will never run again */

/* include/uapi/linux/io_uring.h */
#define IORING_SETUP_IOPOLL (1U << 0)
#define IORING_SETUP_SUBMIT_ALL (1U << 7)
#define IORING_SETUP_SQPOLL (1U << 1)
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#define IORING_SETUP_DEFER_TASKRUN (1U << 13)
#define IORING_SETUP_SQE128 (1U << 10)
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#define IORING_SETUP_SQE_MIXED (1U << 19)
#define IORING_ENTER_REGISTERED_RING (1U << 4)
#define IORING_CQE_F_BUFFER (1U << 0)
#define IORING_CQE_F_MORE (1U << 1)
#define IORING_CQE_F_BUF_MORE (1U << 4)
#define IORING_CQE_BUFFER_SHIFT 16
#define IORING_CQE_F_NOTIF (1U << 3)
#define IORING_OP_NOP 0
#define IORING_OP_READV 1
#define IORING_OP_WRITEV 2
#define IORING_OP_READ_FIXED 4
#define IORING_OP_WRITE_FIXED 5
#define IORING_OP_POLL_ADD 6
#define IORING_OP_SENDMSG 9
#define IORING_OP_RECVMSG 10
#define IORING_OP_TIMEOUT 11
#define IORING_OP_ACCEPT 13
#define IORING_OP_ASYNC_CANCEL 14
#define IORING_OP_CONNECT 16
#define IORING_OP_READ 22
#define IORING_OP_WRITE 23
#define IORING_OP_SEND 26
#define IORING_OP_RECV 27
#define IORING_OP_MSG_RING 40
#define IORING_OP_URING_CMD 46
#define IORING_OP_SEND_ZC 47
#define IORING_OP_SENDMSG_ZC 48
#define IORING_OP_READ_MULTISHOT 49
#define IORING_OP_RECV_ZC 58
#define IORING_OP_READV_FIXED 60
#define IORING_OP_WRITEV_FIXED 61
#define IORING_OP_NOP128 63
#define IORING_OP_URING_CMD128 64
#define IORING_URING_CMD_MULTISHOT (1U << 1)
#define SOCKET_URING_OP_TX_TIMESTAMP 4
#define IORING_REGISTER_FILES2 13
#define IORING_REGISTER_BUFFERS_UPDATE 16
#define IORING_REGISTER_ZCRX_IFQ 32
#define IORING_RECVSEND_BUNDLE (1U << 4)
#define IORING_SEND_VECTORIZED (1U << 5)
/* include/linux/io_uring_types.h: IOSQE_IO_DRAIN_BIT */
#define REQ_F_IO_DRAIN (1U << 1)
/* … IOSQE_FIXED_FILE_BIT */
#define REQ_F_FIXED_FILE (1U << 0)
/* … IOSQE_ASYNC_BIT */
#define REQ_F_FORCE_ASYNC (1U << 4)
/* … IOSQE_IO_LINK_BIT, IOSQE_IO_HARDLINK_BIT: the next request waits for it */
#define REQ_F_LINKS (1U << 2 | 1U << 3)
/* … IOSQE_BUFFER_SELECT_BIT */
#define REQ_F_BUFFER_SELECT (1U << 5)
/* … IOSQE_CQE_SKIP_SUCCESS_BIT; the kernel clears it if the request fails. */
#define REQ_F_CQE_SKIP (1U << 6)

/* include/uapi/linux/eventpoll.h: a poll with a single completion */
#define EPOLLONESHOT (1U << 30)

/* include/uapi/linux/stat.h, include/uapi/linux/magic.h */
#define S_IFMT 00170000
#define S_IFSOCK 0140000
#define S_IFIFO 0010000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define ANON_INODE_FS_MAGIC 0x09041934

/* include/uapi/linux/aio_abi.h */
#define IOCB_CMD_PREAD 0
#define IOCB_CMD_PWRITE 1

struct iocb {
	__u64 aio_data;
	__u32 aio_key;
	__u32 aio_rw_flags;
	__u16 aio_lio_opcode;
	__s16 aio_reqprio;
	__u32 aio_fildes;
	__u64 aio_buf;
	__u64 aio_nbytes;
	__s64 aio_offset;
};

struct io_event {
	__u64 data;
	__u64 obj;
	__s64 res;
	__s64 res2;
};

/* fs/aio.c: mapped into the program's memory, followed by the events */
struct aio_ring {
	__u32 id;
	__u32 nr;
	__u32 head;
	__u32 tail;
};

/* include/uapi/linux/io_uring.h: in memory that the program writes to. The last two bytes of the first entry are the tail. */
struct io_uring_buf {
	__u64 addr;
	__u32 len;
	__u16 bid;
	__u16 resv;
};
#define BUF_RING_TAIL 14
/* io_uring/kbuf.h: buffers may be consumed in parts. */
#define IOBL_BUF_RING 1 /* since 6.12 */
#define IOBL_INC 2

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kioctx {
	unsigned long user_id;
	unsigned int nr_events;
	unsigned int tail;
	unsigned int id;
};

struct kioctx_table {
	unsigned int nr;
	struct kioctx *table[];
};

struct mm_struct {
	unsigned long start_code, end_code;
	struct kioctx_table *ioctx_table;
};

struct thread_info {
	unsigned long flags;
	u32 status;
	u32 cpu;
};

struct cfs_rq {
	int throttle_count;
};

struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long run_delay;
};

/* include/linux/prandom.h */
struct rnd_state {
	__u32 s1, s2, s3, s4;
};

/* include/linux/rseq_types.h (6.19) */
struct rseq_event {
	__u64 all;
};

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	unsigned int flags;
	int on_cpu;
	char comm[16];
	int pid;
	int tgid;
	struct task_struct *group_leader;
	void *worker_private;
	struct mm_struct *mm;
	int nr_cpus_allowed;
	unsigned int policy;
	int static_prio;
	unsigned long nvcsw;
	u64 start_time;
	u64 utime;
	u64 stime;
	struct sched_entity se;
	struct sched_info sched_info;
	unsigned in_iowait : 1;
	bool throttled; /* since 6.18 */
	struct io_uring_task *io_uring;
	struct files_struct *files;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct pt_regs; /* arch.h */

struct irqaction {
	unsigned int flags;
	const char *name;
	struct task_struct *thread;
};

struct cpumask;

struct io_uring_task {
	const struct io_ring_ctx *last;
	struct task_struct *task; /* since 6.13 (b6f58a3f4aa8) */
	struct file *registered_rings[16];
};

struct work_struct {
	void *func;
};

struct percpu_ref {
	unsigned long percpu_count_ptr;
};

/* include/linux/percpu-refcount.h: the last reference has been dropped. */
#define PERCPU_REF_DEAD 2

/* include/linux/io_uring_types.h: head and tail of one queue, in memory that the program also writes to */
struct io_uring {
	u32 head;
	u32 tail;
};

struct io_rings {
	struct io_uring sq, cq;
};

struct io_wq_work_node {
	struct io_wq_work_node *next;
};

struct io_wq_work_list {
	struct io_wq_work_node *first;
};

struct xarray {
	void *xa_head;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

/* io_uring/kbuf.h */
struct io_buffer_list {
	struct io_uring_buf_ring *buf_ring;
	int nbufs; /* without a ring; since 6.17 */
	__u16 bgid;
	__u16 nr_entries; /* 0: not a ring; before 7.3 */
	__u16 head;
	__u16 mask;
	__u16 flags;
};

typedef struct {
	int counter;
} atomic_t;

struct io_submit_state {
	struct io_wq_work_list compl_reqs; /* requests whose completions are posted next, in this order */
};

struct io_ring_ctx {
	struct io_submit_state submit_state;
	struct xarray io_bl_xa;
	struct percpu_ref refs;
	unsigned int flags;
	unsigned int drain_active : 1;
	unsigned int int_flags; /* includes the same flags; in 7.3 but not 6.18 */
	struct io_rings *rings;
	u32 *sq_array;
	void *sq_sqes;
	unsigned int cached_sq_head;
	unsigned int cached_cq_tail;
	unsigned int sq_entries;
	unsigned int cq_entries;
	struct io_uring_reg_wait *cq_wait_arg;
	void *loop_step; /* the BPF program that drives the ring; since 7.1 */
	atomic_t cq_wait_nr; /* completions that its thread sleeps for; negative: it does not wait */
	struct task_struct *submitter_task;
	struct mm_struct *mm_account; /* of the process that created the ring */
	struct work_struct exit_work;
};

struct io_ring_ctx___before_6_10 {
	struct io_buffer_list *io_bl;
};

struct io_cqe {
	u64 user_data;
	__s32 res;
	int fd; /* until the result: the descriptor or index that the program used */
};

struct super_block {
	u32 s_dev;
	unsigned long s_magic;
};

struct inode {
	__u16 i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	unsigned int i_nlink;
	u32 i_generation;
	long long i_size;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct address_space {
	struct inode *host;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
	unsigned int f_flags;
	long long f_pos;
	struct address_space *f_mapping;
	void *private_data;
};

struct io_wq_work {
	int cancel_seq;
};

struct io_kiocb {
	struct file *file;
	u8 opcode;
	u8 iopoll_completed;
	__u16 buf_index; /* group of a request that consumes a provided buffer, until it has one */
	u64 flags;
	struct io_cqe cqe;
	struct io_ring_ctx *ctx;
	struct io_uring_task *tctx;
	struct io_wq_work_node comp_list;
	struct io_wq_work work;
};

struct io_kiocb___before_6_13 {
	struct task_struct *task;
};

struct io_worker {
	struct io_wq_work *cur_work;
};

/* A page of a zero-copy receive's area. Without a page pool, the kernel has copied the data to it. */
struct netmem_desc {
	void *pp;
};

struct net_iov {
	struct netmem_desc desc;
};

struct net_iov___before_6_17 {
	void *pp;
};

struct io_uring_cqe {
	u64 user_data;
	__s32 res;
	u32 flags;
};

struct kiocb {
	void *ki_complete;
	long long ki_pos;
	int ki_flags;
};

/* Flag of ki_flags: O_APPEND or RWF_APPEND. */
#define IOCB_APPEND 0x10

/* Flag of ki_flags: the read waits for a page that other I/O is reading (ki_waitq is valid). */
#define IOCB_WAITQ (1 << 19)

/* Members of an io_kiocb for a read or write, from its start. */
struct io_rw {
	u64 addr;
	u32 len;
};

/* The same for a send. */
struct io_sr_msg {
	u32 len; /* remaining bytes */
	u32 done_io; /* bytes already sent by partial sends */
	__u16 flags;
	struct io_kiocb *notif; /* request of the notification */
};

/* The same for a notification. */
struct io_notif_data {
	bool zc_report;
};

/* The same for a message to another ring. */
struct io_msg {
	u64 user_data; /* user data of the completion in the target ring */
};

/* The same for a command to the file's driver. */
struct io_uring_cmd {
	u32 cmd_op;
	u32 flags;
};

/* include/uapi/linux/io_uring.h */
struct io_uring_reg_wait {
	u32 min_wait_usec;
};

/* The same for a poll. */
struct io_poll {
	u32 events;
};

struct aio_kiocb {
	struct kiocb rw;
	struct kioctx *ki_ctx;
	struct io_event ki_res;
};

struct trace_event_raw_sys_enter {
	unsigned long args[6];
};

struct bio {
	struct bio *bi_next;
	void *bi_end_io;
	void *bi_private;
};

struct request {
	struct bio *bio;
	void *end_io;
	void *end_io_data;
	u64 start_time_ns;
};

struct iomap_dio {
	struct kiocb *iocb;
	bool wait_for_completion;
	struct {
		struct task_struct *waiter;
	} submit;
};

struct blkdev_dio {
	struct kiocb *iocb;
	unsigned int flags;
	atomic_t ref;
	struct bio bio;
};

#pragma clang attribute pop

/* Typed reads of any address without a helper call, since 6.2 (a35b9af4ec2c). */
extern void *bpf_rdonly_cast(const void *address, __u32 btf_id) __attribute__((section(".ksyms"), weak));

/* A typed read without a helper call, if the kernel supports it. `pointer` must be a variable: a member of one of our
 * structures would be looked up in the kernel's types.
 */
#define TYPED_READ(pointer, member)                                                                        \
	(bpf_ksym_exists(bpf_rdonly_cast) ? bpf_core_cast((pointer), typeof(*(pointer)))->member          \
					  : BPF_CORE_READ((pointer), member))

#endif
