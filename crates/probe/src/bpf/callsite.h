/* User stacks of the program's call sites: submissions, sleeps in system calls, system calls, and CPU use. Per class of
 * event, each CPU samples the stacks of the first events in a 100 ms window, then 1 in N, so that a rare call has all its
 * stacks. The sampling probability is fixed before the event.
 */
#ifndef IOTRAIL_CALLSITE_H
#define IOTRAIL_CALLSITE_H

#include "choose.h"

const volatile bool stacks_wanted = false;
const volatile __u32 stack_window_jiffies = 1;
const volatile __u32 site_tick_ns = 0; /* 0: unknown, or stacks are not requested */
const volatile struct user_stack user_stack_layout = {}; /* as trail_layout */

#define STACKS_WHOLE 64
/* Afterwards 1 in this many. Reading a stack takes about 0.3 µs, often more than the system call itself. */
#define STACKS_OF_SLEEPS 16
#define STACKS_OF_REQUESTS 16
#define STACKS_OF_CALLS 128

/* Classes: sleeps by system call, calls, and requests by opcode. */
#define CLASS_CALLS CALLS_MAX
#define CLASS_REQUESTS (2 * CALLS_MAX)

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* SITE_CLASSES if stacks are requested */
	__type(key, __u32);
	__type(value, struct site_class);
} site_classes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2); /* a sample may interrupt a program that is reading a stack */
	__type(key, __u32);
	__type(value, struct stack_room);
} user_stack_room SEC(".maps");

#define ROOM_OF_EVENTS 0
#define ROOM_OF_SAMPLES 1

/* Stacks that were already sent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* STACKS_KNOWN if stacks are requested */
	__type(key, __u64);
	__type(value, __u32);
} stacks_known SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* SITES if stacks are requested */
	__type(key, struct site_key);
	__type(value, struct site_sum);
} sites SEC(".maps");

/* Weight of this event's stack; 0: not sampled. */
static __always_inline __u32 stack_due(__u32 class, const __u32 one_in)
{
	if (!stacks_wanted)
		return 0;
	struct site_class *of = bpf_map_lookup_elem(&site_classes, &class);
	if (!of)
		return 0;
	__u32 now = bpf_jiffies64();
	if (now - of->since >= stack_window_jiffies) {
		of->since = now;
		of->taken = 0;
	}
	if (of->taken < STACKS_WHOLE) {
		of->taken++;
		return 1;
	}
	if (of->until_next) {
		of->until_next--;
		return 0;
	}
	/* A random gap from 0 to 2 * one_in - 2: a regular gap would alias with the program's own period. */
	of->until_next = random_below(2 * one_in - 1);
	return one_in;
}

static __noinline int hand_over(struct user_stack *stack, struct task_struct *task, __u64 hash)
{
	__u32 one = 1;

	if (!stack)
		return 0;
	stack->hash = hash;
	stack->tgid = task->tgid;
	stack->tid = task->pid;
	bpf_get_current_comm(stack->comm, sizeof(stack->comm));
	if (bpf_map_update_elem(&stacks_known, &hash, &one, BPF_NOEXIST))
		return 0;
	/* If the ring buffer is full, the stack is sent at its next occurrence. */
	if (bpf_ringbuf_output(&trails_out, stack, sizeof(*stack), BPF_RB_NO_WAKEUP))
		bpf_map_delete_elem(&stacks_known, &hash);
	return 0;
}

/* Maximum size of a frame. */
#define FRAME_BYTES (1ull << 20)

static int walk_frame(__u32 i, struct stack_room **context)
{
	struct stack_room *room = *context;
	__u64 frame[2];

	if (room->at - room->below >= FRAME_BYTES || room->at & 7 ||
	    bpf_probe_read_user(frame, sizeof(frame), (void *)room->at))
		return 1;
	__u64 address = frame[1] & ADDRESS;
	if (address < 4096)
		return 1;
	room->stack.frames[(i + 1) & (USER_FRAMES - 1)] = address;
	room->below = room->at + 1;
	room->at = frame[0];
	return 0;
}

/* Hash of the current thread's user stack; 0 if there is none. Follows frame pointers, each of which must be further up the
 * stack. If the program uses the register otherwise, the chain is invalid, and the kernel's own unwinder would follow it.
 */
__noinline __u64 user_stack(__u32 which)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 hash = task->tgid * 0x9e3779b97f4a7c15ULL;
	struct stack_room *room = bpf_map_lookup_elem(&user_stack_room, &which);

	if (!room || task->flags & (PF_KTHREAD | PF_IO_WORKER))
		return 0;
	__builtin_memset(&room->stack, 0, sizeof(room->stack));
	room->regs = user_registers_of(task);
	room->stack.frames[0] = room->regs.ip;
	room->below = room->regs.sp;
	room->at = room->regs.fp;
	bpf_loop(USER_FRAMES - 1, walk_frame, &room, 0);
	stub_callers(task, room);
	for (int i = 0; i < STUB_CALLERS; i++)
		hash = (hash ^ room->stack.callers[i]) * 0xff51afd7ed558ccdULL;
	for (int i = 0; i < USER_FRAMES; i++) {
		hash = (hash ^ room->stack.frames[i]) * 0xff51afd7ed558ccdULL;
		hash ^= hash >> 32;
	}
	hash |= 1;
	if (!bpf_map_lookup_elem(&stacks_known, &hash))
		hand_over(&room->stack, task, hash);
	return hash;
}

/* `what`: enum site_kind << 32 | nr */
__noinline int site_counted(__u64 stack, __u64 what, __u32 weight, __u64 ns, __u32 failed)
{
	struct site_key key = { .stack = stack, .kind = what >> 32, .nr = what };
	struct site_sum *sum = bpf_map_lookup_elem(&sites, &key);

	if (!sum) {
		struct site_sum none = {};
		bpf_map_update_elem(&sites, &key, &none, BPF_NOEXIST);
		sum = bpf_map_lookup_elem(&sites, &key);
		if (!sum)
			return 0;
	}
	__sync_fetch_and_add(&sum->ns, ns * weight);
	__sync_fetch_and_add(&sum->count, weight);
	if (failed)
		__sync_fetch_and_add(&sum->errors, weight);
	__sync_fetch_and_add(&sum->samples, 1);
	return 0;
}

#define SITE_OF(kind, nr) ((__u64)(kind) << 32 | (__u32)(nr))

#endif
