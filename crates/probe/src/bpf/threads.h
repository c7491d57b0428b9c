/* Threads that use a ring: they submit its traced requests, or wait in io_uring_enter for its completions. */
#ifndef IOTRAIL_THREADS_H
#define IOTRAIL_THREADS_H

#include "follow.h"

/* One entry if requests are not traced. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct ring_thread_key);
	__type(value, struct ring_thread);
} ring_threads SEC(".maps");

/* The thread or the ring differs from the last one on this CPU. The name is the thread's name at this first use: a thread
 * that has no name of its own yet has the program's. The stack frame is kept small, because callers' frames are large.
 */
__noinline int ring_thread_turns(__u32 ring, __u32 tid)
{
	struct cpu_slot *slot = this_slot();
	struct ring_thread fresh = {};
	struct ring_thread_key key = slot->last_thread;
	__u64 waits = slot->last_thread_waits;

	/* A reader on another CPU must never see the old count under the new key. */
	slot->last_thread_waits = 0;
	barrier();
	slot->last_thread.ring = ring;
	slot->last_thread.tid = tid;
	if (waits) {
		struct ring_thread *known = bpf_map_lookup_elem(&ring_threads, &key);
		if (known)
			__sync_fetch_and_add(&known->waits, waits);
		else
			slot->losses[LOSS_WAIT] += waits;
	}
	key.ring = ring;
	key.tid = tid;
	if (bpf_map_lookup_elem(&ring_threads, &key))
		return 0;
	bpf_get_current_comm(fresh.comm, sizeof(fresh.comm));
	bpf_map_update_elem(&ring_threads, &key, &fresh, BPF_NOEXIST);
	return 0;
}

/* The current thread uses this ring. `waits`: number of waits that it begins. */
static __always_inline void uses_ring(__u32 ring, __u32 tid, __u32 waits, struct cpu_slot *slot)
{
	if (slot->last_thread.ring != ring || slot->last_thread.tid != tid)
		ring_thread_turns(ring, tid);
	slot->last_thread_waits += waits;
}

/* include/uapi/linux/io_uring.h */
#define IORING_ENTER_EXT_ARG (1U << 3)
#define IORING_ENTER_EXT_ARG_REG (1U << 6)
#define IORING_ENTER_NO_IOWAIT (1U << 7)
#define MIN_WAIT_AT 12 /* offset of min_wait_usec in struct io_uring_getevents_arg */

/* Counts the options of an io_uring_enter that begins to wait. */
static __noinline int count_wait(struct io_ring_ctx *ring, __u32 number, bool by_loop)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct ring_count *count = ring_of(number, this_slot());
	__u32 flags = call_argument(regs, 4), min_wait = 0;

	count->waits++;
	if (by_loop) {
		count->waits_loop++;
		return 0;
	}
	if (flags & IORING_ENTER_NO_IOWAIT)
		count->waits_no_iowait++;
	if (!(flags & IORING_ENTER_EXT_ARG))
		return 0;
	if (flags & IORING_ENTER_EXT_ARG_REG) {
		count->waits_registered++;
		if (bpf_core_field_exists(ring->cq_wait_arg)) {
			__u64 at = (__u64)BPF_CORE_READ(ring, cq_wait_arg) + call_argument(regs, 5);
			min_wait = BPF_CORE_READ((struct io_uring_reg_wait *)at, min_wait_usec);
		}
	} else {
		bpf_probe_read_user(&min_wait, sizeof(min_wait), (void *)(call_argument(regs, 5) + MIN_WAIT_AT));
	}
	if (min_wait)
		count->waits_min++;
	return 0;
}

static __noinline int waits_on_ring(void *ring, __u32 tid, bool by_loop)
{
	struct cpu_slot *slot = this_slot();

	__u32 number = ring_number(ring, slot);
	uses_ring(number, tid, 1, slot);
	count_wait(ring, number, by_loop);
	return 0;
}

#endif
