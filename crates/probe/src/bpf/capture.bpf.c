/* Captures a program's requests and calls on its rings and files, one record each, for a recording to replay. A separate
 * object, loaded only for recordings; it shares the other object's map of traced processes.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../record.h"
#include "arch.h"
#include "held.h"
#include "descriptor.h"
#include "capture.h"

/* include/uapi/asm-generic/fcntl.h */
#define O_APPEND 02000

const volatile __u8 captured_calls[CAPTURED_CALLS] = {};

/* Never read: it exports the layouts to user space. */
const volatile struct captured_request request_layout = {};
const volatile struct captured_call call_layout = {};
const volatile struct captured_sync sync_layout = {};
const volatile struct captured_ring ring_layout = {};
const volatile struct captured_file file_layout = {};

/* Measures the probes' overhead between a system call's return and the next entry, from calls of an iotrail thread. */
#define FLOORS 1024 /* power of two: it masks an index */
__u32 calibrating_tid;
__u32 floors_taken;
__u64 floors[FLOORS];

__u64 lost;
__u64 narrow_calls; /* calls in the 32-bit table, which are not captured */
__u32 rings_met;
__u32 files_met;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 32 << 20);
} captured SEC(".maps");

/* Shared from the other object. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32); /* tgid */
	__type(value, struct process_info);
} followed SEC(".maps");

struct ring_key {
	__u64 address; /* of a ring; the ID of a context */
	__u64 tgid;    /* the context's process; 0: a ring */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct ring_key);
	__type(value, __u32); /* its number + 1 */
} ring_numbers SEC(".maps");

struct open_file_key {
	__u64 inode;
	__u32 device;
	__u32 generation;
	__u32 flags;
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct open_file_key);
	__type(value, __u32); /* its number + 1 */
} file_numbers SEC(".maps");

/* Cache of each CPU's last rings. */
#define FILES_NEAR 8 /* power of two: it masks an index */

struct files_near {
	struct {
		struct open_file_key key;
		__u32 number;
	} at[FILES_NEAR];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct files_near);
} files_near SEC(".maps");

/* Which completions of a ring belong to requests with a linked successor, by position in the completion queue. */
#define RINGS_WITH_LINKS 64  /* rings with a larger number are not tracked */
#define CQ_ENTRIES_MAX 65536 /* the kernel's limit, a power of two: it masks an index */

struct link_heads {
	__u64 reaped; /* heads before `counted` */
	__u32 posted; /* position of the next completion */
	__u32 counted;
	__u64 is_used;
	__u64 is_head[CQ_ENTRIES_MAX / 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RINGS_WITH_LINKS);
	__type(key, __u32); /* the ring's number */
	__type(value, struct link_heads);
} link_heads SEC(".maps");

bool has_links;

struct thread {
	__u64 left_ns; /* end of its last captured call, including the probes; 0: none yet */
	__u64 off_ns;  /* total time off the CPU */
	__u64 out_ns;  /* time when it lost the CPU; 0: it is on a CPU */
	enum call_class class; /* class of its current call */
	union {
		struct captured_call call;
		struct captured_sync sync;
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct io_rsrc_node {
	unsigned long file_ptr;
};

struct io_rsrc_data {
	unsigned int nr;
	struct io_rsrc_node **nodes;
};

struct io_file_table___nodes {
	struct io_rsrc_data data;
};

struct io_ring_ctx___nodes {
	struct io_file_table___nodes file_table;
};

/* Before 6.13 (7029acd8a950) */
struct io_fixed_file {
	unsigned long file_ptr;
};

struct io_file_table___files {
	struct io_fixed_file *files;
};

struct io_ring_ctx___files {
	struct io_file_table___files file_table;
	unsigned int nr_user_files;
};

#pragma clang attribute pop

/* The low bits of a registered file's address are flags. */
#define FILE_ADDRESS (~7ull)

/* include/uapi/linux/io_uring.h: the used members of struct io_uring_sqe */
struct sqe {
	__u8 opcode;
	__u8 flags;
	__u16 ioprio;
	__s32 fd;
	__u64 off;
	__u64 addr;
	__u32 len;
	__u32 op_flags;
	__u64 user_data;
	__u16 buf_index;
	__u16 pad[3];
};

struct iovec {
	__u64 base;
	__u64 len;
};

#define IOV_MAX 1024

static __always_inline int lose(void)
{
	__sync_fetch_and_add(&lost, 1);
	return 0;
}

static __always_inline bool is_watched(__u32 tgid)
{
	return bpf_map_lookup_elem(&followed, &tgid);
}

struct vectors {
	__u64 at;
	__u64 bytes;
};

static int add_vector(__u32 i, struct vectors *v)
{
	struct iovec one;

	if (bpf_probe_read_user(&one, sizeof(one), (void *)(v->at + i * sizeof(one))))
		return 1;
	v->bytes += one.len;
	return 0;
}

static __noinline __u64 bytes_of_vectors(__u64 at, __u32 n)
{
	struct vectors v = { .at = at };

	bpf_loop(n < IOV_MAX ? n : IOV_MAX, add_vector, &v, 0);
	return v.bytes;
}

/* Buffer for the file record under construction. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct captured_file);
} file_met SEC(".maps");

struct place_in_path {
	__u64 dentry;
	__u64 mnt;
	__u32 bytes;
};

/* Adds path components through the mounts up to the namespace's root. */
static int add_name(__u32 i, struct place_in_path *at)
{
	__u64 in_mount = bpf_core_field_offset(struct mount, mnt);
	struct mount *mount = (void *)(at->mnt - in_mount);
	struct dentry *dentry = (void *)at->dentry;
	__u32 zero = 0, place = at->bytes;
	struct captured_file *out = bpf_map_lookup_elem(&file_met, &zero);

	if (!out || place >= PATH_BYTES)
		return 1;
	if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
		struct mount *parent = BPF_CORE_READ(mount, mnt_parent);
		if (!parent || parent == mount)
			return 1;
		at->dentry = (__u64)BPF_CORE_READ(mount, mnt_mountpoint);
		at->mnt = (__u64)parent + in_mount;
		return 0;
	}
	struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
	if (!parent || parent == dentry)
		return 1;
	barrier_var(place); /* otherwise the compiler removes a mask that the verifier needs (6.1) */
	place &= PATH_BYTES - 1;
	long n = bpf_probe_read_kernel_str(out->path + place, NAME_BYTES, BPF_CORE_READ(dentry, d_name.name));
	if (n <= 0)
		return 1;
	at->bytes += n;
	at->dentry = (__u64)parent;
	return 0;
}

#define NAMES_MAX 256

static __noinline __u32 number_file(struct file *file, struct open_file_key *key)
{
	__u32 *known = bpf_map_lookup_elem(&file_numbers, key), zero = 0;
	struct captured_file *out = bpf_map_lookup_elem(&file_met, &zero);

	if (known)
		return *known;
	if (!out)
		return lose();
	__u32 number = __sync_fetch_and_add(&files_met, 1) + 1;
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	struct place_in_path at = {
		.dentry = (__u64)BPF_CORE_READ(file, f_path.dentry),
		.mnt = (__u64)BPF_CORE_READ(file, f_path.mnt),
	};
	out->file = number;
	out->mode = BPF_CORE_READ(inode, i_mode);
	out->flags = key->flags;
	out->links = BPF_CORE_READ(inode, i_nlink);
	out->size = BPF_CORE_READ(file, f_mapping, host, i_size);
	out->magic = BPF_CORE_READ(inode, i_sb, s_magic);
	bpf_loop(NAMES_MAX, add_name, &at, 0);
	out->bytes = at.bytes;
	if (bpf_ringbuf_output(&captured, out, sizeof(*out), BPF_RB_NO_WAKEUP))
		return lose();
	/* If another CPU adds the file concurrently, the file has two numbers. */
	bpf_map_update_elem(&file_numbers, key, &number, BPF_NOEXIST);
	return number;
}

/* Number + 1 of a regular file or block device. */
static __noinline __u32 file_number(struct file *file)
{
	__u32 zero = 0;

	if (!file)
		return 0;
	struct inode *inode = TYPED_READ(file, f_inode);
	__u32 type = TYPED_READ(inode, i_mode) & S_IFMT;
	if (type != S_IFREG && type != S_IFBLK)
		return 0;
	struct super_block *sb = TYPED_READ(inode, i_sb);
	struct open_file_key key = {
		.inode = TYPED_READ(inode, i_ino),
		.device = TYPED_READ(sb, s_dev),
		.generation = TYPED_READ(inode, i_generation),
		.flags = TYPED_READ(file, f_flags),
	};
	struct files_near *near = bpf_map_lookup_elem(&files_near, &zero);
	if (!near)
		return 0;
	__u32 place = (key.inode ^ key.inode >> 3) & (FILES_NEAR - 1);
	struct open_file_key *last = &near->at[place].key;
	if (last->inode == key.inode && last->device == key.device && last->generation == key.generation &&
	    last->flags == key.flags && near->at[place].number)
		return near->at[place].number;
	__u32 number = number_file(file, &key);
	near->at[place].number = number;
	near->at[place].key = key;
	return number;
}

/* The ring's registered file at this index. */
static __always_inline struct file *registered_file(struct io_ring_ctx *ring, __u32 index)
{
	struct io_ring_ctx___nodes *nodes = (void *)ring;
	struct io_ring_ctx___files *files = (void *)ring;
	__u64 address = 0;

	if (bpf_core_field_exists(nodes->file_table.data.nodes)) {
		struct io_rsrc_node *node = NULL;
		if (index < BPF_CORE_READ(nodes, file_table.data.nr))
			bpf_probe_read_kernel(&node, sizeof(node), BPF_CORE_READ(nodes, file_table.data.nodes) + index);
		if (node)
			address = TYPED_READ(node, file_ptr);
	} else if (bpf_core_field_exists(files->file_table.files)) {
		if (index < BPF_CORE_READ(files, nr_user_files))
			bpf_probe_read_kernel(&address, sizeof(address), BPF_CORE_READ(files, file_table.files) + index);
	}
	return (struct file *)(address & FILE_ADDRESS);
}

/* Number + 1 of a new ring or context, after sending its record; 0 if memory is lacking. */
static __noinline __u32 number_new(struct ring_key *key, struct captured_ring *met)
{
	struct captured_ring *out = bpf_ringbuf_reserve(&captured, sizeof(*out), 0);

	if (!out)
		return lose();
	__u32 number = __sync_fetch_and_add(&rings_met, 1) + 1;
	*out = *met;
	out->ring = number - 1;
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
	if (bpf_map_update_elem(&ring_numbers, key, &number, BPF_ANY))
		return lose();
	return number;
}

/* `taken`: number of the ring's requests that are about to be sent. */
static __noinline __u32 number_ring(struct io_ring_ctx *ring, struct ring_key *key, __u32 taken)
{
	struct captured_ring met = {
		.sq_entries = BPF_CORE_READ(ring, sq_entries),
		.cq_entries = BPF_CORE_READ(ring, cq_entries),
		.flags = BPF_CORE_READ(ring, flags),
		.head = BPF_CORE_READ(ring, rings, cq.head),
		.submitted = BPF_CORE_READ(ring, cached_sq_head) - taken,
	};

	return number_new(key, &met);
}

static __always_inline __u32 ring_number(struct io_ring_ctx *ring, struct ring_key *key, __u32 taken)
{
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, key);

	return known ? *known : number_ring(ring, key, taken);
}

static __always_inline __u32 cq_head(struct io_ring_ctx *ring)
{
	struct io_rings *rings = TYPED_READ(ring, rings);

	return TYPED_READ(rings, cq.head);
}

/* The ring has a linked request. Earlier completions had no successor. */
static __noinline int link_met(struct io_ring_ctx *ring, __u32 number)
{
	struct link_heads *heads = bpf_map_lookup_elem(&link_heads, &number);

	if (!heads || heads->is_used)
		return 0;
	heads->posted = TYPED_READ(ring, cached_cq_tail);
	heads->counted = cq_head(ring);
	heads->is_used = 1;
	has_links = true;
	return 0;
}

static int count_head(__u32 i, struct link_heads **of)
{
	struct link_heads *heads = *of;
	__u32 at = heads->counted & (CQ_ENTRIES_MAX - 1);
	__u64 bit = 1ull << (at & 63);

	heads->counted++;
	if (heads->is_head[at / 64] & bit) {
		heads->is_head[at / 64] &= ~bit;
		heads->reaped++;
	}
	return 0;
}

static __noinline int count_heads(struct captured_call *call)
{
	struct link_heads *heads = bpf_map_lookup_elem(&link_heads, &call->ring);

	call->has_heads = heads && heads->is_used;
	if (!heads || !heads->is_used)
		return 0;
	__u32 ahead = call->head - heads->counted;
	if (ahead <= CQ_ENTRIES_MAX)
		bpf_loop(ahead, count_head, &heads, 0);
	call->heads_reaped = heads->reaped;
	return 0;
}

/* Number of a context, from the header of its event ring (fs/aio.c). The context ID is the address of the ring in the
 * program's memory, which is not mapped before the program touches it.
 */
static __always_inline __u32 context_number(__u64 user_id, __u32 entries, bool made, struct captured_call *call)
{
	struct ring_key key = { .address = user_id, .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct aio_ring ring = {};
	__u32 *known = made ? NULL : bpf_map_lookup_elem(&ring_numbers, &key);

	bpf_probe_read_user(&ring, sizeof(ring), (void *)user_id);
	if (call) {
		call->head = ring.head;
		call->flags = ring.nr;
	}
	if (known)
		return *known;
	struct captured_ring met = {
		.aio = 1,
		.sq_entries = entries ? entries : ring.nr,
	};
	return number_new(&key, &met);
}

/* Reads the SQE that the kernel has just dequeued. The program may not change it yet. */
static __always_inline bool sqe_of(struct io_ring_ctx *ring, struct sqe *sqe)
{
	__u32 flags = TYPED_READ(ring, flags), at = TYPED_READ(ring, cached_sq_head) - 1;

	at &= TYPED_READ(ring, sq_entries) - 1;
	if (!(flags & IORING_SETUP_NO_SQARRAY) &&
	    bpf_probe_read_kernel(&at, sizeof(at), TYPED_READ(ring, sq_array) + at))
		return false;
	__u64 bytes = flags & IORING_SETUP_SQE128 ? 128 : 64;
	return !bpf_probe_read_kernel(sqe, sizeof(*sqe), TYPED_READ(ring, sq_sqes) + at * bytes);
}

static __noinline int request_taken(struct io_kiocb *req, bool refused)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_ring_ctx *ring = TYPED_READ(req, ctx);
	struct ring_key key = { .address = (__u64)ring };
	struct sqe sqe = {};
	__u64 now = bpf_ktime_get_ns();

	if (!is_watched(task->tgid))
		return 0;
	__u32 number = ring_number(ring, &key, 1), opcode = TYPED_READ(req, opcode), file = 0;
	if (!number)
		return lose();
	/* The opcodes differ if the request's SQE takes two slots, which a replay never uses. */
	if (!sqe_of(ring, &sqe) || sqe.opcode != opcode)
		refused = true;
	if (sqe.flags & REQ_F_LINKS)
		link_met(ring, number - 1);
	__u64 len = sqe.len;
	if (!refused) {
		bool vectored = opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV ||
				opcode == IORING_OP_READV_FIXED || opcode == IORING_OP_WRITEV_FIXED;
		if (vectored)
			len = bytes_of_vectors(sqe.addr, sqe.len);
		if (opcode != IORING_OP_NOP)
			file = file_number(sqe.flags & REQ_F_FIXED_FILE ? registered_file(ring, sqe.fd)
									   : file_at(task, sqe.fd));
	}
	struct captured_request *out = bpf_ringbuf_reserve(&captured, sizeof(*out), 0);
	if (!out)
		return lose();
	out->ns = now;
	out->offset = sqe.off;
	out->tid = task->pid;
	out->ring = number - 1;
	out->head = cq_head(ring);
	out->len = len < 0xffffffff ? len : 0xffffffff;
	out->file = file;
	out->op_flags = sqe.op_flags;
	out->buffer = sqe.buf_index;
	out->opcode = opcode;
	out->sqe_flags = sqe.flags;
	out->refused = refused;
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
	return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(capture_request, struct io_kiocb *req)
{
	return UNDISTURBED(request_taken(req, false));
}

/* Its name before 6.4 (2ad57931db64). */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(capture_request_sqe, struct io_kiocb *req)
{
	return UNDISTURBED(request_taken(req, false));
}

SEC("tp_btf/io_uring_req_failed")
int BPF_PROG(capture_refused, void *entry, struct io_kiocb *req, int error)
{
	return UNDISTURBED(request_taken(req, true));
}

static __noinline int request_completed(struct io_ring_ctx *ring, struct io_kiocb *req)
{
	struct ring_key key = { .address = (__u64)ring };
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &key);
	__u32 number = known ? *known - 1 : RINGS_WITH_LINKS;
	struct link_heads *heads = bpf_map_lookup_elem(&link_heads, &number);

	if (!heads || !heads->is_used)
		return 0;
	__u32 at = heads->posted++ & (CQ_ENTRIES_MAX - 1);
	if (req && BPF_CORE_READ(req, flags) & REQ_F_LINKS)
		heads->is_head[at / 64] |= 1ull << (at & 63);
	return 0;
}

/* Only the ring and the request are common to all kernels. Each completion queue entry has one such event, in the order of the queue. */
SEC("tp_btf/io_uring_complete")
int capture_completion(__u64 *args)
{
	if (!has_links)
		return 0;
	return UNDISTURBED(request_completed((void *)args[0], (void *)args[1]));
}

/* A ring at a reused address gets a new number. */
SEC("tp_btf/io_uring_create")
int BPF_PROG(capture_ring, int fd, struct io_ring_ctx *ring, __u32 sq_entries, __u32 cq_entries, __u32 flags)
{
	struct ring_key key = { .address = (__u64)ring };

	if (is_watched(bpf_get_current_pid_tgid() >> 32))
		number_ring(ring, &key, 0);
	return 0;
}

struct iocbs {
	__u64 at;
	__u64 ns;
	__u32 tid;
	__u32 ring;
};

/* include/uapi/linux/aio_abi.h */
#define IOCB_CMD_PREADV 7
#define IOCB_CMD_PWRITEV 8

static int take_iocb(__u32 i, struct iocbs *all)
{
	struct iocb iocb;
	__u64 at;

	if (bpf_probe_read_user(&at, sizeof(at), (void *)(all->at + i * sizeof(at))) ||
	    bpf_probe_read_user(&iocb, sizeof(iocb), (void *)at))
		return 1;
	__u64 len = iocb.aio_nbytes;
	if (iocb.aio_lio_opcode == IOCB_CMD_PREADV || iocb.aio_lio_opcode == IOCB_CMD_PWRITEV)
		len = bytes_of_vectors(iocb.aio_buf, len);
	__u32 file = file_number(file_at(bpf_get_current_task_btf(), iocb.aio_fildes));
	struct captured_request *out = bpf_ringbuf_reserve(&captured, sizeof(*out), 0);
	if (!out)
		return lose();
	out->ns = all->ns;
	out->offset = iocb.aio_offset;
	out->tid = all->tid;
	out->ring = all->ring;
	out->head = 0;
	out->len = len < 0xffffffff ? len : 0xffffffff;
	out->file = file;
	out->op_flags = iocb.aio_rw_flags;
	out->buffer = 0;
	out->opcode = iocb.aio_lio_opcode;
	out->sqe_flags = 0;
	out->refused = 0;
	bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline __u64 entry_argument(struct task_struct *task, struct pt_regs *regs, int n)
{
	return calls_as_i386(task) ? argument_i386(regs, n) : call_argument(regs, n);
}

/* The ring of an io_uring_enter call; null if the descriptor is not a ring. */
static __always_inline struct io_ring_ctx *entered_ring(struct task_struct *task, __u32 fd, __u32 flags)
{
	struct file *file = NULL;
	char name[11];

	if (flags & IORING_ENTER_REGISTERED_RING) {
		struct io_uring_task *own = TYPED_READ(task, io_uring);
		if (own && fd < 16)
			bpf_probe_read_kernel(&file, sizeof(file), (void *)own + bpf_core_field_offset(struct io_uring_task, registered_rings) + fd * sizeof(file));
		return file ? TYPED_READ(file, private_data) : NULL;
	}
	file = file_at(task, fd);
	if (!file)
		return NULL;
	struct ring_key key = { .address = (__u64)TYPED_READ(file, private_data) };
	if (!bpf_map_lookup_elem(&ring_numbers, &key)) {
		/* Other files' private data is not a ring, so the file's name is checked. */
		bpf_probe_read_kernel(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
		if (bpf_strncmp(name, sizeof(name), "[io_uring]"))
			return NULL;
	}
	return (void *)key.address;
}

static __noinline int ring_call_begins(struct pt_regs *regs, struct thread *thread, enum call_class class)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct captured_call *call = &thread->call;
	__u64 first = entry_argument(task, regs, 1), second = entry_argument(task, regs, 2);
	__u64 third = entry_argument(task, regs, 3);
	__u32 number;

	call->flags = call->to_submit = call->min_complete = 0;
	if (class == CALL_ENTER) {
		call->to_submit = second;
		call->min_complete = third;
		call->flags = entry_argument(task, regs, 4);
		struct io_ring_ctx *ring = entered_ring(task, first, call->flags);
		struct ring_key key = { .address = (__u64)ring };
		number = ring ? ring_number(ring, &key, 0) : 0;
		call->head = number ? cq_head(ring) : 0;
	} else if (class == CALL_SETUP) {
		number = 1;
	} else {
		number = context_number(first, 0, false, call);
		if (class == CALL_SUBMIT)
			call->to_submit = second;
		else
			call->min_complete = second;
	}
	if (!number)
		return 0;
	call->ring = number - 1;
	call->has_heads = call->heads_reaped = 0;
	if (has_links && class == CALL_ENTER)
		count_heads(call);
	if (class == CALL_SUBMIT) {
		struct iocbs all = {
			.at = third, .ns = call->entered_ns, .tid = call->tid, .ring = call->ring,
		};
		bpf_loop(call->to_submit, take_iocb, &all, 0);
	}
	thread->class = class;
	return 0;
}

static __noinline int sync_begins(struct pt_regs *regs, struct thread *thread, struct file *file, __u32 kind)
{
	struct captured_sync *sync = &thread->sync;
	enum call_class class = kind & CALL_CLASS;

	sync->offset = sync->len = sync->op_flags = 0;
	switch (class) {
	case CALL_READ:
	case CALL_WRITE:
		sync->len = call_argument(regs, 3);
		if (kind & CALL_VECTORED)
			sync->len = bytes_of_vectors(call_argument(regs, 2), sync->len);
		sync->offset = kind & CALL_POSITIONED ? call_argument(regs, 4) : OFFSET_OF_FILE;
		if (sync->offset == OFFSET_OF_FILE)
			sync->offset = BPF_CORE_READ(file, f_pos);
		if (class == CALL_WRITE && BPF_CORE_READ(file, f_flags) & O_APPEND)
			sync->offset = BPF_CORE_READ(file, f_mapping, host, i_size);
		if (kind & CALL_FLAGGED)
			sync->op_flags = call_argument(regs, 6);
		break;
	case CALL_SYNC_FILE_RANGE:
		sync->offset = call_argument(regs, 2);
		sync->len = call_argument(regs, 3);
		sync->op_flags = call_argument(regs, 4);
		break;
	case CALL_FALLOCATE:
		sync->op_flags = call_argument(regs, 2);
		sync->offset = call_argument(regs, 3);
		sync->len = call_argument(regs, 4);
		break;
	default:
		break;
	}
	thread->class = class;
	return 0;
}

static __always_inline int call_begins(struct pt_regs *regs, long nr)
{
	__u32 kind = nr >= 0 && nr < CAPTURED_CALLS ? captured_calls[nr & (CAPTURED_CALLS - 1)] : 0;
	__u64 now = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	bool calibrates = calibrating_tid && (__u32)task->pid == calibrating_tid;
	bool narrow = calls_as_i386(task);
	__u32 file_is = 1;
	struct file *file = NULL;

	if (narrow ? nr != NR_io_uring_enter && nr != (NR_I386_pread64 & ~NR_I386) && nr != (NR_I386_pwrite64 & ~NR_I386) &&
			     nr != (NR_I386_io_submit & ~NR_I386)
		   : !kind)
		return 0;
	if (!calibrates && !is_watched(task->tgid))
		return 0;
	if (narrow && nr != NR_io_uring_enter) {
		__sync_fetch_and_add(&narrow_calls, 1);
		return 0;
	}
	enum call_class class = kind & CALL_CLASS;
	if (class >= CALL_READ && !calibrates) {
		file = file_at(task, call_argument(regs, 1));
		file_is = file_number(file);
		if (!file_is)
			return 0;
	}
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		return lose();
	__u64 since = thread->left_ns ? now - thread->left_ns : 0;
	__u64 think = since > thread->off_ns ? since - thread->off_ns : 0;
	if (calibrates) {
		floors[floors_taken++ & (FLOORS - 1)] = think;
		thread->class = class;
		return 0;
	}
	/* Both records start with the same members. */
	thread->call.entered_ns = now;
	thread->call.think_ns = think;
	if (class < CALL_READ) {
		thread->call.tid = task->pid;
		return ring_call_begins(regs, thread, class);
	}
	thread->sync.tid = task->pid;
	thread->sync.file = file_is;
	return sync_begins(regs, thread, file, kind);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(capture_call_begins, struct pt_regs *regs, long nr)
{
	return UNDISTURBED(call_begins(regs, nr));
}

static __noinline int context_is_made(struct pt_regs *regs)
{
	__u64 user_id;

	if (!bpf_probe_read_user(&user_id, sizeof(user_id), (void *)call_argument(regs, 2)))
		context_number(user_id, call_argument(regs, 1), true, NULL);
	return 0;
}

static __always_inline int call_ends(struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread || thread->class == CALL_NONE)
		return 0;
	__u64 now = bpf_ktime_get_ns();
	enum call_class class = thread->class;
	thread->class = CALL_NONE;
	/* A signal interrupts it. */
	if (result <= -ERESTARTSYS && result >= -ERESTART_RESTARTBLOCK)
		result = -EINTR;
	if (calibrating_tid && (__u32)task->pid == calibrating_tid) {
		/* Not recorded. */
	} else if (class == CALL_SETUP) {
		if (!result)
			context_is_made(regs);
	} else if (class < CALL_READ) {
		struct captured_call *out = bpf_ringbuf_reserve(&captured, sizeof(*out), 0);
		if (out) {
			*out = thread->call;
			out->left_ns = now;
			out->result = result;
			out->class = class;
			bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
		} else {
			lose();
		}
	} else {
		struct captured_sync *out = bpf_ringbuf_reserve(&captured, sizeof(*out), 0);
		if (out) {
			*out = thread->sync;
			out->left_ns = now;
			out->result = result;
			out->class = class;
			bpf_ringbuf_submit(out, BPF_RB_NO_WAKEUP);
		} else {
			lose();
		}
	}
	thread->off_ns = thread->out_ns = 0;
	thread->left_ns = bpf_ktime_get_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(capture_call_ends, struct pt_regs *regs, long result)
{
	return UNDISTURBED(call_ends(regs, result));
}

/* A thread's think time between two calls excludes the time without a CPU. */
SEC("tp_btf/sched_switch")
int BPF_PROG(capture_switch, bool preempted, struct task_struct *from, struct task_struct *to)
{
	struct thread *out = bpf_task_storage_get(&threads, from, 0, 0);

	if (out && out->class == CALL_NONE)
		out->out_ns = bpf_ktime_get_ns();
	struct thread *in = bpf_task_storage_get(&threads, to, 0, 0);
	if (in && in->out_ns) {
		in->off_ns += bpf_ktime_get_ns() - in->out_ns;
		in->out_ns = 0;
	}
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
