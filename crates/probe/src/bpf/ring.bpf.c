/* Completions: the only event that runs for every io_uring completion. */

const volatile bool poster_asked = false; /* a ring may be polled, or events are recorded: one constant for both, since
					   * each costs every completion a look even where it is false */

#define OP(opcode) (1ull << (opcode))
#define POLLED_OPS                                                                                            \
	(OP(IORING_OP_READV) | OP(IORING_OP_WRITEV) | OP(IORING_OP_READ_FIXED) | OP(IORING_OP_WRITE_FIXED) |  \
	 OP(IORING_OP_READ) | OP(IORING_OP_WRITE) | OP(IORING_OP_URING_CMD) | OP(IORING_OP_READ_MULTISHOT) | \
	 OP(IORING_OP_READV_FIXED) | OP(IORING_OP_WRITEV_FIXED))

/* Whether an IOPOLL ring polls for this operation. */
static __always_inline bool can_be_polled(__u32 opcode)
{
	return opcode == IORING_OP_URING_CMD128 || (opcode < 64 && POLLED_OPS >> opcode & 1);
}

/* A polled request is marked when polling finds it done. Other requests on such a ring (no-ops, errors) are not polled, but
 * inherit the mark of an earlier request in the same memory.
 */
static __always_inline bool polled(void *ring, void *req)
{
	struct io_kiocb *request = req;

	return (BPF_CORE_READ((struct io_ring_ctx *)ring, flags) & IORING_SETUP_IOPOLL) && req &&
	       can_be_polled(BPF_CORE_READ(request, opcode)) && BPF_CORE_READ(request, iopoll_completed);
}

/* For an io-wq worker this member points to its worker structure, for an SQPOLL thread it is null. */
static __always_inline enum poster poster_of(struct task_struct *task)
{
	if (task->flags & PF_IO_WORKER)
		return task->worker_private ? POSTED_BY_IOWQ : POSTED_BY_SQPOLL;
	return POSTED_BY_SUBMITTER;
}

/* Checks the posting thread. A separate function, so that the frequent case below has a small stack frame. */
static __noinline int completed(void *ring, void *req)
{
	struct task_struct *task = bpf_get_current_task_btf();

	/* The waiting thread posts nothing itself, so only the process matters. */
	if ((__u32)task->tgid != watched_tgid)
		return 0;
	struct cpu_slot *slot = this_slot();
	enum poster poster = poster_of(task);
	if (poster_asked) {
		if (poster == POSTED_BY_SUBMITTER && polled(ring, req))
			poster = POSTED_BY_IOPOLL;
		if (recording)
			record_completion(poster, task->pid, slot);
	}
	switch (poster) {
	case POSTED_BY_IOPOLL:
		slot->iopoll++;
		break;
	case POSTED_BY_IOWQ:
		slot->iowq++;
		break;
	case POSTED_BY_SQPOLL:
		slot->sqpoll++;
		break;
	default:
		here(task, slot);
		slot->pending++;
	}
	return 0;
}

/* io_uring_complete(ring, req, …): only the first two arguments are used. The others changed in 6.17 (a CQE pointer instead
 * of its members).
 */
static __always_inline int ring_completed(__u64 *args)
{
	struct cpu_slot *slot = this_slot();

	/* By far the most frequent case, handled without a function call. */
	if (!poster_asked && slot->current == CURRENT_SUBMITTER) {
		slot->pending++;
		return 0;
	}
	return completed((void *)args[0], (void *)args[1]);
}

SEC("tp_btf/io_uring_complete")
int ring_complete(__u64 *args)
{
	return UNDISTURBED(ring_completed(args));
}
