/* Completions: the one event that every io_uring completion costs. */

/* io_uring_complete(ring, req, …): the arguments after the second changed in 6.17 (a CQE pointer instead of its members);
 * only the first two are used.
 */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(ring_complete, void *ring, void *req)
{
	struct task_struct *task = bpf_get_current_task_btf();

	/* The thread that only waits completes nothing: the process alone decides. */
	if ((__u32)task->tgid != watched_tgid)
		return 0;
	struct cpu_slot *slot = this_slot();
	slot->seen++;
	if (task->flags & PF_IO_WORKER) {
		/* An io-wq worker has its worker structure there, an SQPOLL thread nothing. */
		if (task->worker_private)
			slot->iowq++;
		else
			slot->sqpoll++;
		return 0;
	}
	/* A polled request is marked when the poll finds it done; others on such a ring (no-ops, errors) are not. */
	if (iopoll_possible && (BPF_CORE_READ((struct io_ring_ctx *)ring, flags) & IORING_SETUP_IOPOLL) && req &&
	    BPF_CORE_READ((struct io_kiocb *)req, iopoll_completed)) {
		slot->iopoll++;
		return 0;
	}
	slot->pending++;
	return 0;
}
