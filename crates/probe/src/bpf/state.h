/* State shared by all programs: the filter, the per-CPU slots, the per-thread state.
 *
 * The verifier walks through a static function once per path to it, but through a global function once per program. A
 * function reached by many paths of a large program is therefore global, if its arguments are numbers.
 */
#ifndef IOTRAIL_STATE_H
#define IOTRAIL_STATE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../record.h"
#include "arch.h"
#include "held.h"

/* Filters and options are constants, so that the verifier removes unused code. */
const volatile __u32 watched_tgid = 0;
const volatile __u32 unwatched_tid = 0; /* iotrail's thread that only waits for the load */
const volatile __u64 aio_complete_address = 0;
const volatile __u64 blkdev_end_io_async_address = 0;
const volatile __u64 blkdev_end_io_address = 0;

const volatile bool following = false; /* count by ring and trace requests: see follow.h */
const volatile bool everyone = false;
const volatile __u32 own_tgid = 0;
const volatile enum loss loss_layout = 0; /* never read: exports the names to user space */
__u32 frozen;   /* threads' state is not moved: user space reads or resets it */
__u32 counting; /* if `following`: the traced span is open */
__u32 awaited_tgid; /* process of a command before its exec, with which its trace begins; 0: none */
__u64 awaited_since, awaited_ran_ns; /* its last switch-in, and its CPU time then */

/* Programs with frequent events are expensive, and may be detached temporarily (watch/costly.rs). */
__u64 costly_since; /* start of the current attachment, CLOCK_MONOTONIC; 0: attached from the start */
__u32 costly_gone;  /* currently detached */
__u32 calls_needed; /* native or POSIX AIO is used, whose counts depend on these programs */

struct cpu_slot slots[IOTRAIL_MAX_CPUS];
#define MMS_MAX 16
__u64 watched_mms[MMS_MAX]; /* mm_structs of the traced processes; only compared, and read with probe reads */

/* Hashes allocate only used entries (BPF_F_NO_PREALLOC). Each entry of the limit costs at most 16 bytes, for the buckets. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, struct delivery_key);
	__type(value, __u64);
} deliveries SEC(".maps");

static __always_inline struct cpu_slot *this_slot(void)
{
	return &slots[bpf_get_smp_processor_id() & (IOTRAIL_MAX_CPUS - 1)];
}

/* Traced processes, if there can be several. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, __u32); /* tgid */
	__type(value, struct process_info);
} followed SEC(".maps");

/* A typed pointer as a plain number: the verifier allows storing a pointer, and reads it back as a number. Each interruption
 * level has its own slot for it.
 */
static __always_inline __u64 address_at(const void *pointer, struct cpu_slot *slot, __u32 level)
{
	volatile __u64 *place = &slot->addresses[level];

	*place = (__u64)pointer;
	return *place;
}

static __always_inline __u64 address_of(const void *pointer, struct cpu_slot *slot)
{
	return address_at(pointer, slot, slot->in_irq ? 3 : slot->in_vector ? 2 : slot->in_softirq ? 1 : 0);
}

/* The same for thread context, where most io_uring events occur. */
static __always_inline __u64 address_in_thread(const void *pointer, struct cpu_slot *slot)
{
	return address_at(pointer, slot, 0);
}

static __always_inline bool not_counting(void)
{
	return following && !counting;
}

static __always_inline bool watched_thread(__u32 tid, __u32 tgid)
{
	if (following)
		return tid && tid != unwatched_tid && bpf_map_lookup_elem(&followed, &tgid);
	return tgid == watched_tgid && tid != unwatched_tid;
}

/* Linux 7.x has a byte there, earlier kernels an int. */
static __always_inline bool is_on_cpu(struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu);
}

static __always_inline bool watched(struct task_struct *task)
{
	return watched_thread(task->pid, task->tgid);
}

static __always_inline bool same(const __u64 *a, const __u64 *b, int words)
{
	for (int i = 0; i < words; i++)
		if (a[i] != b[i])
			return false;
	return true;
}

/* Adds to a counter in a hash. If another CPU inserts the key concurrently, the addition is repeated on its entry. Returns
 * whether the map had space.
 */
static __always_inline bool add(void *map, const void *key, __u64 n)
{
	__u64 *value = bpf_map_lookup_elem(map, key);
	if (!value) {
		if (!bpf_map_update_elem(map, key, &n, BPF_NOEXIST))
			return true;
		value = bpf_map_lookup_elem(map, key);
		if (!value)
			return false;
	}
	__sync_fetch_and_add(value, n);
	return true;
}

static __always_inline void add_or_lose(void *map, const void *key, __u64 n, enum loss loss, struct cpu_slot *slot)
{
	if (!add(map, key, n))
		slot->losses[loss] += n;
}

/* The same, through the slot's last key. */
#define ADD_CACHED(map, last, key, n, loss, slot)                                                  \
	do {                                                                                       \
		if (!same((__u64 *)&(slot)->last, (__u64 *)&(key), sizeof(key) / sizeof(__u64))) { \
			if ((slot)->last##_count)                                                  \
				add_or_lose(&map, &(slot)->last, (slot)->last##_count, loss, slot); \
			(slot)->last##_count = 0;                                                  \
			barrier();                                                                 \
			(slot)->last = (key);                                                      \
		}                                                                                  \
		(slot)->last##_count += (n);                                                       \
	} while (0)

/* Records an action in the outermost entry of the traced thread; returns false in a nested entry. An interrupt can arrive
 * within a softirq or a page fault of that entry, and no other event shows this.
 */
static __always_inline bool fire(struct pt_regs *regs, enum waker what, __u32 nr, struct cpu_slot *slot)
{
	__u64 id = entry_id(regs);

	if (slot->in_softirq || (slot->fired.done >> 32 == FIRED_PAGE_FAULT && slot->fired.entry == id))
		return false;
	slot->fired.done = (__u64)what << 32 | nr;
	slot->fired.entry = id;
	return true;
}

/* The action in the entry from which the traced thread now returns. The return runs task work with interrupts enabled, so
 * another interrupt may arrive at any point.
 */
static __always_inline enum waker fired_in(struct pt_regs *regs, __u32 *nr, struct cpu_slot *slot)
{
	__u64 done = *(volatile __u64 *)&slot->fired.done;

	if (slot->fired.entry != entry_id(regs))
		done = 0;
	*nr = (__u32)done;
	return done >> 32;
}

/* Resets the slot: no thread's state is loaded. */
static __always_inline void leaves_place(struct cpu_slot *slot)
{
	if (following) {
		__builtin_memset(slot->segments, 0, sizeof(slot->segments));
		slot->trails = slot->trails_waiting = slot->submitting = slot->submitted = slot->submits = 0;
		slot->links = 0;
		slot->last_request = 0;
		slot->aio_tail = 0;
		slot->busy_since = 0;
	}
	slot->tid = 0;
	slot->current = CURRENT_UNSEEN;
	slot->fired.done = WAKER_NONE;
	slot->pending = 0;
	slot->waiting = slot->slept = 0;
}

/* Without other evidence, a resumed wait ends its sleep within this time. */
#define AT_ONCE_NS 50000

/* include/linux/randomize_kstack.h: system calls shift their stack by a per-CPU random value, drawn on the way to user mode,
 * since 7.1 at each call. The value is constant if randomisation is disabled.
 */
extern const __u32 kstack_offset __attribute__((section(".ksyms"), weak));
extern const struct rnd_state kstack_rnd_state __attribute__((section(".ksyms"), weak));
bool stack_offsets_move;

static __always_inline __u32 stack_offset(void)
{
	if (&kstack_rnd_state)
		return ((const struct rnd_state *)bpf_this_cpu_ptr(&kstack_rnd_state))->s1;
	if (&kstack_offset)
		return *(const __u32 *)bpf_this_cpu_ptr(&kstack_offset);
	return 0;
}

/* Whether the thread has been in user mode since its switch-in, so that its current system call is not the one in which it
 * slept. Without stack offsets, this uses TIF_NOTIFY_RESUME: a thread with rseq(2), as with glibc, gets it at each switch
 * and loses it on the way to user mode. Since 6.19 it is set only at migrations and preemptions.
 */
static __always_inline bool left_the_call(struct task_struct *task, struct cpu_slot *slot)
{
	__u32 then = slot->came_with, now = (__u32)task->thread_info.flags;

	if (!then)
		return false;
	if (stack_offsets_move)
		return stack_offset() != slot->came_stack;
	if (gone_in_user_mode(then))
		return !(now & gone_in_user_mode(then));
	return following && bpf_ktime_get_ns() - slot->running_ns > AT_ONCE_NS;
}

/* Saves the state of the thread that leaves this CPU. */
static __always_inline void park(struct cpu_slot *slot)
{
	__u32 tid = slot->tid;

	if (!tid)
		return;
	struct thread_state *state = bpf_map_lookup_elem(&threads, &tid);
	if (!state && (slot->pending || slot->waiting || (following && (slot->submits || slot->aio_tail)))) {
		struct thread_state fresh = {};
		bpf_map_update_elem(&threads, &tid, &fresh, BPF_NOEXIST);
		state = bpf_map_lookup_elem(&threads, &tid);
		if (!state)
			slot->losses[LOSS_THREAD]++;
	}
	if (state) {
		state->fired = slot->fired;
		/* A later waker is kept: a thread may be woken before it is switched out. */
		if (slot->waker && !state->waker) {
			state->waker_nr = slot->waker_nr;
			state->waker_cpu = slot->waker_cpu;
			state->waker = slot->waker;
		}
		state->pending += slot->pending;
		state->waiting = slot->waiting;
		state->slept = slot->slept;
		if (following) {
			__builtin_memcpy(state->segments, slot->segments, sizeof(state->segments));
			state->trails = slot->trails;
			state->trails_waiting = slot->trails_waiting;
			state->submitted = slot->submitted;
			state->submits = slot->submits;
			state->submitting = slot->submitting;
			state->aio_tail = slot->aio_tail;
			state->aio_submit_ns = slot->aio_submit_ns;
		}
	}
	leaves_place(slot);
}

/* The traced thread runs on this CPU. */
static __always_inline void takes_place(struct task_struct *task, struct cpu_slot *slot)
{
	slot->tid = task->pid;
	slot->current = task->flags & PF_IO_WORKER ? CURRENT_HELPER : CURRENT_SUBMITTER;
	slot->waker = WAKER_NONE;
	slot->came_with = (__u32)task->thread_info.flags | CAME;
	__u32 offset = stack_offset();
	if (!stack_offsets_move && slot->came_stack && slot->came_stack != offset)
		stack_offsets_move = true;
	slot->came_stack = offset;
	slot->watched_here = 1;
	if (!following)
		return;
	slot->running_ns = bpf_ktime_get_ns();
	/* The last ring used on this CPU has a different number for this process. */
	if (slot->ring_tgid != (__u32)task->tgid) {
		slot->ring_tgid = task->tgid;
		slot->ring_address = 0;
	}
}

/* Loads the state of the traced thread on this CPU. */
static __always_inline void unpark(struct task_struct *task, struct cpu_slot *slot)
{
	__u32 tid = task->pid;
	struct thread_state *state = bpf_map_lookup_elem(&threads, &tid);

	takes_place(task, slot);
	if (!state) {
		slot->pending = slot->woken_ns = 0;
		slot->waiting = slot->slept = 0;
		return;
	}
	slot->fired = state->fired;
	slot->pending = state->pending;
	slot->waiting = state->waiting;
	slot->slept = state->slept;
	slot->waker_nr = state->waker_nr;
	slot->waker_cpu = state->waker_cpu;
	slot->waker = state->waker;
	/* If a wake-up is missed, the previous one must not be used instead. */
	state->waker = WAKER_NONE;
	state->pending = 0;
	state->waiting = state->slept = 0;
	if (following) {
		slot->woken_ns = state->woken_ns;
		__builtin_memcpy(slot->segments, state->segments, sizeof(slot->segments));
		slot->trails = state->trails;
		slot->trails_waiting = state->trails_waiting;
		slot->submitted = state->submitted;
		slot->submits = state->submits;
		slot->submitting = state->submitting;
		slot->aio_tail = state->aio_tail;
		slot->aio_submit_ns = state->aio_submit_ns;
		__builtin_memset(state->segments, 0, sizeof(state->segments));
		state->trails = state->trails_waiting = state->submitted = 0;
	}
}

/* The current thread is traced, whether or not its switch-in was observed (see docs/accuracy.md). */
static __always_inline void here(struct task_struct *task, struct cpu_slot *slot)
{
	if (slot->tid == (__u32)task->pid)
		return;
	park(slot);
	unpark(task, slot);
}

/* For native aio completions (aio.bpf.c) of iotrail's own load. */
static __always_inline void remember_mm(__u64 mm)
{
	if (following || !mm || !aio_complete_address)
		return;
	for (int i = 0; i < MMS_MAX; i++) {
		if (watched_mms[i] == mm)
			return;
		if (!watched_mms[i]) {
			watched_mms[i] = mm;
			return;
		}
	}
}

#endif
