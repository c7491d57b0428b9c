/* The kernel's state of a process's threads, rings, sockets and cgroup, read without probes by a task iterator in the
 * reader's context. All pointers are followed with bpf_probe_read_kernel, because the data changes concurrently. A separate
 * object.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../record.h"
#include "arch.h"
#include "snapshot.h"
#include "sockets.h"

struct snapshot_thread unused_thread; /* exports the layouts to user space */
struct snapshot_ring unused_ring;
struct snapshot_request unused_request;
struct snapshot_depth unused_depth;
struct snapshot_socket unused_socket;
struct snapshot_queue unused_queue;
enum socket_queue unused_queue_kind;
struct snapshot_process unused_process;
struct survey_thread unused_survey;
enum snapshot_kind unused_kind;

/* f_op of the reader's own ring and socket, since kernels without data symbols do not name them; 0: unknown. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} operations SEC(".maps");

/* Kind of the next reading. With one program per kind, the verifier would check the same instructions again for each. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} next_reading SEC(".maps");

/* 1 + nvcsw + nivcsw at the sleep whose stack was read last. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} stacked SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_info___state {
	u64 last_arrival;
};

struct cfs_bandwidth {
	u64 throttled_time;
};

struct task_group {
	struct cfs_bandwidth cfs_bandwidth;
};

struct css_set {
	void *subsys[1];
};

/* Since 7.3: empty if its tail is the stub. */
struct mpscq {
	struct llist_node *tail;
	struct llist_node stub;
};

struct io_uring_task___since_7_3 {
	struct mpscq task_list;
};

struct io_ring_ctx___since_7_3 {
	struct mpscq work_list;
};

struct io_uring_task___state {
	const struct io_ring_ctx *last;
	struct llist_head task_list;
};

struct mm_struct___state {
	void *ioctx_table; /* of native aio */
};

struct signal_struct {
	unsigned long long sum_sched_runtime;
};

struct task_struct___state {
	struct signal_struct *signal;
	unsigned long nivcsw;
	unsigned long min_flt;
	struct sched_info___state sched_info;
	struct files_struct *files;
	struct io_uring_task *io_uring;
	struct task_group *sched_task_group;
	struct css_set *cgroups;
};

struct io_rings___state {
	struct io_uring sq, cq;
	atomic_t sq_flags;
};

struct io_hash_bucket {
	struct hlist_head list;
};

struct io_hash_table {
	struct io_hash_bucket *hbs;
	unsigned int hash_bits;
};

struct io_sq_data {
	struct task_struct *thread;
};

struct io_submit_state___state {
	struct io_wq_work_node free_list;
};

struct io_ring_ctx___state {
	struct io_submit_state submit_state;
	struct task_struct *submitter_task;
	struct llist_head work_llist;
	struct llist_head retry_llist; /* not in 6.1 */
	struct list_head timeout_list;
	struct list_head ltimeout_list;
	struct list_head cq_overflow_list;
	struct io_sq_data *sq_data;
	struct io_hash_table cancel_table;
	struct io_hash_table cancel_table_locked; /* in 6.1 */
	unsigned int nr_req_allocated; /* not in 6.1 */
};

struct io_kiocb___state {
	void *async_data;
	struct hlist_node hash_node;
};

struct io_timeout {
	struct list_head list;
};

struct timerqueue_node {
	__s64 expires;
};

struct hrtimer___state {
	struct timerqueue_node node;
};

struct io_timeout_data {
	struct hrtimer___state timer;
	u32 flags;
};

enum cgroup_subsys_id { io_cgrp_id = 1 };

struct request_queue;

struct blkcg {
	struct hlist_head blkg_list;
};

struct blkcg_gq {
	struct request_queue *q;
	struct hlist_node blkcg_node;
	void *pd[6];
};

struct throtl_data {
	struct request_queue *queue;
};

struct throtl_service_queue {
	unsigned int nr_queued[2];
	unsigned int nr_queued_bps[2]; /* in place of the above, in 6.18 */
	unsigned int nr_queued_iops[2];
};

struct throtl_grp {
	struct throtl_data *td;
	struct throtl_service_queue service_queue;
};

#pragma clang attribute pop

#define IORING_TIMEOUT_CLOCK_MASK (1U << 2 | 1U << 3)

static long count_one(__u32 i, struct walk *w)
{
	__u64 next = 0;

	if (!w->at || w->at == w->end || bpf_probe_read_kernel(&next, sizeof(next), (void *)w->at))
		return 1;
	w->found++;
	w->at = next;
	return 0;
}

/* Length of a list whose members begin with the next pointer. */
static __always_inline __u32 length(struct walk *w, __u64 first, __u64 end)
{
	w->found = 0;
	w->at = first;
	w->end = end;
	bpf_loop(LONGEST_LIST, count_one, w, 0);
	return w->found;
}

static long one_timeout(__u32 i, struct walk *w)
{
	if (!w->at || w->at == w->end)
		return 1;
	struct list_head *here = (void *)w->at;
	struct io_kiocb *req = (void *)(w->at - bpf_core_field_offset(struct io_timeout, list));
	struct io_timeout_data *data = BPF_CORE_READ((struct io_kiocb___state *)req, async_data);
	__u64 expires = BPF_CORE_READ(data, timer.node.expires);

	if (!(BPF_CORE_READ(data, flags) & IORING_TIMEOUT_CLOCK_MASK) && expires &&
	    (!w->soonest_ns || expires < w->soonest_ns))
		w->soonest_ns = expires;
	w->found++;
	w->at = (__u64)BPF_CORE_READ(here, next);
	return 0;
}

static __always_inline void timeouts(struct walk *w, __u64 first, __u64 end)
{
	w->at = first;
	w->end = end;
	bpf_loop(LONGEST_LIST, one_timeout, w, 0);
}

static __noinline int write_request(struct walk *w, __u64 node)
{
	struct io_kiocb *req = (void *)(node - bpf_core_field_offset(struct io_kiocb___state, hash_node));
	struct file___held *file = (void *)BPF_CORE_READ(req, file);
	struct snapshot_request out = {
		.kind = SNAPSHOT_REQUEST,
		.tgid = w->tgid,
		.ring = w->ring,
		.request = (__u64)req,
		.user_data = BPF_CORE_READ(req, cqe.user_data),
		.file = (__u64)file,
		.fd = BPF_CORE_READ(req, cqe.fd),
		.opcode = BPF_CORE_READ(req, opcode),
		.fixed = BPF_CORE_READ(req, flags) & REQ_F_FIXED_FILE,
	};

	if (file && bpf_core_field_exists(struct file___held, f_ref))
		out.references = BPF_CORE_READ(file, f_ref.refcnt.counter) + 1;
	else if (file && bpf_core_field_exists(struct file___held, f_count))
		out.references = BPF_CORE_READ(file, f_count.counter);
	bpf_seq_write(w->seq, &out, sizeof(out));
	return 0;
}

static long one_armed(__u32 i, struct walk *w)
{
	struct hlist_node *node = (void *)w->node;

	if (!node)
		return 1;
	w->found++;
	if (w->written < REQUESTS) {
		w->written++;
		write_request(w, w->node);
	}
	w->node = (__u64)BPF_CORE_READ(node, next);
	return 0;
}

static long one_bucket(__u32 i, struct walk *w)
{
	struct io_hash_bucket *bucket = (void *)w->at;

	w->node = (__u64)BPF_CORE_READ(bucket, list.first);
	w->at += bpf_core_type_size(struct io_hash_bucket);
	bpf_loop(LONGEST_LIST, one_armed, w, 0);
	return 0;
}

static __always_inline void buckets(struct walk *w, struct io_hash_table *table)
{
	__u32 bits = BPF_CORE_READ(table, hash_bits);

	w->at = (__u64)BPF_CORE_READ(table, hbs);
	if (w->at && bits <= 12)
		bpf_loop(1U << bits, one_bucket, w, 0);
}

/* Lengths of a ring's lists. A concurrent change makes them wrong, but does no other harm. */
static __noinline int write_depth(struct walk *w, __u64 address)
{
	if (!w)
		return 0;
	struct io_ring_ctx___state *ring = (void *)address;
	struct walk own = { .seq = w->seq, .ring = address, .tgid = w->tgid };
	struct snapshot_depth out = { .kind = SNAPSHOT_DEPTH, .ring = address };

	buckets(&own, &ring->cancel_table);
	if (bpf_core_field_exists(ring->cancel_table_locked))
		buckets(&own, &ring->cancel_table_locked);
	out.armed = own.found;

	own.found = 0;
	timeouts(&own, (__u64)BPF_CORE_READ(ring, timeout_list.next), (__u64)&ring->timeout_list);
	timeouts(&own, (__u64)BPF_CORE_READ(ring, ltimeout_list.next), (__u64)&ring->ltimeout_list);
	out.timeouts = own.found;
	out.soonest_ns = own.soonest_ns;

	out.overflow_list = length(&own, (__u64)BPF_CORE_READ(ring, cq_overflow_list.next), (__u64)&ring->cq_overflow_list);
	if (bpf_core_field_exists(ring->nr_req_allocated)) {
		struct io_submit_state___state *submit = (void *)&ring->submit_state;
		out.allocated_known = 1;
		out.allocated = BPF_CORE_READ(ring, nr_req_allocated);
		out.free = length(&own, (__u64)BPF_CORE_READ(submit, free_list.next), 0);
	}
	bpf_seq_write(w->seq, &out, sizeof(out));
	return 0;
}

static __always_inline bool has_task_work(struct io_uring_task___state *uring)
{
	struct io_uring_task___since_7_3 *now = (void *)uring;

	if (bpf_core_field_exists(uring->task_list.first))
		return BPF_CORE_READ(uring, task_list.first);
	return bpf_core_field_exists(now->task_list.tail) && BPF_CORE_READ(now, task_list.tail) != &now->task_list.stub;
}

static __always_inline bool has_local_work(struct io_ring_ctx___state *ring)
{
	struct io_ring_ctx___since_7_3 *now = (void *)ring;
	bool has = false;

	if (bpf_core_field_exists(ring->work_llist))
		has = BPF_CORE_READ(ring, work_llist.first);
	else if (bpf_core_field_exists(now->work_list.tail))
		has = BPF_CORE_READ(now, work_list.tail) != &now->work_list.stub;
	if (bpf_core_field_exists(ring->retry_llist))
		has |= !!BPF_CORE_READ(ring, retry_llist.first);
	return has;
}

static __noinline int write_ring(struct walk *w, __u64 address, __s32 fd)
{
	if (!w)
		return 0;
	struct io_ring_ctx *ctx = (void *)address;
	struct io_ring_ctx___state *state = (void *)ctx;
	struct io_rings___state *rings = (void *)BPF_CORE_READ(ctx, rings);
	struct task_struct *submitter = BPF_CORE_READ(state, submitter_task);
	struct task_struct *sq_thread = BPF_CORE_READ(state, sq_data, thread);
	struct snapshot_ring out = {
		.kind = SNAPSHOT_RING,
		.tgid = w->tgid,
		.ring = address,
		.fd = fd,
		.setup_flags = BPF_CORE_READ(ctx, flags),
		.sq_flags = BPF_CORE_READ(rings, sq_flags.counter),
		.sq_entries = BPF_CORE_READ(ctx, sq_entries),
		.cq_entries = BPF_CORE_READ(ctx, cq_entries),
		/* The kernel's own indices first: the program's indices can then only be newer. */
		.cq_tail = BPF_CORE_READ(rings, cq.tail),
		.cq_head = BPF_CORE_READ(rings, cq.head),
		.sq_taken = BPF_CORE_READ(ctx, cached_sq_head),
		.sq_tail = BPF_CORE_READ(rings, sq.tail),
		.task_work = has_local_work(state),
		.overflowed = BPF_CORE_READ(state, cq_overflow_list.next) != &state->cq_overflow_list,
	};

	if (!rings)
		return 0;
	if (submitter)
		out.submitter = BPF_CORE_READ(submitter, pid);
	if (sq_thread) {
		out.sq_thread = BPF_CORE_READ(sq_thread, pid);
		out.sq_state = BPF_CORE_READ(sq_thread, __state);
	}
	bpf_seq_write(w->seq, &out, sizeof(out));
	return 0;
}

static long descriptor(__u32 fd, struct walk *w)
{
	struct file___held *file = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), (void *)(w->files + fd * sizeof(file)));
	if (!file)
		return 0;
	__u64 operations = (__u64)BPF_CORE_READ(file, f_op);
	if (operations == w->operations[0]) {
		if (w->written++ >= RINGS)
			return 0;
		write_ring(w, (__u64)BPF_CORE_READ(file, private_data), fd);
		if (w->deep)
			write_depth(w, (__u64)BPF_CORE_READ(file, private_data));
	} else if (operations == w->operations[1]) {
		write_socket(w, file, fd);
	}
	return 0;
}

/* Bios that blk-throttle (io.max) has queued, for one cgroup and device. */
static long one_group(__u32 i, struct walk *w)
{
	struct hlist_node *node = (void *)w->node;

	if (!node)
		return 1;
	struct blkcg_gq *group = (void *)(w->node - bpf_core_field_offset(struct blkcg_gq, blkcg_node));
	struct request_queue *queue = BPF_CORE_READ(group, q);
	w->node = (__u64)BPF_CORE_READ(node, next);
	for (int j = 0; j < 6; j++) {
		struct throtl_grp *throttled = NULL;
		bpf_probe_read_kernel(&throttled, sizeof(throttled),
				      (void *)((__u64)group + bpf_core_field_offset(struct blkcg_gq, pd) +
					       j * sizeof(throttled)));
		/* No type identifies a policy's slot. In blk-throttle's data the queue follows the first pointer. */
		if (!throttled || !queue || BPF_CORE_READ(throttled, td, queue) != queue)
			continue;
		if (bpf_core_field_exists(struct throtl_service_queue, nr_queued))
			w->found += BPF_CORE_READ(throttled, service_queue.nr_queued[0]) +
				    BPF_CORE_READ(throttled, service_queue.nr_queued[1]);
		else if (bpf_core_field_exists(struct throtl_service_queue, nr_queued_bps))
			w->found += BPF_CORE_READ(throttled, service_queue.nr_queued_bps[0]) +
				    BPF_CORE_READ(throttled, service_queue.nr_queued_bps[1]) +
				    BPF_CORE_READ(throttled, service_queue.nr_queued_iops[0]) +
				    BPF_CORE_READ(throttled, service_queue.nr_queued_iops[1]);
		break;
	}
	return 0;
}

/* The same over all devices. */
static __always_inline __u32 throttled_bios(struct walk *w, struct task_struct___state *task)
{
	void *css = NULL;

	if (!bpf_core_type_exists(struct throtl_grp) ||
	    !bpf_core_enum_value_exists(enum cgroup_subsys_id, io_cgrp_id))
		return 0;
	__u64 at = (__u64)BPF_CORE_READ(task, cgroups) + bpf_core_field_offset(struct css_set, subsys) +
		   sizeof(css) * bpf_core_enum_value(enum cgroup_subsys_id, io_cgrp_id);
	bpf_probe_read_kernel(&css, sizeof(css), (void *)at);
	if (!css)
		return 0;
	struct blkcg *cgroup = css;
	w->node = (__u64)BPF_CORE_READ(cgroup, blkg_list.first);
	w->found = 0;
	bpf_loop(64, one_group, w, 0);
	return w->found;
}

static __always_inline __u64 operations_of(__u32 kind)
{
	__u64 *known = bpf_map_lookup_elem(&operations, &kind);

	/* No file has this f_op. */
	return known && *known ? *known : 1;
}

static __always_inline void write_process(struct walk *w, struct task_struct *task)
{
	struct task_struct___state *state = (void *)task;
	struct fdtable *table = BPF_CORE_READ(state, files, fdt);
	/* Read before the other threads, so that a thread that exits meanwhile does not count twice. */
	struct snapshot_process out = {
		.kind = SNAPSHOT_PROCESS,
		.tgid = w->tgid,
		.exited_ns = BPF_CORE_READ(state, signal, sum_sched_runtime),
	};

	w->operations[0] = operations_of(0);
	w->operations[1] = operations_of(1);
	w->files = (__u64)BPF_CORE_READ(table, fd);
	__u32 descriptors = BPF_CORE_READ(table, max_fds);
	if (w->files)
		bpf_loop(descriptors < DESCRIPTORS ? descriptors : DESCRIPTORS, descriptor, w, 0);
	out.tcp_sockets = w->sockets;
	out.held_sockets = w->found;
	out.throttled_bios = throttled_bios(w, state);
	if (bpf_core_field_exists(struct task_group, cfs_bandwidth))
		out.quota_ns = BPF_CORE_READ(state, sched_task_group, cfs_bandwidth.throttled_time);
	bpf_seq_write(w->seq, &out, sizeof(out));
}

/* Whether this thread's stack was already read during this sleep. */
static __always_inline bool same_sleep(struct task_struct *task, __u64 switches)
{
	__u64 *last = bpf_task_storage_get(&stacked, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!last)
		return false;
	bool same = *last == switches + 1;
	*last = switches + 1;
	return same;
}

static __noinline int write_thread(struct bpf_iter__task *ctx, __u32 reading)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	struct task_struct___state *state = (void *)task;
	struct task_struct___state *reader = (void *)bpf_get_current_task_btf();
	struct io_uring_task___state *uring = (void *)BPF_CORE_READ(state, io_uring);
	struct snapshot_thread out = {
		.kind = SNAPSHOT_THREAD,
		.tid = task->pid,
		.tgid = task->tgid,
		.state = task->__state,
		.call = -1,
		.kernels = !!(task->flags & (PF_KTHREAD | PF_IO_WORKER)),
		.switches = task->nvcsw + BPF_CORE_READ(state, nivcsw),
		.sleeps = task->nvcsw,
	};

	bpf_probe_read_kernel_str(out.comm, sizeof(out.comm), task->comm);
	if (!out.kernels) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
		out.call = call_number(task, syscall_nr(regs));
		for (int i = 0; i < 5; i++)
			out.arguments[i] = call_argument(regs, i + 1);
	}
	if (uring) {
		out.last_ring = (__u64)BPF_CORE_READ(uring, last);
		out.task_work = has_task_work(uring);
	}
	if (bpf_core_field_exists(struct task_struct___state, sched_info) && out.state) {
		__u64 now = BPF_CORE_READ(reader, sched_info.last_arrival);
		__u64 then = BPF_CORE_READ(state, sched_info.last_arrival);
		out.asleep_ns = then && now > then ? now - then : 0;
	}
	out.started_ns = task->start_time;
	out.ran_ns = task->se.sum_exec_runtime;
	if (bpf_core_field_exists(task->sched_info.run_delay))
		out.runnable_ns = task->sched_info.run_delay;
	out.faults = BPF_CORE_READ(state, min_flt);
	out.iowait = BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait);
	struct fdtable *table = BPF_CORE_READ(state, files, fdt);
	if (out.state && !out.kernels && out.arguments[0] < BPF_CORE_READ(table, max_fds)) {
		struct file___held *file = NULL;
		__u64 files = (__u64)BPF_CORE_READ(table, fd);
		bpf_probe_read_kernel(&file, sizeof(file), (void *)(files + out.arguments[0] * sizeof(file)));
		out.waits_on = (__u64)BPF_CORE_READ(file, private_data);
		if ((__u64)BPF_CORE_READ(file, f_op) == operations_of(1))
			out.peer_inode = peer_inode((void *)out.waits_on);
	}
	if (reading == READ_SLEEPS && out.state && same_sleep(task, out.switches)) {
		out.frames = SAME_SLEEP;
	} else if (reading != READ_BRIEF && out.state) {
		long bytes = bpf_get_task_stack(task, out.stack, sizeof(out.stack), 0);
		out.frames = bytes > 0 ? bytes / sizeof(out.stack[0]) : 0;
	}
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

SEC("iter/task")
int snapshot(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 zero = 0;
	__u32 *reading = bpf_map_lookup_elem(&next_reading, &zero);

	if (!task || !reading)
		return 0;
	write_thread(ctx, *reading);
	struct task_struct___state *state = (void *)task;
	struct walk w = { .seq = ctx->meta->seq, .tgid = task->tgid, .deep = *reading == READ_DEEP };
	if (task->flags & (PF_KTHREAD | PF_IO_WORKER))
		return 0;
	/* Also finds a ring whose descriptor was closed after registration. */
	struct task_struct___state *leader = (void *)BPF_CORE_READ(task, group_leader);
	struct io_uring_task___state *uring = (void *)BPF_CORE_READ(state, io_uring);
	__u64 last = uring ? (__u64)BPF_CORE_READ(uring, last) : 0;
	w.ring = last;
	if (last)
		write_ring(&w, last, -1);
	if (last && w.deep)
		write_depth(&w, last);
	/* The process's first thread may have exited; it then has no files. */
	if (task->pid == task->tgid || !BPF_CORE_READ(leader, files))
		write_process(&w, task);
	return 0;
}

/* All threads on the machine. */
SEC("iter/task")
int survey(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;

	if (!task)
		return 0;
	struct mm_struct___state *mm = (void *)BPF_CORE_READ(task, mm);
	struct survey_thread out = {
		.tid = task->pid,
		.tgid = task->tgid,
		.cpu = BPF_CORE_READ(task, thread_info.cpu),
		.kernels = !!(task->flags & (PF_KTHREAD | PF_IO_WORKER)),
		.asynchronous = !!BPF_CORE_READ(task, io_uring),
		.ran_ns = task->se.sum_exec_runtime,
	};

	if (mm && bpf_core_field_exists(mm->ioctx_table))
		out.asynchronous |= !!BPF_CORE_READ(mm, ioctx_table);
	bpf_probe_read_kernel_str(out.comm, sizeof(out.comm), task->comm);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

struct own_file {
	__u64 fd;
	__u64 operations;
};
struct own_file unused_own_file;

/* The reader's own files. */
static long own(__u32 fd, struct walk *w)
{
	struct file___held *file = NULL;

	bpf_probe_read_kernel(&file, sizeof(file), (void *)(w->files + fd * sizeof(file)));
	if (!file)
		return 0;
	struct own_file out = { .fd = fd, .operations = (__u64)BPF_CORE_READ(file, f_op) };
	bpf_seq_write(w->seq, &out, sizeof(out));
	return 0;
}

SEC("iter/task")
int snapshot_own(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct *reader = bpf_get_current_task_btf();

	if (!task || task->pid != reader->pid)
		return 0;
	struct fdtable *table = BPF_CORE_READ((struct task_struct___state *)task, files, fdt);
	struct walk w = { .seq = ctx->meta->seq, .files = (__u64)BPF_CORE_READ(table, fd) };
	__u32 descriptors = BPF_CORE_READ(table, max_fds);
	bpf_loop(descriptors < 1024 ? descriptors : 1024, own, &w, 0);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
