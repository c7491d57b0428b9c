/* CPU samples: the code that each CPU runs, counted by kernel stack. A separate object, loaded only if sampling is
 * requested; it shares nothing with the programs that trace completions.
 *
 * User space opens one perf event per CPU. The cpu-clock event is an hrtimer, so a section with interrupts disabled is
 * sampled at its end.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../record.h"
#include "arch.h"

#define COMM_LEN 16
#define MAX_FRAMES 127 /* default of kernel.perf_event_max_stack */
#define MAX_STACKS 8192

/* A kernel stack, innermost address first. Each distinct stack is stored once. */
struct stack {
	__u64 frames;
	__u64 address[MAX_FRAMES];
};

/* Key of identical samples. */
struct sample_key {
	__u64 stack; /* stack hash; 0: the CPU was in user mode */
	__u32 tgid;  /* 0: the CPU was idle, or in an interrupt from idle */
	__u32 cpu;
	char comm[COMM_LEN];
};

/* Outcomes of one CPU's samples. */
struct tally {
	__u64 kept;
	__u64 unwatched; /* samples of untraced programs */
	__u64 no_room;   /* samples that found a map full */
};

const volatile bool watch_all = false;
const volatile __u32 exclude_tid = 0;
/* Idle tasks are sampled by their timer. */
const volatile bool idle_by_timer = false;

/* The traced processes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} tgids SEC(".maps");

/* Addresses of the hrtimers of iotrail's events. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64);
	__type(value, __u8);
} timers SEC(".maps");

/* Not a stack-trace map, where a second stack in the same bucket is either dropped or replaces the first one together with its counts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_STACKS);
	__type(key, __u64);
	__type(value, struct stack);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * MAX_STACKS);
	__type(key, struct sample_key);
	__type(value, __u64);
} samples SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tally);
} tallies SEC(".maps");

/* Buffer for one stack: only one of the two programs below runs on a CPU at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack);
} room SEC(".maps");

/* Stores a new stack. Returns the stack's hash, or 0 if the map is full. An empty stack, which the kernel could not unwind,
 * also counts as a stack.
 */
static __always_inline __u64 keep(struct stack *stack, long bytes)
{
	__u64 hash = 0x9e3779b97f4a7c15ULL;

	stack->frames = bytes > 0 ? bytes / sizeof(__u64) : 0;
	for (int i = 0; i < MAX_FRAMES; i++) {
		if (i >= stack->frames)
			break;
		hash = (hash ^ stack->address[i]) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	if (!hash)
		hash = 1;
	if (bpf_map_lookup_elem(&stacks, &hash))
		return hash;
	bpf_map_update_elem(&stacks, &hash, stack, BPF_NOEXIST);
	return bpf_map_lookup_elem(&stacks, &hash) ? hash : 0;
}

static __always_inline void count(struct tally *tally, __u32 tgid, __u64 stack)
{
	struct sample_key key = { .stack = stack, .tgid = tgid, .cpu = bpf_get_smp_processor_id() };
	__u64 *n;

	if (tgid)
		bpf_get_current_comm(key.comm, sizeof(key.comm));
	n = bpf_map_lookup_elem(&samples, &key);
	if (!n) {
		__u64 zero = 0;
		bpf_map_update_elem(&samples, &key, &zero, BPF_NOEXIST);
		n = bpf_map_lookup_elem(&samples, &key);
	}
	if (n) {
		*n += 1; /* the CPU is in the key */
		tally->kept++;
	} else {
		tally->no_room++;
	}
}

SEC("perf_event")
int profile_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid, zero = 0;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	struct stack *stack = bpf_map_lookup_elem(&room, &zero);

	if (!tally || !stack)
		return 0;
	if (!task->pid) {
		if (idle_by_timer)
			return 0;
	} else if (task->pid == exclude_tid || !(watch_all || bpf_map_lookup_elem(&tgids, &tgid))) {
		tally->unwatched++;
		return 0;
	}
	if (USER_MODE(ctx)) {
		count(tally, tgid, 0);
		return 0;
	}
	__u64 hash = keep(stack, bpf_get_stack(ctx, stack->address, sizeof(stack->address), 0));
	if (hash)
		count(tally, tgid, hash);
	else
		tally->no_room++;
	return 0;
}

/* In some virtual machines the kernel delivers no samples of idle tasks on some CPUs, although the event's timer fires. So
 * if the event is a timer, idle is counted at the timer. The stack then has the timer interrupt on top.
 */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(profile_idle, void *timer, void *now)
{
	__u64 address = (__u64)timer;
	__u32 zero = 0;

	if (((struct task_struct *)bpf_get_current_task_btf())->pid || !bpf_map_lookup_elem(&timers, &address))
		return 0;
	struct tally *tally = bpf_map_lookup_elem(&tallies, &zero);
	struct stack *stack = bpf_map_lookup_elem(&room, &zero);
	if (!tally || !stack)
		return 0;
	__u64 hash = keep(stack, bpf_get_stack(ctx, stack->address, sizeof(stack->address), 0));
	if (hash)
		count(tally, 0, hash);
	else
		tally->no_room++;
	return 0;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct hrtimer {
	u8 is_rel;
};

struct hw_perf_event {
	struct hrtimer hrtimer;
};

struct perf_event {
	struct hw_perf_event hw;
};

struct seq_file {
	void *private;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

const volatile __u32 own_tgid = 0;

/* Address of a perf event file. User space knows its own events. */
struct event_file {
	__u64 fd;
	__u64 timer;
};
struct event_file unused_event_file; /* exports the layout to user space */

SEC("iter/task_file")
int profile_timers(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;

	/* Threads share the file table. */
	if (!task || !file || task->tgid != own_tgid || task->pid != own_tgid)
		return 0;
	struct perf_event *event = file->private_data;
	struct event_file out = {
		.fd = ctx->fd,
		.timer = (__u64)__builtin_preserve_access_index(&event->hw.hrtimer),
	};
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
