/* System calls of the traced threads. */

/* Kernel time since the last call's return belongs to page faults, not to the next call. */
static __always_inline void kernel_time_outside(struct task_struct *task, struct cpu_slot *slot)
{
	if (slot->stime_tid == (__u32)task->pid && slot->stime_since == costly_since)
		slot->stime = task->stime;
}

static __always_inline int mode_page_fault_(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();

	if (not_counting() || !watched(task))
		return 0;
	slot->page_faults++;
	kernel_time_outside(task, slot);
	fire((struct pt_regs *)bpf_task_pt_regs(task), FIRED_PAGE_FAULT, 0, slot);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(mode_page_fault, unsigned long address, struct pt_regs *regs, unsigned long code)
{
	return UNDISTURBED(mode_page_fault_());
}

/* Whether the current thread is traced. Its switch-in is missed if no BPF program ran for the previous thread. The task is
 * then checked, an untraced one once for all its consecutive calls. Does not load the thread's state: the 6.1 verifier
 * rejects that.
 */
static __always_inline bool traced_caller(struct cpu_slot *slot)
{
	if (slot->current != CURRENT_UNSEEN)
		return true;
	struct task_struct *task = bpf_get_current_task_btf();
	if (slot->untraced_caller == (__u32)task->pid)
		return false;
	if (watched(task))
		return true;
	if (awaited_tgid != (__u32)task->tgid)
		slot->untraced_caller = task->pid;
	return false;
}

/* Attached only if the load cannot count its interface's system calls, since the program costs time on each call. One event
 * per call, at its exit.
 */
static __always_inline int mode_sys_exit_(struct pt_regs *regs, long ret)
{
	struct cpu_slot *slot = this_slot();
	long nr = syscall_nr(regs);

	slot->costly++;
	/* The most frequent case. */
	if (following && nr == NR_io_uring_enter) {
		bool traced = traced_caller(slot);
		slot->waiting = slot->slept = 0;
		if (slot->submitting)
			submission_ends();
		if (counting && traced) {
			slot->syscalls++;
			count_call(regs, nr, ret);
		}
		return 0;
	}
	struct task_struct *task = bpf_get_current_task_btf();
	nr = call_number(task, nr);
	/* The new thread made no call. */
	if (!ret && makes_a_thread(nr))
		return 0;
	bool rw = nr == NR_pread64 || nr == NR_pwrite64 || nr == NR_I386_pread64 || nr == NR_I386_pwrite64;
	long aio = aio_number(nr);
	if (following && counting && aio_calls(aio) && (slot->current != CURRENT_UNSEEN || adopted(task)))
		aio_returned(regs, aio, ret, aio != nr);
	if (following ? !counting || !traced_caller(slot) : !watched(task))
		return 0;
	slot->syscalls++;
	if (following) {
		count_call(regs, nr, ret);
		if (slot->submits)
			slot->stray_calls++;
	}
	if (rw)
		slot->rw_calls++;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(mode_sys_exit, struct pt_regs *regs, long ret)
{
	return UNDISTURBED(mode_sys_exit_(regs, ret));
}
