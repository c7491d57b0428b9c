/* IDs of each task: in the initial PID namespace, in the reader's, and in the namespace that /proc shows.
 *
 * The iterator runs in its reader's context and visits the tasks of the reader's PID namespace and of nested namespaces.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Number of levels from the reader's namespace out to /proc's: 0 if both are the same. */
const volatile __u32 proc_outwards = 0;

struct task_numbers {
	__u32 tid; /* in the initial namespace */
	__u32 tgid;
	__u32 here;    /* in the reader's namespace */
	__u32 in_proc; /* in /proc; 0: /proc's namespace is further out than all levels */
	__u32 parent;  /* ID of its parent process in the initial namespace */
	__u16 reader;  /* the reading thread itself */
	__u16 kernels; /* a kernel thread */
	char comm[16];
};
struct task_numbers unused_task_numbers; /* exports the layout to user space */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
	int nr;
	void *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one per level, outermost first */
};

struct task_struct___numbered {
	struct pid *thread_pid;
	struct task_struct *real_parent;
};

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

#pragma clang attribute pop

static __always_inline __u32 number_at(struct pid *pid, __u32 level)
{
	__u64 first = (__u64)pid + bpf_core_field_offset(struct pid, numbers);
	__u32 nr = 0;

	if (level <= BPF_CORE_READ(pid, level))
		bpf_probe_read_kernel(&nr, sizeof(nr),
				      (void *)(first + level * bpf_core_type_size(struct upid) +
					       bpf_core_field_offset(struct upid, nr)));
	return nr;
}

SEC("iter/task")
int numbers_of_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct *reader = bpf_get_current_task_btf();

	if (!task)
		return 0;
	struct pid *pid = BPF_CORE_READ((struct task_struct___numbered *)task, thread_pid);
	struct pid *readers = BPF_CORE_READ((struct task_struct___numbered *)reader, thread_pid);
	/* A task that has just exited has no PID. */
	if (!pid || !readers)
		return 0;
	__u32 level = BPF_CORE_READ(readers, level);
	struct task_numbers out = {
		.tid = task->pid,
		.tgid = task->tgid,
		.here = number_at(pid, level),
		.in_proc = level >= proc_outwards ? number_at(pid, level - proc_outwards) : 0,
		.parent = BPF_CORE_READ((struct task_struct___numbered *)task, real_parent, tgid),
		.reader = task->pid == reader->pid,
		.kernels = (task->flags & PF_KTHREAD) != 0,
	};
	bpf_probe_read_kernel_str(out.comm, sizeof(out.comm), task->comm);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
