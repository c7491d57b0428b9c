/* Traces other programs: counts by ring and opcode, and one trail per selected request, from its submission to the delivery
 * path of its completion. Only if `following`.
 */
#ifndef IOTRAIL_FOLLOW_H
#define IOTRAIL_FOLLOW_H

#include "trails.h"
#include "rings.h"
#include "counts.h"

/* Sends the trail of a finished request and frees its slot. Identified by slot, since another thread may have a completed
 * request at the same address.
 */
static __always_inline void trail_end(struct trail *trail, __u32 index, struct cpu_slot *slot)
{
	if (bpf_ringbuf_output(&trails_out, trail, sizeof(*trail), BPF_RB_NO_WAKEUP))
		slot->trails_lost++;
	trail->serial++;
	retag_at(index, 0);
}

struct ending {
	struct delivery_key *key; /* null: all were inline */
	__u64 inlined;            /* number of pending completions posted inline, the first ones */
	__u32 items;
	__u32 next;
};

static int trail_ends(__u32 i, struct ending *ending)
{
	__u32 index = ending->next - 1;
	struct trail *trail = ending->next ? trail_at(index) : 0;

	if (!trail)
		return 1;
	ending->next = trail->next;
	struct delivery_key *key = ending->key;
	if (trail->carrier == BY_SQPOLL) {
		trail->run_items = ending->items;
	} else if (key && trail->position > ending->inlined) {
		trail->carrier = key->carrier;
		trail->nr = key->nr;
		trail->entry = key->entry;
		trail->waker = key->waker;
		trail->waker_nr = key->waker_nr;
		trail->waker_cpu = key->waker_cpu;
		trail->run_items = ending->items;
	} else {
		trail->carrier = BY_SUBMISSION;
	}
	trail_end(trail, index, this_slot());
	return 0;
}

/* Ends the completed trails of the current thread. Uses bpf_loop, because the verifier walks through a C loop once per iteration. */
static __always_inline void trails_end(struct delivery_key *key, __u64 inlined, __u32 items, struct cpu_slot *slot)
{
	struct ending ending = { .key = key, .inlined = inlined, .items = items, .next = slot->trails };

	slot->trails = slot->trails_waiting = 0;
	bpf_loop(TRAILS_WAITING_MAX, trail_ends, &ending, 0);
}

/* All pending completions of the current thread were posted inline. */
__noinline int all_inline(void)
{
	struct cpu_slot *slot = this_slot();

	if (!following) {
		slot->inlined += slot->pending;
		slot->pending = 0;
		return 0;
	}
	for (int i = 0; i < SEGMENTS_MAX; i++) {
		struct segment *s = &slot->segments[i];
		if (!s->count)
			break;
		count_inlined(s->ring, s->count);
		s->count = 0;
	}
	if (slot->trails)
		trails_end(0, 0, 0, slot);
	slot->pending = slot->submitted = 0;
	return 0;
}

/* In a trace of all processes, starts to trace a process at its first use of io_uring or aio. */
__noinline int adopt(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;

	/* Kernel threads work on behalf of other processes. */
	if (tgid == own_tgid || task->flags & PF_KTHREAD)
		return 0;
	struct process_info info = { .leader = (__u64)task->group_leader };
	comm_of(task, info.comm, sizeof(info.comm));
	if (!bpf_map_update_elem(&followed, &tgid, &info, BPF_ANY))
		return 1;
	this_slot()->losses[LOSS_COUNT]++;
	return 0;
}

static __always_inline bool adopted(struct task_struct *task)
{
	return watched(task) || (everyone && adopt());
}

#endif
