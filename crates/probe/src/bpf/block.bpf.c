/* Block I/O of traced requests: the bios queued while a request is submitted or while an io-wq worker executes it. They are
 * tracked by address from issue to completion.
 */

__u32 bios_followed; /* bios in flight: no lookup while there are none */

static __always_inline struct bio_bucket *bios_near(__u64 bio)
{
	__u32 b = bucket_of(bio);

	return bpf_map_lookup_elem(&bios, &b);
}

/* Trail of a bio; `end` removes it from the table. */
static __always_inline struct trail *trail_of_bio(__u64 bio, bool end)
{
	struct bio_bucket *bucket = bios_near(bio);

	if (!bucket)
		return 0;
	for (int i = 0; i < WAYS; i++) {
		if (bucket->tags[i] != bio)
			continue;
		struct trail *trail = trail_at(bucket->trails[i]);
		__u32 serial = bucket->serials[i];
		if (end) {
			bucket->tags[i] = 0;
			__sync_fetch_and_sub(&bios_followed, 1);
		}
		return trail && trail->serial == serial ? trail : 0;
	}
	return 0;
}

/* The io_uring request of direct I/O, whose kiocb is the request's first member; 0: none or unknown. */
static __noinline __u64 request_of_bio(struct bio *bio)
{
	struct task_struct *waiter;
	struct kiocb *iocb = kiocb_of(bio, &waiter);
	__u64 callback = iocb ? (__u64)BPF_CORE_READ(iocb, ki_complete) : 0;

	return callback && (callback == io_complete_address || callback == io_complete_polled_address) ? (__u64)iocb : 0;
}

/* The traced request that the current thread is submitting or, in a worker, executing. All linked requests are announced
 * before the first is issued, and the rest are issued later: only their direct I/O identifies the current one.
 */
static __always_inline struct trail *at_work(struct cpu_slot *slot, __u32 *index)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (slot->current == CURRENT_HELPER && task->worker_private) {
		struct io_wq_work *work = BPF_CORE_READ((struct io_worker *)task->worker_private, cur_work);
		if (!work)
			return 0;
		return trail_of((__u64)work - bpf_core_field_offset(struct io_kiocb, work), index);
	}
	if (!slot->submitting || slot->in_irq || slot->in_softirq)
		return 0;
	*index = slot->submitting - 1;
	struct trail *trail = trail_at(*index);
	if (!trail || trail->tid != (__u32)task->pid)
		return 0;
	/* Its submission may be over, so that this is the thread's own I/O. */
	return slot->current == CURRENT_HELPER || enter_batch(task) ? trail : 0;
}

static __always_inline int block_queued_(struct bio *bio)
{
	struct cpu_slot *slot = this_slot();
	__u64 address = address_of(bio, slot);
	__u32 index = 0;

	slot->costly++;
	if (!counting || !followed_now)
		return 0;
	/* A kernel thread queues bios that a cgroup limit throttled. */
	bool held = slot->current == CURRENT_UNSEEN;
	if (held && !(bpf_get_current_task_btf()->flags & PF_WQ_WORKER))
		return 0;
	__u64 request = request_of_bio(bio);
	struct trail *trail = request ? trail_of(request, &index) : held ? 0 : at_work(slot, &index);
	/* If the request was submitted before the trace, some of its bios may have been missed. */
	if (!trail || trail->submitted_ns < costly_since)
		return 0;
	if (!trail->bio_ns) {
		trail->bio_ns = bpf_ktime_get_ns();
		if (held)
			trail->marks |= TRAIL_THROTTLED;
	}
	trail->course = COURSE_BLOCK;
	trail->bios++;
	struct bio_bucket *bucket = bios_near(address);
	if (!bucket)
		return 0;
	for (int i = 0; i < WAYS; i++) {
		if (bucket->tags[i] == address) {
			/* The previous bio's end was missed; the address now belongs to this one. */
			bucket->trails[i] = index;
			bucket->serials[i] = trail->serial;
			return 0;
		}
	}
	for (int i = 0; i < WAYS; i++) {
		if (!bucket->tags[i] && __sync_val_compare_and_swap(&bucket->tags[i], 0, address) == 0) {
			bucket->trails[i] = index;
			bucket->serials[i] = trail->serial;
			__sync_fetch_and_add(&bios_followed, 1);
			return 0;
		}
	}
	return 0; /* the table is full: the bio counts as in flight, and the stages are unknown */
}

SEC("tp_btf/block_bio_queue")
int BPF_PROG(block_queued, struct bio *bio)
{
	return UNDISTURBED(block_queued_(bio));
}

/* The bio was split: the time when all parts are ready is unknown. */
static __always_inline int block_was_split_(struct bio *bio)
{
	struct trail *trail = bios_followed ? trail_of_bio(address_of(bio, this_slot()), false) : 0;

	if (trail)
		trail->bios += 1 << 16;
	return 0;
}

SEC("tp_btf/block_split")
int BPF_PROG(block_was_split, struct bio *bio)
{
	return UNDISTURBED(block_was_split_(bio));
}

/* The native aio request of direct I/O. */
static __noinline struct aio_request *aio_of_bio(struct bio *bio)
{
	struct task_struct *waiter;
	struct kiocb *iocb = kiocb_of(bio, &waiter);

	if (!iocb || (__u64)BPF_CORE_READ(iocb, ki_complete) != aio_complete_address)
		return 0;
	__u64 context = (__u64)context_of_kiocb(iocb);
	__u32 *ring = bpf_map_lookup_elem(&ring_numbers, &context);
	if (!ring)
		return 0;
	struct aio_key key = { .block = BPF_CORE_READ(aio_of_kiocb(iocb), ki_res.obj), .ring = *ring };
	return bpf_map_lookup_elem(&aio_requests, &key);
}

static __noinline int aio_bio_issued(struct bio *bio, __u64 allocated_ns)
{
	struct aio_request *request = aio_of_bio(bio);

	if (request && !request->issued_ns) {
		request->allocated_ns = allocated_ns;
		request->issued_ns = bpf_ktime_get_ns();
	}
	return 0;
}

static __noinline int aio_bio_done(struct bio *bio)
{
	struct aio_request *request = aio_of_bio(bio);

	if (request)
		request->ready_ns = bpf_ktime_get_ns();
	return 0;
}

__noinline int bio_issued(__u64 bio, __u64 allocated_ns)
{
	struct trail *trail = bios_followed ? trail_of_bio(bio, false) : 0;

	if (!trail)
		return aio_used ? aio_bio_issued((struct bio *)bio, allocated_ns) : 0;
	trail->block_requests++;
	if (!trail->issued_ns) {
		trail->issued_ns = bpf_ktime_get_ns();
		trail->issued_cpu = bpf_get_smp_processor_id();
		trail->allocated_ns = allocated_ns;
	}
	return 0;
}

static long next_bio_is_issued(__u32 i, struct bios *bios)
{
	struct bio *bio = next_bio(bios);

	if (!bio)
		return 1;
	bio_issued((__u64)bio, bios->allocated_ns);
	return 0;
}

static __always_inline int block_issued_(struct request *rq)
{
	this_slot()->costly++;
	if (!counting || (!bios_followed && !aio_used))
		return 0;
	struct bios bios = {
		.next = BPF_CORE_READ(rq, bio),
		.allocated_ns = bpf_core_field_exists(rq->start_time_ns) ? rq->start_time_ns : 0,
	};
	bpf_loop(BIOS_MAX, next_bio_is_issued, &bios, 0);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_issued, struct request *rq)
{
	return UNDISTURBED(block_issued_(rq));
}

__noinline int bio_done(__u64 bio)
{
	struct trail *trail = bios_followed ? trail_of_bio(bio, true) : 0;

	if (!trail)
		return aio_used ? aio_bio_done((struct bio *)bio) : 0;
	trail->bios--;
	ready(trail);
	return 0;
}

static long next_bio_is_done(__u32 i, struct bios *bios)
{
	struct bio *bio = next_bio(bios);

	if (!bio)
		return 1;
	bio_done((__u64)bio);
	return 0;
}

static __always_inline int block_completed_(struct request *rq)
{
	this_slot()->costly++;
	if (!counting || (!bios_followed && !aio_used))
		return 0;
	struct bios bios = { .next = BPF_CORE_READ(rq, bio) };
	bpf_loop(BIOS_MAX, next_bio_is_done, &bios, 0);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_completed, struct request *rq)
{
	return UNDISTURBED(block_completed_(rq));
}

/* The end of direct I/O that a file system's worker finishes (writes on ext4 and xfs). The kiocb of an io_uring read or
 * write is the first member of its command, which is the first member of the request: all have one address. Direct I/O that
 * ends in the interrupt or in task work has no worker.
 */
static __always_inline int direct_io_ended(struct kiocb *iocb)
{
	struct cpu_slot *slot = this_slot();
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 index = 0, nr;

	if (!counting || !(task->flags & PF_WQ_WORKER) || context_of(slot, &nr) != WAKER_OTHER)
		return 0;
	struct trail *trail = trail_of(address_of(iocb, slot), &index);
	if (!trail)
		return 0;
	trail->ended_ns = bpf_ktime_get_ns();
	trail->ended_cpu = bpf_get_smp_processor_id();
	/* Task work is added only later. */
	trail->meanwhile = MEANWHILE_UNSEEN;
	look_at_submitter(trail);
	return 0;
}

/* Since 6.6. */
static __always_inline int block_ended_(struct kiocb *iocb)
{
	return direct_io_ended(iocb);
}

SEC("tp_btf/iomap_dio_complete")
int BPF_PROG(block_ended, struct kiocb *iocb)
{
	return UNDISTURBED(block_ended_(iocb));
}

/* Devices without their own requests (device mapper, md, …). */
static __always_inline int block_bio_completed_(void *queue, struct bio *bio)
{
	if (bios_followed)
		bio_done(address_of(bio, this_slot()));
	return 0;
}

SEC("tp_btf/block_bio_complete")
int BPF_PROG(block_bio_completed, void *queue, struct bio *bio)
{
	return UNDISTURBED(block_bio_completed_(queue, bio));
}
