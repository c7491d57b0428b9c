/* Residence time of completions in the CQ, from posting to reaping. Reaping is invisible to the kernel: the program writes
 * the new head to shared memory. The probes read the head at events that occur anyway. Two times are thus known per
 * completion: the last sample that found the completion in the queue, and the first that did not.
 *
 * Only some traced completions are sampled: the first of each ring, then 1 in 8. Each ring has its own queue of samples in
 * posting order, which is also the reaping order: the head passes the oldest first. If the queue is full, every second
 * sample is dropped, and the weights of the others double.
 *
 * Since Linux 6.0 the kernel advances its cached tail past the entry before programs on io_uring_complete run (io_get_cqe
 * comes first). A completion is reaped once the head reaches that tail.
 */
#ifndef IOTRAIL_REAP_H
#define IOTRAIL_REAP_H

#include "cq_backlog.h"

/* Intervals at which the thread's state is accounted. */
#define LYING_SPAN_NS 50000

/* Accounts time during which the ring's thread waited for a CPU: it cannot have reaped since the last sample. */
static __noinline int backlog_starves(struct cq_backlog *q, __u64 now)
{
	if (!q)
		return 0;
	struct task_struct *task = (struct task_struct *)q->task;
	__u64 since = now - q->checked_ns;

	q->checked_ns = now;
	if (!q->tid || BPF_CORE_READ(task, pid) != (int)q->tid)
		return 0;
	if (!is_on_cpu(task) && !BPF_CORE_READ(task, __state))
		q->starved_ns += since;
	return 0;
}

/* The current thread uses the ring. Ignores SQPOLL threads. */
static __always_inline void backlog_used(struct cq_backlog *q)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (task->flags & PF_IO_WORKER)
		return;
	q->task = bpf_get_current_task();
	q->tid = task->pid;
}

/* Samples a ring, identified by its queue's slot and its address. `weight`: a completion was just posted and is sampled with
 * this weight; 0: none. `wants`: the program begins to wait for this many completions. Returns the number of samples left.
 */
__noinline int backlog_look(__u32 place, __u64 address, __u32 weight, __u32 ring, __u32 wants)
{
	struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);

	if (!q || !counting || (!q->count && !weight && !wants))
		return 0;
	if (!(weight || wants ? backlog_lock(q) : backlog_try(q))) {
		stays_lose(STAY_BUSY, !!weight);
		return 0;
	}
	if (q->ring_address != address) {
		backlog_unlock(q);
		return 0;
	}
	/* A queued completion is still in the CQ unless the head has passed it; then it was reaped between the last sample and this one. */
	__u64 now = bpf_ktime_get_ns();
	struct io_ring_ctx *ctx = (struct io_ring_ctx *)address;
	struct io_rings *rings = BPF_CORE_READ(ctx, rings);
	__u32 head = 0;
	int unread = bpf_core_read(&head, sizeof(head), &rings->cq.head);
	__u32 tail = BPF_CORE_READ(ctx, cached_cq_tail);
	__u32 depth = tail - head;

	if (!q->count) {
		q->rings = (__u64)rings;
		q->cq_entries = BPF_CORE_READ(ctx, cq_entries);
		q->deepest = 0;
	}
	if (unread || !rings || q->rings != (__u64)rings || depth > q->cq_entries) {
		backlog_drop(q, place);
		backlog_unlock(q);
		stays_lose(STAY_DROPPED, !!weight);
		return 0;
	}
	if (depth > q->deepest)
		q->deepest = depth;
	if (!q->count)
		q->checked_ns = now;
	else if (now - q->checked_ns > LYING_SPAN_NS)
		backlog_starves(q, now);
	if (q->wanted && (__s32)(tail - q->wanted_end) >= 0) {
		q->wanted = 0;
		q->due_end = q->wanted_end;
		q->due_ns = now;
	}
	struct lying *oldest = &q->entries[q->first & (LYING_MAX - 1)];
	if (q->count && (__s32)(head - oldest->end) >= 0)
		backlog_leave(q, place, bpf_ktime_get_ns(), head);
	q->looked_ns = now;
	if (wants) {
		q->wanted = wants > 1;
		q->wanted_end = head + wants;
		backlog_used(q);
	}
	if (weight) {
		if (q->count == LYING_MAX)
			backlog_thin(q, place);
		struct lying *l = &q->entries[(q->first + q->count) & (LYING_MAX - 1)];
		l->posted_ns = now;
		l->starved_ns = q->starved_ns;
		l->end = tail;
		l->ring = ring;
		l->weight = weight;
		l->depth = depth;
		backlog_used(q);
		q->count++;
		backlog_add(place, 1);
	}
	int left = q->count;
	backlog_unlock(q);
	return left;
}

/* A traced completion was posted to the slot's ring. */
__noinline int backlog_posted(__u32 weight)
{
	struct cpu_slot *slot = this_slot();
	__u32 place = backlog_find_or_make(slot->ring_address);
	struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);

	if (!q) {
		stays_lose(STAY_NO_QUEUE, 1);
		return 0;
	}
	__u32 shift = q->thinned + (q->posted >= LYING_ALL ? LYING_SHIFT : 0);
	q->posted += q->posted < LYING_ALL;
	if (shift > 16)
		shift = 16;
	bool chosen = !(bpf_get_prandom_u32() & ((1u << shift) - 1));
	if (!chosen && !q->wanted)
		return 0;
	backlog_look(place, slot->ring_address, chosen ? weight << shift : 0, chosen ? whole_ring(slot->ring) : 0, 0);
	backlog_paces[bpf_get_smp_processor_id() & (IOTRAIL_MAX_CPUS - 1)].skip = 0;
	return 0;
}

/* An event on the ring while completions are sampled. */
__noinline int backlog_seen(__u64 ring)
{
	__u32 place = backlog_find(ring);

	return place == NO_PLACE ? 0 : backlog_look(place, ring, 0, 0, 0);
}

/* The program submits to the slot's ring. */
__noinline int backlog_submits(void)
{
	struct backlog_pace *pace = &backlog_paces[bpf_get_smp_processor_id() & (IOTRAIL_MAX_CPUS - 1)];

	if (pace->skip) {
		pace->skip--;
		return 0;
	}
	__u32 before = backlog_now;
	backlog_seen(this_slot()->ring_address);
	pace->next = backlog_now < before ? 0 : pace->next * 2 + 1;
	if (pace->next > LYING_SKIP_MAX)
		pace->next = LYING_SKIP_MAX;
	pace->skip = pace->next;
	return 0;
}

/* The program begins to wait for completions that are not available yet. Available ones stay in the queue because it waits for more. */
__noinline int backlog_waits(__u64 ring, __u32 wants)
{
	__u32 place = wants > 1 ? backlog_find_or_make(ring) : backlog_find(ring);

	if (place != NO_PLACE)
		backlog_look(place, ring, 0, 0, wants ? wants : 1);
	return 0;
}

/* Maximum number of queues sampled per check of all queues. */
#define LYING_LOOKS 32

struct walk {
	__u32 place;
	__u32 looks;
};

static int backlog_walks(__u32 i, struct walk *walk)
{
	__u32 place = walk->place;

	if (place >= CQ_BACKLOGS || walk->looks >= LYING_LOOKS)
		return 1;
	if (!(place % LYING_GROUP) && !backlog_groups[(place & (CQ_BACKLOGS - 1)) / LYING_GROUP]) {
		walk->place = place + LYING_GROUP;
		return 0;
	}
	walk->place = place + 1;
	struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);
	if (q && q->count) {
		backlog_look(place, q->ring_address, 0, 0, 0);
		walk->looks++;
	}
	return 0;
}

/* Called at timer interrupts and context switches; runs once per tick. */
__noinline int backlog_ticks(void)
{
	__u32 now = bpf_jiffies64();

	if (backlog_jiffy == now)
		return 0;
	backlog_jiffy = now;
	struct walk walk = { .place = backlog_cursor };
	bpf_loop(CQ_BACKLOGS, backlog_walks, &walk, 0);
	backlog_cursor = walk.place >= CQ_BACKLOGS ? 0 : walk.place;
	return 0;
}

/* The current thread created a ring with an SQPOLL thread. The SQPOLL thread posts, and the probes may not observe the program again. */
__noinline int backlog_made(__u64 ring)
{
	__u32 place = backlog_find_or_make(ring);
	struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);

	if (q)
		backlog_used(q);
	return 0;
}

/* The ring is about to be torn down, or its address now belongs to another ring (`gone`). */
__noinline int backlog_ends(__u64 ring, __u32 gone)
{
	__u32 place = backlog_find(ring);

	if (place == NO_PLACE)
		return 0;
	if (!gone && counting)
		backlog_look(place, ring, 0, 0, 0);
	struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);
	if (!q || !backlog_lock(q))
		return 0;
	if (gone || !counting)
		backlog_drop(q, place);
	else if (q->count)
		backlog_leave(q, place, 0, 0);
	q->posted = q->wanted = q->tid = 0;
	q->due_ns = 0;
	q->ring_address = 0;
	backlog_unlock(q);
	return 0;
}

/* Whether there is anything to sample; reads a single counter. */
static __always_inline bool some_lie(void)
{
	return reaps_asked && backlog_now;
}

#endif
