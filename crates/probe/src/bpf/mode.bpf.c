/* Entries to the kernel that the watched threads make themselves. */

static __always_inline int mode_page_fault_(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();

	if (not_counting() || !watched(task))
		return 0;
	slot->page_faults++;
	fire((struct pt_regs *)bpf_task_pt_regs(task), FIRED_PAGE_FAULT, 0, slot);
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(mode_page_fault, unsigned long address, struct pt_regs *regs, unsigned long code)
{
	return UNDISTURBED(mode_page_fault_());
}

/* Attached only where the load's interface makes its system calls out of our sight (it costs on each of them):
 * one event per call, on its way out.
 */
static __always_inline int mode_sys_exit_(struct pt_regs *regs, long ret)
{
	struct cpu_slot *slot = this_slot();
	long nr = syscall_nr(regs);

	slot->costly++;
	/* Most of them. */
	if (following && nr == NR_io_uring_enter) {
		slot->waiting = slot->slept = 0;
		if (counting && slot->current != CURRENT_UNSEEN)
			slot->syscalls++;
		return 0;
	}
	struct task_struct *task = bpf_get_current_task_btf();
	nr = call_number(task, nr);
	bool rw = nr == NR_pread64 || nr == NR_pwrite64 || nr == NR_I386_pread64 || nr == NR_I386_pwrite64;
	long aio = aio_number(nr);
	/* Other programs' calls pass here too: where requests are followed, a thread that was seen to come is enough. What is told
	 * by number is asked for exactly.
	 */
	if (following && counting && aio_calls(aio) && (slot->current != CURRENT_UNSEEN || adopted(task)))
		aio_returned(regs, aio, ret, aio != nr);
	if (following ? !counting || (slot->current == CURRENT_UNSEEN && !(rw && watched(task))) : !watched(task))
		return 0;
	slot->syscalls++;
	if (following && slot->submits)
		slot->stray_calls++;
	if (rw)
		slot->rw_calls++;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(mode_sys_exit, struct pt_regs *regs, long ret)
{
	return UNDISTURBED(mode_sys_exit_(regs, ret));
}
