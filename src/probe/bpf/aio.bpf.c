/* Native aio has no tracepoint of its own. Its direct I/O ends in the file system's (iomap) or the block device's end
 * function, which calls back through the kiocb: a kiocb whose callback is aio's is one completion of native aio.
 */

/* The aio context belongs to the watched process if it stands in that process's table of contexts. */
static __always_inline bool aio_of_watched(struct kiocb *iocb)
{
	if (!iocb || (__u64)BPF_CORE_READ(iocb, ki_complete) != aio_complete_address)
		return false;
	struct aio_kiocb *aio = (struct aio_kiocb *)((void *)iocb - bpf_core_field_offset(struct aio_kiocb, rw));
	struct kioctx *ctx = BPF_CORE_READ(aio, ki_ctx);
	if (!ctx)
		return false;
	__u32 id = BPF_CORE_READ(ctx, id);
	for (int i = 0; i < MMS_MAX; i++) {
		struct mm_struct *mm = (struct mm_struct *)watched_mms[i];
		if (!mm)
			return false;
		struct kioctx_table *table = BPF_CORE_READ(mm, ioctx_table);
		if (!table || id >= BPF_CORE_READ(table, nr))
			continue;
		struct kioctx *mine = 0;
		bpf_probe_read_kernel(&mine, sizeof(mine),
				      (void *)table + bpf_core_field_offset(struct kioctx_table, table) + id * sizeof(mine));
		if (mine == ctx)
			return true;
	}
	return false;
}

static __always_inline void aio_completed(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	struct delivery_key key = {};

	key.waker_cpu = bpf_get_smp_processor_id();
	key.waker = context_of(slot, &key.waker_nr);
	switch (key.waker) {
	case WAKER_IRQ:
	case WAKER_VECTOR:
		key.carrier = BY_IRQ;
		break;
	case WAKER_OTHER:
		/* By a thread: the submitter in its own system call, a kernel worker, or one that can't be told. */
		key.carrier = task->flags & PF_WQ_WORKER ? BY_KWORKER : watched(task) ? BY_SUBMITTER : BY_OTHER;
		key.waker_cpu = 0;
		break;
	default:
		key.carrier = BY_SOFTIRQ;
	}
	add(&deliveries, &key, 1, slot);
}

/* File systems on iomap (ext4, xfs, btrfs …); the tracepoint is there since 6.6. */
SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(aio_iomap_complete, struct kiocb *iocb)
{
	if (!not_counting() && aio_of_watched(iocb))
		aio_completed();
	return 0;
}

#define MAX_BIOS 16

/* Block devices opened directly: one bio an I/O, or several that count down a reference. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(aio_block_complete, struct request *rq)
{
	struct bio *bio = BPF_CORE_READ(rq, bio);

	if (not_counting())
		return 0;
	for (int i = 0; i < MAX_BIOS && bio; i++) {
		__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io);
		if (end && (end == blkdev_end_io_async_address || end == blkdev_end_io_address)) {
			struct blkdev_dio *dio =
				(struct blkdev_dio *)((void *)bio - bpf_core_field_offset(struct blkdev_dio, bio));
			if (aio_of_watched(BPF_CORE_READ(dio, iocb)) &&
			    (end == blkdev_end_io_async_address || BPF_CORE_READ(dio, ref.counter) == 1))
				aio_completed();
		}
		bio = BPF_CORE_READ(bio, bi_next);
	}
	return 0;
}
