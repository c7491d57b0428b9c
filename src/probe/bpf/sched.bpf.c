/* Context switches and wake-ups of the watched threads. */

/* Its last switch: what it posted on its way out was posted inline, and nothing of it stays. */
static __always_inline void thread_dies(struct task_struct *task, struct cpu_slot *slot)
{
	__u32 tid = task->pid;

	if (!not_counting())
		all_inline();
	leaves_place(slot);
	bpf_map_delete_elem(&threads, &tid);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switched, bool preempt, struct task_struct *prev, struct task_struct *next, unsigned int prev_state)
{
	struct cpu_slot *slot = this_slot();
	bool out = slot->tid == (__u32)prev->pid && slot->tid ? true : watched(prev);
	bool in = watched(next);

	if (following) {
		slot->running = (__u64)next;
		slot->switched++;
	}

	/* First: from here on others may send it kicks, and have since the scheduler made it the CPU's current task, just before. */
	slot->watched_here = in;
	slot->waking = 0;
	if (!out && !in)
		return 0;
	if (frozen) {
		slot->tid = 0;
		slot->current = CURRENT_UNSEEN;
		if (in)
			takes_place(next, slot);
		return 0;
	}
	if (out) {
		if (!not_counting())
			slot->switches++;
		remember_mm((__u64)prev->mm);
		bool asleep = !preempt && prev_state != 0;
		if (recording)
			record_switched_out(asleep, prev, slot);
		here(prev, slot);
		/* A sleep of io_uring_enter's wait; other sleeps leave no mark. */
		if (asleep && slot->waiting) {
			struct entry entry;
			entry_of(prev, &entry, false);
			if (entry.nr == NR_io_uring_enter && !entry.finished)
				slot->slept = 1;
			else
				slot->waiting = slot->slept = 0;
		}
		if (!preempt && prev_state & TASK_DEAD)
			thread_dies(prev, slot);
		else
			park(slot);
	}
	if (in) {
		if (recording)
			record_plain(EVENT_SWITCHED_IN, next->pid, slot);
		unpark(next, slot);
		if (following && slot->current == CURRENT_HELPER && next->worker_private) {
			__u32 tid = next->pid, once = 1;
			if (!not_counting() && !bpf_map_lookup_elem(&workers, &tid)) {
				if (bpf_map_update_elem(&workers, &tid, &once, BPF_NOEXIST)) {
					slot->losses[LOSS_WORKER]++;
					return 0;
				}
				__u32 now = __sync_fetch_and_add(&workers_now, 1) + 1;
				__sync_fetch_and_add(&workers_made, 1);
				if (now > workers_most)
					workers_most = now;
			}
		}
	}
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waked, struct task_struct *task)
{
	struct cpu_slot *slot = this_slot();

	if (!watched(task)) {
		slot->waking = 0;
		return 0;
	}
	slot->waking = address_at(task, slot, 3);
	if (creditable(slot) && waits_for_io(task))
		credit(slot);
	if (recording)
		record_woken(task, slot);
	__u32 tid = task->pid;
	struct thread_state *state = bpf_map_lookup_elem(&threads, &tid);
	if (!state)
		return 0;
	if (following)
		state->woken_ns = bpf_ktime_get_ns();
	state->waker_cpu = bpf_get_smp_processor_id();
	state->waker = context_of(slot, &state->waker_nr);
	return 0;
}
