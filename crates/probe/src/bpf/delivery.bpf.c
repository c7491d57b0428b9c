/* Delivery paths. The event of a task work run comes after the completions that the run posted. So the last `items` of the
 * pending completions belong to this run, and the earlier ones were posted inline, during submission.
 */

/* Adds to the map. A key that does not fit is counted with the process's other rings, so that its delivery path is still known. */
static __always_inline void deliver(struct delivery_key *key, __u64 n, struct cpu_slot *slot)
{
	if (add(&deliveries, key, n))
		return;
	key->ring = RING_OTHERS;
	add_or_lose(&deliveries, key, n, LOSS_COUNT, slot);
}

static __noinline int count_delivery(struct delivery_key *key, __u64 n)
{
	struct cpu_slot *slot = this_slot();

	if (!same((__u64 *)&slot->last_delivery, (__u64 *)key, sizeof(*key) / sizeof(__u64))) {
		struct delivery_key before = slot->last_delivery;
		__u64 count = slot->last_delivery_count;
		slot->last_delivery_count = 0;
		barrier();
		slot->last_delivery = *key;
		if (count)
			deliver(&before, count, slot);
	}
	slot->last_delivery_count += n;
	return 0;
}

static __always_inline void ran(__u64 items, bool all, void *tctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (items == 0 || not_counting())
		return;
	struct cpu_slot *slot = this_slot();
	if (slot->current == CURRENT_UNSEEN && !watched(task))
		return;
	slot->runs++;
	__u32 batch = 0;
	/* floor(log2(items)), bounded; items is small */
	for (__u32 i = 1; i < 16; i++)
		if (items >> i)
			batch = i;
	slot->run_batch[batch & 15]++;
	/* SQPOLL threads run task work hundreds of times per I/O. Their completions are identified by the thread. */
	if (task->flags & PF_IO_WORKER) {
		if (following && slot->trails)
			trails_end(0, 0, items, slot);
		return;
	}
	if (recording)
		record_run(items, all, task, slot);
	here(task, slot);
	__u64 pending = slot->pending;
	__u64 carried = items < pending && !all ? items : pending;
	if (following) {
		/* An item may post many completions (multishot). Completions of requests that were not submitted since the
		 * last run cannot be inline.
		 */
		if (pending > slot->submitted && pending - slot->submitted > carried)
			carried = pending - slot->submitted;
		slot->submitted = 0;
	}
	slot->pending = 0;
	if (!following)
		slot->inlined += pending - carried;

	struct delivery_key key = {};
	struct entry entry;
	entry_of(task, &entry, true);
	bool in_enter = entry.nr == NR_io_uring_enter && !entry.finished;
	if (!in_enter || (slot->slept && left_the_call(task, slot)))
		slot->waiting = slot->slept = 0;
	if (carried == 0) {
		if (following) {
			slot->pending = pending;
			all_inline();
		}
		return;
	}
	if (entry.nr < 0) {
		credit_return(tctx, slot);
		key.carrier = BY_RUN_AT_RETURN;
		key.entry = entry.address;
		key.waker = fired_in((struct pt_regs *)bpf_task_pt_regs(task), &key.waker_nr, slot);
		/* Only used if the kernel entry is a device interrupt. */
		key.nr = key.waker == WAKER_IRQ ? key.waker_nr + 1 : slot->last_irq;
	} else if (entry.finished) {
		key.carrier = BY_RUN_AT_EXIT;
		key.nr = entry.nr;
	} else {
		key.carrier = BY_RUN_IN_SYSCALL;
		key.nr = entry.nr;
		if (in_enter && slot->slept) {
			key.carrier = BY_RUN_AFTER_SLEEP;
			key.waker = slot->waker;
			/* Neither wake-up was observed. */
			key.waker_nr = slot->waker ? slot->waker_nr : 0;
			key.waker_cpu = slot->waker ? slot->waker_cpu : 0;
			slot->slept = 0;
			slot->waker = WAKER_NONE;
		}
	}
	if (!following) {
		count_delivery(&key, carried);
		return;
	}
	/* Per ring, the first `left` completions were posted inline. */
	__u64 left = pending - carried;
	for (int i = 0; i < SEGMENTS_MAX; i++) {
		struct segment *s = &slot->segments[i];
		__u32 inlined = s->count < left ? s->count : left;
		if (inlined)
			count_inlined(s->ring, inlined);
		left -= inlined;
		key.ring = s->ring;
		if (s->count > inlined)
			count_delivery(&key, s->count - inlined);
		s->count = 0;
	}
	if (slot->trails)
		trails_end(&key, pending - carried, items, slot);
}

static __always_inline int delivery_task_work_run_(void *tctx, unsigned int count)
{
	ran(count, false, tctx);
	return 0;
}

SEC("tp_btf/io_uring_task_work_run")
int BPF_PROG(delivery_task_work_run, void *tctx, unsigned int count)
{
	return UNDISTURBED(delivery_task_work_run_(tctx, count));
}

/* Run of DEFER_TASKRUN's own list. If the kernel loops over the list, it reports only the count of the last loop
 * (__io_run_local_work overwrites it, in 6.1 to 6.18 at least). All pending completions then count as this run's.
 */
static __always_inline int delivery_local_work_run_(void *ring, int count, unsigned int loops)
{
	if (count > 0)
		ran(count, loops > 1, 0);
	return 0;
}

SEC("tp_btf/io_uring_local_work_run")
int BPF_PROG(delivery_local_work_run, void *ring, int count, unsigned int loops)
{
	return UNDISTURBED(delivery_local_work_run_(ring, count, loops));
}

/* The current thread begins to wait: its next sleep is a wait for completions, not part of a submission. `wants`: how many
 * completions it waits for, including those in the queue.
 */
static __always_inline void wait_begins(__u64 ring, __u32 wants, __u32 tid, bool by_loop, struct cpu_slot *slot)
{
	if (recording)
		record_plain(EVENT_WAIT, tid, slot);
	if (slot->busy_since)
		busy_poll_ends(bpf_get_current_task_btf());
	/* No task work run is in progress here. */
	all_inline();
	if (some_lie() || (reaps_asked && counting && wants > 1))
		backlog_waits(ring, wants);
	if (slot->submitting)
		submission_ends();
	slot->waiting = 1;
	slot->slept = slot->came_with = 0;
	slot->waker = WAKER_NONE;
	if (following && counting)
		waits_on_ring((void *)ring, tid, by_loop);
}

static __always_inline int delivery_cqring_wait_(void *ring, int min_events)
{
	struct task_struct *task = bpf_get_current_task_btf();

	struct cpu_slot *slot = this_slot();
	if (slot->current == CURRENT_UNSEEN && !watched(task))
		return 0;
	here(task, slot);
	wait_begins(address_in_thread(ring, slot), min_events < 0 ? 0 : min_events, task->pid, false, slot);
	return 0;
}

SEC("tp_btf/io_uring_cqring_wait")
int BPF_PROG(delivery_cqring_wait, void *ring, int min_events)
{
	return UNDISTURBED(delivery_cqring_wait_(ring, min_events));
}

/* A BPF-driven ring has no wait event. When its thread goes to sleep, the ring shows whether the thread waits for
 * completions. A wait without a sleep is not observed.
 */
static __noinline int loop_sleeps(struct task_struct *task)
{
	struct cpu_slot *slot = this_slot();
	struct io_ring_ctx *ring = (struct io_ring_ctx *)slot->ring_address;

	if (!ring || !BPF_CORE_READ(ring, loop_step) || BPF_CORE_READ(ring, submitter_task) != task)
		return 0;
	__s32 missing = BPF_CORE_READ(ring, cq_wait_nr.counter);
	slot->waiting = slot->slept = 0;
	if (missing > 0) {
		__u32 there = BPF_CORE_READ(ring, rings, cq.tail) - BPF_CORE_READ(ring, rings, cq.head);
		wait_begins(slot->ring_address, missing + there, slot->tid, true, slot);
	}
	return 0;
}
