/* Traces other programs: counts by ring and opcode, and selected requests from their submission to the delivery path of
 * their completion (a trail each). Only if `following`.
 */
#ifndef IOTRAIL_FOLLOW_H
#define IOTRAIL_FOLLOW_H

#include "trails.h"
#include "rings.h"
#include "counts.h"

/* A traced request is finished: it is sent, and its slot is free. By slot, since another thread may have a
 * completed one of the same address.
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
	__u64 inlined;            /* this many of the pending completions, the first ones */
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

/* Ends the completed trails of the current thread. A helper's loop, since the verifier walks through a loop of C's once for
 * each of its turns.
 */
static __always_inline void trails_end(struct delivery_key *key, __u64 inlined, __u32 items, struct cpu_slot *slot)
{
	struct ending ending = { .key = key, .inlined = inlined, .items = items, .next = slot->trails };

	slot->trails = slot->trails_waiting = 0;
	bpf_loop(TRAILS_WAITING_MAX, trail_ends, &ending, 0);
}

/* What is pending on the current thread was posted inline. */
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

/* A process that uses io_uring or aio is traced from then on, if all processes are requested. */
__noinline int adopt(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;

	/* Kernel threads work on behalf of others. */
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
