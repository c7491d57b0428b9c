/* Attributes I/O that ends in an interrupt: see credit.h. */

enum whose {
	NOBODY_KNOWS = 0,
	SOMEBODY_ELSES,
	WATCHED,
};

/* The completion callback of direct I/O identifies the interface; the kiocb is embedded in the request. */
static __always_inline enum whose whose_kiocb(struct kiocb *iocb)
{
	__u64 callback = iocb ? (__u64)BPF_CORE_READ(iocb, ki_complete) : 0;

	if (!callback)
		return NOBODY_KNOWS;
	if (callback == io_complete_address)
		return watched_request((struct io_kiocb *)iocb) ? WATCHED : SOMEBODY_ELSES;
	if (callback == aio_complete_address)
		return aio_is_watched(iocb) ? WATCHED : SOMEBODY_ELSES;
	return NOBODY_KNOWS;
}

static __noinline int whose_bio(struct bio *bio)
{
	struct task_struct *waiter;
	struct kiocb *iocb = kiocb_of(bio, &waiter);

	if (waiter)
		return any_wakeup && watched_by_address(waiter) ? WATCHED : NOBODY_KNOWS;
	return whose_kiocb(iocb);
}

static long credit_next_bio(__u32 i, struct bios *bios)
{
	struct cpu_slot *slot = this_slot();
	struct bio *bio = next_bio(bios);
	enum whose whose = bio ? whose_bio(bio) : NOBODY_KNOWS;

	if (!bio)
		return 1;
	if (whose == WATCHED) {
		credit(slot);
		return 1;
	}
	if (whose == NOBODY_KNOWS)
		slot->unclaimed = slot->in_irq ? slot->handlers : slot->raiser.serial;
	return 0;
}

/* A block request completes in an interrupt that is not attributed yet. */
static __noinline int credit_request(struct request *rq)
{
	struct cpu_slot *slot = this_slot();
	struct bios bios = { .next = BPF_CORE_READ(rq, bio) };

	if (nvme_end_io_address && (__u64)BPF_CORE_READ(rq, end_io) == nvme_end_io_address) {
		/* The command of an io_uring request is the request's first member. */
		if (watched_request(BPF_CORE_READ(rq, end_io_data)))
			credit(slot);
		return 0;
	}
	bpf_loop(BIOS_MAX, credit_next_bio, &bios, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(credit_block, struct request *rq)
{
	struct cpu_slot *slot = this_slot();

	slot->costly++;
	return creditable(slot) ? credit_request(rq) : 0;
}

/* For devices that complete bios without requests (device mapper, md, …). */
SEC("tp_btf/block_bio_complete")
int BPF_PROG(credit_bio, void *queue, struct bio *bio)
{
	struct cpu_slot *slot = this_slot();

	if (creditable(slot) && whose_bio(bio) == WATCHED)
		credit(slot);
	return 0;
}

/* A poll wake-up, by a network packet for example. */
SEC("tp_btf/io_uring_task_add")
int BPF_PROG(credit_poll, struct io_kiocb *req, int mask)
{
	struct cpu_slot *slot = this_slot();

	if (creditable(slot) && watched_request(req))
		credit(slot);
	return 0;
}
