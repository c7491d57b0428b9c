/* Context switches and wake-ups of the traced threads. */

const volatile struct sq_ended sq_ended_layout = {}; /* as trail_layout */

/* "iou-sqp-": an SQPOLL thread sets this name at its start (io_uring/sqpoll.c). Without the name an exiting io-wq worker
 * would look the same, because the kernel clears its worker structure first.
 */
#define SQ_THREAD_NAME 0x2d7071732d756f69ull
#define WORKER_NAME 0x2d6b72772d756f69ull /* "iou-wrk-" */

__u64 gone_workers_ns; /* CPU time of exited io-wq workers, each from its start */

/* Sends the exiting thread's final counters: at the next sample /proc no longer shows the thread. */
static __noinline int helper_dies(struct task_struct *task)
{
	struct sq_ended ended = {};
	__u64 name = 0;

	bpf_probe_read_kernel(&name, sizeof(name), task->comm);
	if (name == WORKER_NAME)
		__sync_fetch_and_add(&gone_workers_ns, BPF_CORE_READ(task, se.sum_exec_runtime));
	if (name != SQ_THREAD_NAME)
		return 0;
	ended.ran_ns = BPF_CORE_READ(task, se.sum_exec_runtime);
	ended.started_ns = BPF_CORE_READ(task, start_time);
	ended.ended_ns = bpf_ktime_get_ns();
	/* Includes this switch. */
	ended.sleeps = BPF_CORE_READ(task, nvcsw) - 1;
	ended.tid = BPF_CORE_READ(task, pid);
	ended.tgid = BPF_CORE_READ(task, tgid);
	bpf_ringbuf_output(&trails_out, &ended, sizeof(ended), BPF_RB_NO_WAKEUP);
	return 0;
}

/* The thread's last switch: completions posted during its exit were posted inline, and its state is dropped. */
static __always_inline void thread_dies(struct task_struct *task, struct cpu_slot *slot)
{
	__u32 tid = task->pid, tgid = task->tgid;
	struct process_info *info = following ? bpf_map_lookup_elem(&followed, &tgid) : 0;

	if (info) {
		__sync_fetch_and_add(&info->ran_ns, task->se.sum_exec_runtime);
		__sync_fetch_and_add(&info->user_ns, task->utime);
		__sync_fetch_and_add(&info->system_ns, task->stime);
		if (task->flags & PF_IO_WORKER && !task->worker_private)
			helper_dies(task);
	}
	if (!not_counting())
		all_inline();
	leaves_place(slot);
	bpf_map_delete_elem(&threads, &tid);
}

/* An io-wq worker is switched in. */
__noinline int worker_comes(__u32 tid)
{
	struct worker *known = bpf_map_lookup_elem(&workers, &tid);
	struct worker fresh = { .free_ns = bpf_ktime_get_ns() };

	if (known) {
		if (known->idle)
			*known = fresh;
		return 0;
	}
	if (bpf_map_update_elem(&workers, &tid, &fresh, BPF_NOEXIST)) {
		this_slot()->losses[LOSS_WORKER]++;
		return 0;
	}
	__u32 now = __sync_fetch_and_add(&workers_now, 1) + 1;
	__sync_fetch_and_add(&workers_made, 1);
	if (now > workers_most)
		workers_most = now;
	return 0;
}

static __noinline int worker_goes(struct task_struct *task)
{
	__u32 tid = task->pid;
	struct io_worker *worker = task->worker_private;
	struct worker *known = worker && !BPF_CORE_READ(worker, cur_work) ? bpf_map_lookup_elem(&workers, &tid) : 0;

	if (known)
		known->idle = 1;
	return 0;
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

	/* Set first: other CPUs may send the thread kicks from now on. They could since shortly before, when the scheduler
	 * made it the CPU's current task.
	 */
	slot->watched_here = in;
	slot->waking = 0;
	if (slot->in_softirq || slot->preempted)
		switches_softirq(prev, next, slot);
	if (some_lie()) {
		/* At the beginning and end of a sleep; at every switch if timer interrupts have no tracepoint. */
		if (out || in)
			backlog_seen(slot->ring_address);
		else
			backlog_ticks();
	}
	if (following && account_span) {
		__u64 now = bpf_ktime_get_ns();
		if (out && slot->busy_since)
			busy_poll_ends(prev);
		if (out)
			account_out(prev, preempt || !prev_state, prev_state, now, slot);
		if (in)
			account_in(next, now, slot);
		run_begins(next, now);
	}
	if (!out && !in) {
		if (awaited_tgid && awaited_tgid == (__u32)next->tgid) {
			awaited_since = bpf_ktime_get_ns();
			awaited_ran_ns = next->se.sum_exec_runtime;
		}
		return 0;
	}
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
		/* By now it may have used native aio. */
		if (costly_gone && prev->mm && BPF_CORE_READ(prev->mm, ioctx_table))
			calls_needed = 1;
		bool asleep = !preempt && prev_state != 0;
		if (bpf_core_field_exists(((struct io_ring_ctx *)0)->loop_step) && following && asleep && slot->tid == (__u32)prev->pid)
			loop_sleeps(prev);
		if (recording)
			record_switched_out(asleep, prev, slot);
		here(prev, slot);
		if (slot->waiting && left_the_call(prev, slot))
			slot->waiting = slot->slept = 0;
		/* A sleep in io_uring_enter's wait. Other sleeps are not marked. */
		if (asleep && (slot->waiting || slot->pending)) {
			struct entry entry;
			entry_of(prev, &entry, false);
			if (entry.nr == NR_io_uring_enter && !entry.finished) {
				slot->slept = slot->waiting;
			} else {
				slot->waiting = slot->slept = 0;
				/* No run is in progress in another call. A reader finds everything counted while the thread sleeps. */
				if (entry.nr >= 0 && !entry.finished && slot->pending)
					all_inline();
			}
		}
		if (!preempt && prev_state & TASK_DEAD)
			thread_dies(prev, slot);
		else
			park(slot);
		if (following && asleep && prev->flags & PF_IO_WORKER && prev->worker_private)
			worker_goes(prev);
	}
	if (in) {
		if (recording)
			record_plain(EVENT_SWITCHED_IN, next->pid, slot);
		unpark(next, slot);
		if (following && slot->current == CURRENT_HELPER && next->worker_private && !not_counting())
			worker_comes(next->pid);
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
	__u32 tid = task->pid;
	struct thread_state *state = bpf_map_lookup_elem(&threads, &tid);
	if (creditable(slot) && waits_for_io(task, state))
		credit(slot);
	if (recording)
		record_woken(task, slot);
	__u64 now = following ? bpf_ktime_get_ns() : 0;
	if (account_span && now) {
		struct thread_account *account = bpf_task_storage_get(&thread_accounts, task, 0, 0);
		if (account)
			account->woken_ns = now;
	}
	if (!state)
		return 0;
	if (now)
		state->woken_ns = now;
	state->waker_cpu = bpf_get_smp_processor_id();
	state->waker = context_of(slot, &state->waker_nr);
	return 0;
}
