/* The followed processes' children, names and ends. */

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_forked, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = child->tgid;

	if (everyone || child->tgid == parent->tgid || !watched(parent))
		return 0;
	struct process_info info = {};
	bpf_get_current_comm(info.comm, sizeof(info.comm));
	if (bpf_map_update_elem(&followed, &tgid, &info, BPF_ANY))
		this_slot()->lost++;
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_executes, struct task_struct *task)
{
	__u32 tgid = task->tgid;
	struct process_info *info = bpf_map_lookup_elem(&followed, &tgid);

	if (!info)
		return 0;
	bpf_get_current_comm(info->comm, sizeof(info->comm));
	info->executed_ns = bpf_ktime_get_ns();
	return 0;
}

/* Its state goes with a thread: numbers are given anew. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exits, struct task_struct *task)
{
	struct cpu_slot *slot = this_slot();
	__u32 tid = task->pid;

	if (!watched(task))
		return 0;
	if (counting) {
		here(task, slot);
		all_inline();
	}
	bpf_map_delete_elem(&threads, &tid);
	if (!bpf_map_delete_elem(&workers, &tid))
		__sync_fetch_and_sub(&workers_now, 1);
	return 0;
}
