/* Events that have no tracepoint, or none in older kernels: probes on kernel functions, if the kernel allows them. User
 * space selects the function for this kernel and the method when it loads the object: at function entry (fentry), otherwise
 * a kprobe.
 */
#define FUNCTION(name, called)                                          \
	SEC("fentry")                                                   \
	int name(__u64 *args)                                           \
	{                                                               \
		return called(args, (const void *)args[0]);             \
	}                                                               \
	SEC("kprobe")                                                   \
	int name##_kprobe(struct pt_regs *regs)                         \
	{                                                               \
		return called(regs, (const void *)argument(regs, 1));   \
	}

/* Task work is added for a request. If this happens several times, the last one before the completion counts. */
static __always_inline int work_added(void *context, const void *request)
{
	__u32 index;

	if (!counting || !followed_now)
		return 0;
	struct trail *trail = trail_of(address_of(request, this_slot()), &index);
	if (!trail)
		return 0;
	trail->queued_ns = bpf_ktime_get_ns();
	trail->queued_cpu = bpf_get_smp_processor_id();
	return 0;
}

FUNCTION(queue_added, work_added)
FUNCTION(queue_added_deferred, work_added)

const volatile __u64 resched_sender = 0; /* address of the function that sends reschedule IPIs */
#define SENDER_BYTES 16 /* maximum distance to the return address of the probe's own call */

/* A reschedule IPI, for kernels without its tracepoint. As with the tracepoint, the site is the caller of the requesting
 * function (`kick_process`, for example): the second return address above the sender. The probe's own return address may
 * come first.
 */
static __always_inline int resched_sent(void *context, const void *to_cpu)
{
	__u64 frames[8] = {};
	__u64 site = 0;

	if (!ipi_may_concern_watched((__u64)to_cpu))
		return 0;
	bpf_get_stack(context, frames, sizeof(frames), 0);
	for (int i = 0; i < 6; i++)
		if (!site && frames[i] - resched_sender <= SENDER_BYTES)
			site = frames[i + 2];
	return ipi_sent((__u64)to_cpu, site, 0);
}

FUNCTION(interrupt_resched_sent, resched_sent)

/* Target of this CPU's next kick, if kick_process sends one: only its argument names the target. */
static __always_inline int kick_asked_for(void *context, const void *task)
{
	struct cpu_slot *slot = this_slot();

	if (!not_counting())
		slot->kicks_watched = watched_thread(BPF_CORE_READ((struct task_struct *)task, pid),
						     BPF_CORE_READ((struct task_struct *)task, tgid));
	return 0;
}

FUNCTION(kick_asked, kick_asked_for)

/* Native aio's completion callback, for kernels without a tracepoint at the end of a file system's direct I/O. */
static __always_inline int aio_called(void *context, const void *iocb)
{
	if (!not_counting())
		aio_ended(address_of(iocb, this_slot()));
	return 0;
}

FUNCTION(aio_called_back, aio_called)

/* The same for io_uring's reads and writes. */
static __always_inline int rw_called(void *context, const void *iocb)
{
	return direct_io_ended((struct kiocb *)iocb);
}

FUNCTION(block_called_back, rw_called)

/* include/linux/mm_types.h: the fault came from user mode. */
#define FAULT_FLAG_USER (1 << 6)

/* A page fault of a program, for kernels without a tracepoint (arm64). A retry of the fault has the same registers. */
static __always_inline int page_faults_(__u64 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();

	if (!(flags & FAULT_FLAG_USER) || not_counting() || !watched(task))
		return 0;
	if (slot->fired.done >> 32 == FIRED_PAGE_FAULT &&
	    slot->fired.entry == entry_id((struct pt_regs *)bpf_task_pt_regs(task)))
		return 0;
	return mode_page_fault_();
}

/* The flags are the third argument. */
SEC("fentry")
int page_faulted(__u64 *args)
{
	/* Trampolines always run with preemption enabled, unlike programs on tracepoints in older kernels (kernel/bpf/trampoline.c). */
	return HELD(true, page_faults_(args[2]));
}

SEC("kprobe")
int page_faulted_kprobe(struct pt_regs *regs)
{
	return UNDISTURBED(page_faults_(argument(regs, 3)));
}

/* Received data of a zero-copy receive: its completions, except the last one, have no tracepoint. */
static __always_inline int received_in_place_(struct io_kiocb *req, const void *page, __s32 length)
{
	struct io_ring_ctx *ring = BPF_CORE_READ(req, ctx);
	const struct net_iov___before_6_17 *older = page;
	const struct net_iov *iov = page;
	struct cpu_slot *slot = this_slot();
	__u64 completion[2] = { (__u64)ring, (__u64)req };

	if (!following)
		return ring_completed(completion);
	if (!counting)
		return 0;
	posted(ring, false, 0, BPF_CORE_READ(req, cqe.user_data), length, IORING_CQE_F_MORE, true);
	if (slot->current == CURRENT_UNSEEN)
		return 0; /* not a traced process's ring */
	struct op_count *op = op_sum(ring_number(ring, slot), IORING_OP_RECV_ZC);
	if (!op)
		return 0;
	void *pool = bpf_core_field_exists(iov->desc) ? BPF_CORE_READ(iov, desc.pp) : BPF_CORE_READ(older, pp);
	__sync_fetch_and_add(&op->reporting, 1);
	if (!pool)
		__sync_fetch_and_add(&op->copied, 1);
	return 0;
}

/* At its return, because it posts nothing if the completion queue is full. The length is its fifth argument. */
SEC("fexit")
int received_in_place(__u64 *args)
{
	return args[5] & 1 ? HELD(true, received_in_place_((void *)args[0], (void *)args[1], args[4])) : 0;
}

/* A full queue counts as a completion here. The fifth argument is in the same register as that of a system call. */
SEC("kprobe")
int received_in_place_kprobe(struct pt_regs *regs)
{
	return UNDISTURBED(received_in_place_((void *)argument(regs, 1), (void *)argument(regs, 2),
						call_argument(regs, 5)));
}
