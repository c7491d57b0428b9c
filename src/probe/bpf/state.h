/* What every program shares: the filter, the per-CPU slots, the per-thread state. */
#ifndef IOTRAIL_STATE_H
#define IOTRAIL_STATE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>
#include "../record.h"
#include "arch.h"

/* Filters and choices are constants, so that the verifier drops what a run does not need. */
const volatile __u32 watched_tgid = 0;
const volatile __u32 unwatched_tid = 0; /* the thread of ours that only waits for the load */
const volatile __u64 aio_complete_address = 0;
const volatile __u64 blkdev_end_io_async_address = 0;
const volatile __u64 blkdev_end_io_address = 0;

struct cpu_slot slots[IOTRAIL_MAX_CPUS];
__u64 watched_mm; /* address of the watched process's mm_struct; only compared, and read through probe reads */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 2048);
	__type(key, struct delivery_key);
	__type(value, __u64);
} deliveries SEC(".maps");

static __always_inline struct cpu_slot *this_slot(void)
{
	return &slots[bpf_get_smp_processor_id() & (IOTRAIL_MAX_CPUS - 1)];
}

static __always_inline bool watched(struct task_struct *task)
{
	return (__u32)task->tgid == watched_tgid && (__u32)task->pid != unwatched_tid;
}

static __always_inline struct thread_state *state_of(__u32 tid, struct cpu_slot *slot)
{
	struct thread_state *state = bpf_map_lookup_elem(&threads, &tid);
	if (state)
		return state;
	struct thread_state fresh = {};
	bpf_map_update_elem(&threads, &tid, &fresh, BPF_NOEXIST);
	state = bpf_map_lookup_elem(&threads, &tid);
	if (!state)
		slot->lost++;
	return state;
}

/* What runs on this CPU right now, besides the current thread. A softirq counts as its raiser's when that was an
 * interrupt: the block softirq as the device's, say, even where a thread (ksoftirqd) runs it later.
 */
static __always_inline enum waker context_of(struct cpu_slot *slot, __u32 *nr)
{
	if (slot->in_irq) {
		*nr = slot->in_irq - 1;
		return WAKER_IRQ;
	}
	if (slot->in_vector) {
		*nr = slot->in_vector - 1;
		return WAKER_VECTOR;
	}
	if (slot->in_softirq) {
		struct raiser *raiser = &slot->raisers[(slot->in_softirq - 1) & (SOFTIRQ_MAX - 1)];
		if (raiser->irq) {
			*nr = raiser->irq - 1;
			return WAKER_SOFTIRQ_OF_IRQ;
		}
		if (raiser->vector) {
			*nr = raiser->vector - 1;
			return WAKER_SOFTIRQ_OF_VECTOR;
		}
		*nr = slot->in_softirq - 1;
		return WAKER_SOFTIRQ;
	}
	*nr = 0;
	return WAKER_OTHER;
}

/* Adds to a counter in a per-CPU hash; a full map is a counted loss. Another CPU may put the same key there in between:
 * that is no failure, the counter is there then.
 */
static __always_inline void add(void *map, const void *key, __u64 n, struct cpu_slot *slot)
{
	__u64 *value = bpf_map_lookup_elem(map, key);
	if (!value) {
		__u64 zero = 0;
		bpf_map_update_elem(map, key, &zero, BPF_NOEXIST);
		value = bpf_map_lookup_elem(map, key);
	}
	if (value)
		*value += n;
	else
		slot->lost++;
}

#endif
