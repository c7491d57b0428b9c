/* Reports created rings and their flags: one event per ring, none per request. */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

/* Inode of the reader's PID namespace. */
const volatile __u32 reader_ns = 0;

/* Maximum number of recorded rings; further rings are only counted. */
#define CREATED_MOST 4096
/* include/linux/pid_namespace.h */
#define MAX_PID_NS_LEVEL 32

struct created_ring {
	__u32 tgid; /* PID in the reader's namespace; 0: not visible there */
	__u32 flags;
};

struct created_ring created[CREATED_MOST];
__u64 created_all = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
	unsigned int inum;
};

struct pid_namespace {
	struct ns_common ns;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[1]; /* one per level, outermost first */
};

struct task_struct___created {
	struct pid *thread_pid;
};

#pragma clang attribute pop

/* PID of the process in the reader's namespace. */
static __always_inline __u32 number_there(struct task_struct *leader)
{
	struct pid *pid = BPF_CORE_READ((struct task_struct___created *)leader, thread_pid);

	if (!pid)
		return 0;
	__u64 first = (__u64)pid + bpf_core_field_offset(struct pid, numbers);
	__u32 level = BPF_CORE_READ(pid, level);

	for (__u32 i = 0; i <= MAX_PID_NS_LEVEL; i++) {
		if (i > level)
			break;
		struct upid *at = (void *)(first + i * bpf_core_type_size(struct upid));
		if (BPF_CORE_READ(at, ns, ns.inum) == reader_ns)
			return BPF_CORE_READ(at, nr);
	}
	return 0;
}

SEC("tp_btf/io_uring_create")
int BPF_PROG(ring_created, int fd, void *ring, __u32 sq_entries, __u32 cq_entries, __u32 flags)
{
	__u64 i = __sync_fetch_and_add(&created_all, 1);

	if (i >= CREATED_MOST)
		return 0;
	created[i] = (struct created_ring){
		.tgid = number_there(bpf_get_current_task_btf()->group_leader),
		.flags = flags,
	};
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
