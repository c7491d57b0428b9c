/* Ends of native aio's direct I/O. */
#include "aio_requests.h"

static __always_inline struct kioctx *context_at(struct kioctx_table *table, __u32 id)
{
	struct kioctx *ctx = 0;

	if (table && id < BPF_CORE_READ(table, nr))
		bpf_probe_read_kernel(&ctx, sizeof(ctx),
				      (void *)table + bpf_core_field_offset(struct kioctx_table, table) + id * sizeof(ctx));
	return ctx;
}

/* A context belongs to the traced process if the process's context table contains it. */
static __always_inline bool in_watched_mm(struct kioctx *ctx)
{
	__u32 id = BPF_CORE_READ(ctx, id);

	for (int i = 0; i < MMS_MAX; i++) {
		struct mm_struct *mm = (struct mm_struct *)watched_mms[i];
		if (!mm)
			return false;
		if (context_at(BPF_CORE_READ(mm, ioctx_table), id) == ctx)
			return true;
	}
	return false;
}

static __always_inline struct aio_kiocb *aio_of_kiocb(struct kiocb *iocb)
{
	return (struct aio_kiocb *)((void *)iocb - bpf_core_field_offset(struct aio_kiocb, rw));
}

static __always_inline struct kioctx *context_of_kiocb(struct kiocb *iocb)
{
	return BPF_CORE_READ(aio_of_kiocb(iocb), ki_ctx);
}

/* Whether the kiocb belongs to native aio of the traced process; its callback identifies native aio. */
static __noinline int aio_is_watched(struct kiocb *iocb)
{
	struct kioctx *ctx = iocb ? context_of_kiocb(iocb) : 0;

	if (!ctx)
		return 0;
	if (following) {
		__u64 address = (__u64)ctx;
		return bpf_map_lookup_elem(&ring_numbers, &address) != 0;
	}
	return in_watched_mm(ctx);
}

/* Records the delivery path, which is known when the result is reaped even if the request was submitted before the trace. */
static __always_inline void aio_end_seen(__u64 block, __u32 ring, struct cpu_slot *slot)
{
	struct aio_key key = { .block = block, .ring = ring };
	struct aio_request *request = bpf_map_lookup_elem(&aio_requests, &key);

	if (request) {
		request->ended_ns = bpf_ktime_get_ns();
		__sync_fetch_and_add(&request->ended, 1);
		return;
	}
	struct aio_request before = { .ended = 1 };
	if (bpf_map_update_elem(&aio_requests, &key, &before, BPF_NOEXIST))
		slot->losses[LOSS_CALL]++;
}

/* I/O ended that may be native aio of a traced process. */
__noinline int aio_ended(__u64 address)
{
	struct kiocb *iocb = (struct kiocb *)address;

	if (!iocb || (__u64)BPF_CORE_READ(iocb, ki_complete) != aio_complete_address)
		return 0;
	struct kioctx *ctx = context_of_kiocb(iocb);
	if (!ctx)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct cpu_slot *slot = this_slot();
	struct delivery_key key = {};
	if (following) {
		__u64 of_context = (__u64)ctx;
		__u32 *known = bpf_map_lookup_elem(&ring_numbers, &of_context);
		if (!known)
			return 0;
		key.ring = *known;
		aio_end_seen(BPF_CORE_READ(aio_of_kiocb(iocb), ki_res.obj), key.ring, slot);
	} else if (!in_watched_mm(ctx)) {
		return 0;
	}

	credit(slot);
	key.waker_cpu = bpf_get_smp_processor_id();
	key.waker = context_of(slot, &key.waker_nr);
	switch (key.waker) {
	case WAKER_IRQ:
	case WAKER_VECTOR:
		key.carrier = BY_IRQ;
		break;
	case WAKER_OTHER:
		/* Completed in thread context: by the submitter in its own system call, a kworker, or an unknown thread. */
		key.carrier = task->flags & PF_WQ_WORKER ? BY_KWORKER : watched(task) ? BY_SUBMITTER : BY_OTHER;
		key.waker_cpu = 0;
		break;
	default:
		key.carrier = BY_SOFTIRQ;
	}
	deliver(&key, 1, slot);
	return 0;
}

/* For file systems on iomap (ext4, xfs, btrfs …); the tracepoint exists since 6.6. */
SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(aio_iomap_complete, struct kiocb *iocb)
{
	if (!not_counting())
		aio_ended(address_of(iocb, this_slot()));
	return 0;
}

static long aio_bio_ends(__u32 i, struct bios *bios)
{
	struct bio *bio = next_bio(bios);

	if (!bio)
		return 1;
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io);
	if (end && (end == blkdev_end_io_async_address || end == blkdev_end_io_address)) {
		struct blkdev_dio *dio = (struct blkdev_dio *)((void *)bio - bpf_core_field_offset(struct blkdev_dio, bio));
		if (end == blkdev_end_io_async_address || BPF_CORE_READ(dio, ref.counter) == 1)
			aio_ended((__u64)BPF_CORE_READ(dio, iocb));
	}
	return 0;
}

/* For block devices opened directly: one bio per I/O, or several that share a reference count. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(aio_block_complete, struct request *rq)
{
	struct bios bios = { .next = BPF_CORE_READ(rq, bio) };

	if (not_counting())
		return 0;
	bpf_loop(BIOS_MAX, aio_bio_ends, &bios, 0);
	return 0;
}
