/* Children, names and exits of the traced processes. */

const volatile struct ended ended_layout = {}; /* as trail_layout */

__u32 processes_gone;

/* CPU time (exact, and by ticks) of exited processes that were traced from their start, whether or not they were waited for. */
__u64 gone_ran_ns;
__u64 gone_user_ns;
__u64 gone_system_ns;

/* PIDs are reused: removes the previous owner's data, in case its exit was missed. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_forked, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = child->tgid, tid = child->pid;
	bool is_thread = child->tgid == parent->tgid;

	if (!watched(parent)) {
		if (!is_thread)
			bpf_map_delete_elem(&followed, &tgid);
		return 0;
	}
	bpf_map_delete_elem(&threads, &tid);
	if (is_thread)
		return 0;
	if (everyone) {
		/* In a trace of all processes, the child is found at its first request. */
		bpf_map_delete_elem(&followed, &tgid);
		return 0;
	}
	struct process_info info = { .leader = (__u64)child, .whole = 1 };
	bpf_get_current_comm(info.comm, sizeof(info.comm));
	if (bpf_map_update_elem(&followed, &tgid, &info, BPF_ANY))
		this_slot()->losses[LOSS_CHILD]++;
	return 0;
}

/* A command's times are negative until its threads' last switches are observed, which does not happen between windows. */
static __always_inline void process_ran(__u64 *sum, __u64 ns)
{
	if ((__s64)ns > 0)
		__sync_fetch_and_add(sum, ns);
}

/* The trace of a command begins at its exec: before, its process runs iotrail's code. */
static __noinline int command_begins(struct task_struct *task)
{
	struct cpu_slot *slot = this_slot();
	__u32 tgid = task->tgid;
	__u64 now = bpf_ktime_get_ns();
	/* The scheduler has not counted its current run yet. */
	__u64 ran_ns = awaited_since ? awaited_ran_ns + now - awaited_since : task->se.sum_exec_runtime;
	struct process_info info = {
		.executed_ns = now,
		.leader = (__u64)task,
		.whole = 1,
		.ran_ns = -ran_ns,
		.user_ns = -task->utime,
		.system_ns = -task->stime,
	};

	awaited_tgid = 0;
	bpf_get_current_comm(info.comm, sizeof(info.comm));
	if (bpf_map_update_elem(&followed, &tgid, &info, BPF_ANY)) {
		slot->losses[LOSS_CHILD]++;
		return 0;
	}
	if (!frozen)
		here(task, slot);
	if (!accounts_began_ns)
		return 0;
	struct thread_account *account =
		bpf_task_storage_get(&thread_accounts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (account) {
		account_opens(account, task, now);
		account->total.began.ran_ns = account->ran_ns = ran_ns;
		/* Its counters before the first window. */
		if (!account_span)
			account_closes(account, task, now);
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_executes, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct process_info *info = bpf_map_lookup_elem(&followed, &tgid);

	if (!info)
		return awaited_tgid == tgid ? command_begins(task) : 0;
	bpf_get_current_comm(info->comm, sizeof(info->comm));
	info->executed_ns = bpf_ktime_get_ns();
	/* If another thread called exec, that thread becomes the group leader. */
	if (info->leader)
		info->leader = (__u64)task;
	return 0;
}

/* Removes a thread's state at its exit, since thread IDs are reused. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exits, struct task_struct *task)
{
	struct cpu_slot *slot = this_slot();
	__u32 tid = task->pid;

	if (!watched(task))
		return 0;
	/* Its last switch is not observed by any program. */
	if (following && accounts_began_ns && !account_span) {
		struct thread_account *account =
			bpf_task_storage_get(&thread_accounts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (account) {
			__u64 now = bpf_ktime_get_ns();
			if (!account->number)
				account_opens(account, task, now);
			account_closes(account, task, now);
		}
	}
	if (counting) {
		here(task, slot);
		all_inline();
	}
	bpf_map_delete_elem(&threads, &tid);
	if (!bpf_map_delete_elem(&workers, &tid))
		__sync_fetch_and_sub(&workers_now, 1);
	return 0;
}

/* Runs after the exit, which may still post completions, and after the parent was notified. */
SEC("tp_btf/sched_process_free")
int BPF_PROG(process_freed, struct task_struct *task)
{
	__u32 tgid = task->tgid;

	if (task->pid != task->tgid)
		return 0;
	struct process_info *info = bpf_map_lookup_elem(&followed, &tgid);
	/* Its PID may have been reused already. */
	if (!info || (info->leader && info->leader != (__u64)task))
		return 0;
	struct ended ended = { .executed_ns = info->executed_ns, .ended_ns = bpf_ktime_get_ns(), .tgid = tgid };
	__builtin_memcpy(ended.comm, info->comm, sizeof(ended.comm));
	if (info->whole) {
		process_ran(&gone_ran_ns, info->ran_ns);
		process_ran(&gone_user_ns, info->user_ns);
		process_ran(&gone_system_ns, info->system_ns);
	}
	bpf_map_delete_elem(&followed, &tgid);
	__sync_fetch_and_add(&processes_gone, 1);
	if (bpf_ringbuf_output(&trails_out, &ended, sizeof(ended), BPF_RB_NO_WAKEUP))
		this_slot()->losses[LOSS_NAME]++;
	return 0;
}

/* A kernel worker tears the ring down (io_ring_exit_work) after the ring's last requests. When the work ends, the ring's
 * memory is free and may be reused. The work's address is kept from its beginning, because a program cannot read the
 * function argument of the end event.
 */
const volatile __u64 ring_exit_work = 0;

__u32 rings_ending; /* no lookup while there are none */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u64); /* the work's address */
	__type(value, __u32);
} ending SEC(".maps");

static __always_inline __u64 ring_of_work(__u64 work)
{
	return work - bpf_core_field_offset(struct io_ring_ctx, exit_work);
}

SEC("tp_btf/workqueue_execute_start")
int BPF_PROG(ring_ends, struct work_struct *work)
{
	if ((__u64)work->func != ring_exit_work || !ring_exit_work)
		return 0;
	__u64 key = (__u64)work, address = ring_of_work(key);
	__u32 *number = bpf_map_lookup_elem(&ring_numbers, &address);
	if (reaps_asked)
		backlog_ends(ring_of_work(address_in_thread(work, this_slot())), 0);
	/* If the map is full, the ring counts as closed when its address is reused. */
	if (number && !bpf_map_update_elem(&ending, &key, number, BPF_NOEXIST))
		__sync_fetch_and_add(&rings_ending, 1);
	return 0;
}

SEC("tp_btf/workqueue_execute_end")
int BPF_PROG(ring_ended, struct work_struct *work)
{
	if (!rings_ending)
		return 0;
	__u64 key = (__u64)work, address = ring_of_work(key);
	__u32 *ended = bpf_map_lookup_elem(&ending, &key);
	if (!ended)
		return 0;
	__u32 number = *ended;
	if (!bpf_map_delete_elem(&ending, &key))
		__sync_fetch_and_sub(&rings_ending, 1);
	__u32 *now = bpf_map_lookup_elem(&ring_numbers, &address);
	if (now && *now == number)
		bpf_map_delete_elem(&ring_numbers, &address);
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &number);
	if (info && !info->others)
		ring_gone(info);
	return 0;
}
