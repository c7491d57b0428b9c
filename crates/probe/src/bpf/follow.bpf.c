/* Requests by ring and opcode, and the stages of the followed ones that io_uring's own events show. */
#include "request.h"
#include "choose.h"
#include "files.h"
#include "reap.h"

static __noinline int ring_used(__u32 ring, __u32 now)
{
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &ring);

	if (!info)
		return 0;
	if (!info->first_jiffy)
		info->first_jiffy = now;
	info->last_jiffy = now;
	return 0;
}

/* Something is counted of this ring: what is told a second of it is over the time from the first to the last of that, to a tick. */
static __always_inline void ring_in_use(__u32 ring, struct cpu_slot *slot)
{
	struct in_use *last = &slot->in_use[ring & (IN_USE_MAX - 1)];
	__u32 now = bpf_jiffies64();

	if (last->jiffy == now && last->ring == ring)
		return;
	last->ring = ring;
	last->jiffy = now;
	ring_used(ring, now);
}

/* The request that the current thread submitted last goes another way: it is not posted inline. */
static __always_inline void went_away(__u64 request, struct cpu_slot *slot)
{
	if (slot->last_request != request)
		return;
	slot->last_request = 0;
	if (slot->submitted)
		slot->submitted--;
}

/* What the submitter does when its completion is ready. It may be gone: then what stands there is not its number. */
static __always_inline void look_at_submitter(struct trail *trail)
{
	struct task_struct *task = (struct task_struct *)trail->task;

	if (BPF_CORE_READ(task, pid) != (int)trail->tid)
		return;
	__u32 cpu = BPF_CORE_READ(task, thread_info.cpu);
	struct cpu_slot *there = &slots[cpu & (IOTRAIL_MAX_CPUS - 1)];
	trail->meanwhile_cpu = cpu;
	trail->switched = there->switched;
	if (BPF_CORE_READ(task, on_cpu)) {
		trail->meanwhile = MEANWHILE_RUNNING;
		return;
	}
	struct task_struct *other = (struct task_struct *)there->running;
	if (!other)
		return;
	trail->meanwhile = BPF_CORE_READ(task, __state) ? MEANWHILE_SLEEPING : MEANWHILE_RUNNABLE;
	trail->meanwhile_tid = BPF_CORE_READ(other, pid);
	bpf_core_read_str(trail->meanwhile_comm, sizeof(trail->meanwhile_comm), &other->comm);
}

/* The device or the peer is done, as far as is known now: the last one counts. */
static __always_inline void ready(struct trail *trail)
{
	trail->ready_ns = bpf_ktime_get_ns();
	trail->ready_cpu = bpf_get_smp_processor_id();
	trail->meanwhile = MEANWHILE_UNSEEN;
	look_at_submitter(trail);
}

static __noinline int no_completion_of(struct trail *trail, struct cpu_slot *slot)
{
	struct many_key key = { .user_data = trail->user_data, .ring = trail->ring };
	__u64 *left = overflows_seen ? bpf_map_lookup_elem(&overflowed, &key) : 0;

	slot->no_completion++;
	if (left && *left)
		__sync_fetch_and_add(left, -1);
	return 0;
}

/* The place of a followed request is taken again, and no completion of it was seen. */
static __always_inline void count_uncompleted(struct trail *trail, struct cpu_slot *slot)
{
	if (trail->skips)
		slot->skipped++;
	else
		no_completion_of(trail, slot);
}

/* How many requests the io_uring_enter that is under way was asked to submit, if it is one; counted for `n` of them. */
static __noinline int count_batch(struct task_struct *task, __u32 ring, __u32 weight, __u32 n)
{
	__u32 batch = task->flags & PF_IO_WORKER ? 0 : enter_batch(task);

	if (batch) {
		struct batch_key key = { .ring = ring, .batch = batch, .sampled = weight > 1 };
		add_or_lose(&batches, &key, n, LOSS_COUNT, this_slot());
	}
	return batch;
}

static __noinline int follow_this(struct io_kiocb *req, struct task_struct *task, __u32 ring, __u32 weight)
{
	struct cpu_slot *slot = this_slot();
	__u64 request = address_in_thread(req, slot);
	__u32 index = 0;
	__u32 batch = count_batch(task, ring, weight, 1);

	struct trail *trail = trail_of(request, &index);
	if (trail)
		count_uncompleted(trail, slot);
	else
		trail = remember(request, &index);
	if (!trail) {
		slot->no_room++;
		return 0;
	}
	__u32 serial = trail->serial + 1;
	__builtin_memset(trail, 0, sizeof(*trail));
	trail->serial = serial;
	trail->request = request;
	trail->task = bpf_get_current_task();
	trail->user_data = req->cqe.user_data;
	trail->opcode = req->opcode;
	trail->ring = ring;
	trail->weight = weight;
	trail->tgid = task->tgid;
	trail->tid = task->pid;
	trail->skips = !!(req->flags & REQ_F_CQE_SKIP);
	file_named_by(req, trail);
	bool plain = plain_length(trail->opcode) && !(req->flags & REQ_F_BUFFER_SELECT);
	trail->asked_bytes = plain ? length_of(req) : 0;
	/* Those of a chain are done one after the other, whatever their times say. */
	bool reads = trail->opcode == IORING_OP_READ || trail->opcode == IORING_OP_READ_FIXED;
	if (plain && reads && !(slot->links & LINKED))
		trail->buffer = buffer_of(req);
	trail->enter_batch = batch;
	trail->submitted_cpu = bpf_get_smp_processor_id();
	trail->submitted_ns = bpf_ktime_get_ns();
	if (!(slot->links & LINKED))
		slot->submitting = index + 1;
	uses_ring(ring, task->pid, 0, slot);
	return 0;
}

/* The current thread was not seen to come. Whether it is one of the watched. */
static __noinline int seen_here(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!adopted(task))
		return 0;
	here(task, this_slot());
	return 1;
}

static __noinline int many_begins(struct io_kiocb *req, __u32 ring)
{
	struct many_key key = { .user_data = req->cqe.user_data, .ring = ring };
	struct many now = { .opcode = req->opcode };
	__u32 index;

	/* A zero-copy send's result names it, and its notification no request that is followed. */
	if (!is_zero_copy_send(now.opcode))
		now.request = address_in_thread(req, this_slot());
	struct trail *trail = now.request ? trail_of(now.request, &index) : 0;
	if (trail)
		now.serial = trail->serial;
	struct many *before = bpf_map_lookup_elem(&many, &key);
	if (before) {
		now.shared = before->shared;
		if (before->request && before->request != now.request) {
			struct trail *other = before->serial ? trail_of(before->request, &index) : 0;
			if (!before->serial || (other && other->serial == before->serial))
				now.shared = 1;
		}
	}
	bpf_map_update_elem(&many, &key, &now, BPF_ANY);
	return 0;
}

/* The completion that is a request's last. */
static __noinline int many_ends(__u64 request, __u64 user_data, __u32 ring)
{
	struct many_key key = { .user_data = user_data, .ring = ring };
	struct many *known = bpf_map_lookup_elem(&many, &key);

	if (known && known->request == request)
		known->request = 0;
	return 0;
}

/* Where one in some is followed: the place of this one may be that of one whose completion was not seen. */
static __noinline int not_chosen(__u64 request)
{
	__u32 index;
	struct trail *trail = trail_of(request, &index);

	if (trail) {
		count_uncompleted(trail, this_slot());
		retag_at(index, 0);
	}
	return 0;
}

/* Apart, so that others need not keep in registers what only these need after that. */
static __noinline int many_submitted(struct io_kiocb *req, __u32 ring)
{
	struct cpu_slot *slot = this_slot();

	__u32 weight = chosen(slot, finishing);
	if (weight)
		follow_this(req, bpf_get_current_task_btf(), ring, weight);
	else if (followed_now)
		not_chosen(address_in_thread(req, slot));
	return many_begins(req, ring);
}

/* Requests behind which, or before which, the ring is drained: the kernel sets REQ_F_FORCE_ASYNC in all that come while that
 * goes on (io_init_req), and only those that asked for it have REQ_F_IO_DRAIN besides. From submission until it is handed on.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* address */
	__type(value, __u32);
} drained SEC(".maps");

static __noinline int waits_for_drain(struct io_kiocb *req)
{
	struct io_ring_ctx *ring = req->ctx;
	__u32 one = 1;
	__u64 request = address_in_thread(req, this_slot());

	bool drains;
	if (bpf_core_field_exists(ring->int_flags))
		drains = ring->int_flags & drain_active_flag;
	else
		drains = BPF_CORE_READ_BITFIELD_PROBED(ring, drain_active);
	if (drains)
		bpf_map_update_elem(&drained, &request, &one, BPF_ANY);
	else
		bpf_map_delete_elem(&drained, &request);
	return 0;
}

static __always_inline int submitted(struct io_kiocb *req)
{
	if (!counting)
		return 0;
	struct cpu_slot *slot = this_slot();
	if (slot->current == CURRENT_UNSEEN && !seen_here())
		return 0;
	/* A run of task work tells of itself before the thread submits again. */
	if (slot->pending || slot->trails)
		all_inline();
	slot->submitted++;
	slot->submits = 1;
	slot->submitting = 0;
	__u32 links = req->flags & REQ_F_LINKS ? LINKED | LINKED_TO_NEXT : 0;
	slot->links = slot->links & LINKED_TO_NEXT ? links | LINKED : links;
	__u64 request = address_in_thread(req, slot);
	slot->last_request = request;
	__u32 opcode = req->opcode;
	__u32 ring = ring_number(req->ctx, slot);
	struct op_count *op = op_of(ring, opcode, slot);
	op->requests++;
	ring_in_use(ring, slot);
	if (some_lie())
		lying_submits();
	if (req->flags & REQ_F_CQE_SKIP)
		op->skips++;
	if (req->flags & REQ_F_FORCE_ASYNC)
		waits_for_drain(req);
	if (posts_many(req, opcode) || is_zero_copy_send(opcode))
		return many_submitted(req, ring);
	__u32 weight = chosen(slot, finishing);
	if (weight)
		return follow_this(req, bpf_get_current_task_btf(), ring, weight);
	if (followed_now)
		return not_chosen(request);
	return 0;
}

static __always_inline int follow_submit_(struct io_kiocb *req)
{
	return submitted(req);
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(follow_submit, struct io_kiocb *req)
{
	return UNDISTURBED(follow_submit_(req));
}

/* A refused request is the last of its call, unless the ring is to go on: then it stands for those after it too, of which another call
 * tells.
 */
static __noinline int refused_batch(struct io_ring_ctx *ring, __u32 number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 batch = enter_batch(task), n = 1;

	if (!(BPF_CORE_READ(ring, flags) & IORING_SETUP_SUBMIT_ALL)) {
		/* The head in shared memory moves when the call is over. */
		__u32 position = BPF_CORE_READ(ring, cached_sq_head) - BPF_CORE_READ(ring, rings, sq.head);
		if (position && position <= batch)
			n = batch - position + 1;
	}
	return count_batch(task, number, 1, n);
}

/* Refused before it was a submission: it has a completion all the same. */
static __always_inline int follow_refused_(void *entry, struct io_kiocb *req)
{
	struct cpu_slot *slot = this_slot();

	if (!counting || (slot->current == CURRENT_UNSEEN && !seen_here()))
		return 0;
	__u32 ring = ring_number(req->ctx, slot);
	__u32 opcode = req->opcode;
	__u8 asked;
	/* Of an opcode that it does not know, the kernel makes a no-op. */
	if (!opcode && !bpf_probe_read_kernel(&asked, sizeof(asked), entry) && asked) {
		opcode = OPCODE_INVALID;
		slot->invalid = address_in_thread(req, slot);
	}
	op_of(ring, opcode, slot)->requests++;
	slot->submitted++;
	slot->chosen_whole++;
	refused_batch(req->ctx, ring);
	return 0;
}

SEC("tp_btf/io_uring_req_failed")
int BPF_PROG(follow_refused, void *entry, struct io_kiocb *req)
{
	return UNDISTURBED(follow_refused_(entry, req));
}

/* Its name before 6.4 (2ad57931db64). */
static __always_inline int follow_submit_sqe_(struct io_kiocb *req)
{
	return submitted(req);
}

SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(follow_submit_sqe, struct io_kiocb *req)
{
	return UNDISTURBED(follow_submit_sqe_(req));
}

/* Threads that share a ring share its cache of requests too: many completed ones of one address may wait for their runs at a time. They
 * don't all wait in that address's bucket.
 */
static __noinline int spread(__u32 index)
{
	struct cpu_slot *slot = this_slot();
	__u32 b = index / WAYS, waiting = 0, elsewhere = 0;
	struct bucket *bucket = bpf_map_lookup_elem(&requests, &b);

	if (!bucket)
		return index;
	for (int i = 0; i < WAYS; i++)
		waiting += bucket->tags[i] & 1;
	if (waiting < WAYS / 2)
		return index;
	struct trail *trail = trail_at(index);
	struct trail *other = trail ? remember(COMPLETED(trail->request + ((__u64)++slot->spread << 6)), &elsewhere) : 0;
	if (!other)
		return index;
	__u32 serial = other->serial + 1;
	__builtin_memcpy(other, trail, sizeof(*other));
	other->serial = serial;
	trail->serial++;
	retag_at(index, 0);
	return elsewhere;
}

/* The completion of a followed request. */
static __noinline int trail_posted(__u32 index, enum poster poster, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	struct trail *trail = trail_at(index);

	if (!trail)
		return 0;
	trail->posted_ns = bpf_ktime_get_ns();
	look_at_file(index);
	trail->posted_cpu = bpf_get_smp_processor_id();
	if (reaps_asked)
		lying_posted(trail->weight);
	trail->result = result;
	trail->cqe_flags = cqe_flags;
	if (trail->course == COURSE_BLOCK && trail->bios)
		trail->ready_ns = 0; /* the end of some of its I/O was not seen */
	if (trail->ended_ns < trail->ready_ns)
		trail->ended_ns = 0; /* of an earlier try: only a part was done then */
	trail->switches = ~0u;
	if (trail->meanwhile && trail->meanwhile_cpu == trail->posted_cpu)
		trail->switches = slot->switched - trail->switched;
	if (poster == POSTED_BY_SUBMITTER || poster == POSTED_BY_SQPOLL) {
		trail->carrier = poster == POSTED_BY_SQPOLL ? BY_SQPOLL : 0;
		trail->woken_ns = slot->woken_ns;
		trail->running_ns = slot->running_ns;
		trail->woken_by = slot->waker;
		trail->woken_by_nr = slot->waker_nr;
		trail->woken_by_cpu = slot->waker_cpu;
		if (slot->trails_waiting >= TRAILS_WAITING_MAX) {
			slot->no_room++;
			retag_at(index, 0);
			return 0;
		}
		slot->trails_waiting++;
		trail->position = slot->pending;
		trail->next = slot->trails;
		__u32 place = spread(index);
		slot->trails = place + 1;
		if (place == index)
			retag_at(index, COMPLETED(trail->request));
		return 0;
	}
	trail->carrier = poster == POSTED_BY_IOWQ ? BY_IOWQ : BY_IOPOLL;
	trail_end(trail, index, slot);
	return 0;
}

/* It finds no room in the completion queue: when and by what the program gets it is not known. */
static __noinline int trail_overflowed(__u32 index, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	struct trail *trail = trail_at(index);

	if (!trail)
		return 0;
	trail->posted_ns = bpf_ktime_get_ns();
	trail->posted_cpu = bpf_get_smp_processor_id();
	look_at_file(index);
	trail->result = result;
	trail->cqe_flags = cqe_flags;
	trail->carrier = BY_OVERFLOW;
	slot->no_completion++;
	trail_end(trail, index, slot);
	return 0;
}

/* A completion of a multishot request that is not its last. It has a trail of its own, with what the request's says so far. */
static __noinline int shot_posted(struct many *known, enum poster poster, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	__u32 index = 0;

	if (!known)
		return 0;
	if (known->shared) {
		slot->shared++;
		return 0;
	}
	struct trail *request = known->request && known->serial ? trail_of(known->request, &index) : 0;
	if (!request || request->serial != known->serial)
		return 0;
	/* Many of one request may wait for their run at a time: not all in its bucket. */
	struct trail *trail = remember(COMPLETED(known->request + ((__u64)request->shots << 6)), &index);
	if (!trail) {
		slot->no_room++;
		return 0;
	}
	__u32 serial = trail->serial + 1;
	__builtin_memcpy(trail, request, sizeof(*trail));
	trail->serial = serial;
	/* The next one has to become ready by itself. What the same run finds as well was not seen to. */
	request->shots++;
	request->ready_ns = request->queued_ns = 0;
	request->meanwhile = MEANWHILE_UNSEEN;
	return trail_posted(index, poster, result, cqe_flags);
}

static __noinline int count_error(__u32 ring, __u32 opcode, __s32 result)
{
	struct errno_key key = { .ring = ring, .opcode = opcode, .number = -result };

	add_or_lose(&errnos, &key, 1, LOSS_ERRNO, this_slot());
	return 0;
}

/* By a thread of the kernel's, instead of one that is about to end. While it takes the ring itself down, nobody will have it. */
static __noinline int posted_by_kernel(struct io_ring_ctx *ring, void *req, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = address_in_thread(ring, slot);
	__u32 index = 0;

	if (!(task->flags & PF_KTHREAD))
		return 0;
	/* No address stands for a free place in the table. */
	struct trail *trail = req ? trail_of((__u64)req, &index) : 0;
	if (BPF_CORE_READ(ring, refs.percpu_count_ptr) & PERCPU_REF_DEAD) {
		if (trail) {
			trail->posted_ns = bpf_ktime_get_ns();
			look_at_file(index);
			trail->carrier = BY_TEARDOWN;
			trail_end(trail, index, slot);
		}
		return 0;
	}
	__u32 *number = bpf_map_lookup_elem(&ring_numbers, &address);
	if (!number)
		return 0;
	__u32 opcode = req ? opcode_of(req) : OPCODE_NONE;
	struct op_count *op = op_of(*number, opcode, slot);
	op->completions++;
	if (result < 0) {
		op->errors++;
		count_error(*number, opcode, result);
	} else {
		op->bytes += result;
	}
	if (cqe_flags & IORING_CQE_F_MORE)
		op->more++;
	ring_of(*number, slot)->unseen++;
	/* What carried it is not followed. */
	if (trail) {
		slot->no_completion++;
		retag_at(index, 0);
	}
	return 0;
}

/* `typed`: as above. `found_room`: it stands in the queue. */
static __always_inline int posted(struct io_ring_ctx *ring, bool typed, void *req, __u64 user_data, __s32 result,
				  __u32 cqe_flags, bool found_room)
{
	if (!counting)
		return 0;
	struct cpu_slot *slot = this_slot();
	enum poster poster = POSTED_BY_SUBMITTER;
	if (slot->current != CURRENT_SUBMITTER) {
		if (slot->current == CURRENT_UNSEEN && !seen_here())
			return posted_by_kernel(ring, req, result, cqe_flags);
		poster = poster_of(bpf_get_current_task_btf());
	}
	if (poster == POSTED_BY_SUBMITTER && (setup_flags_of(ring, typed) & IORING_SETUP_IOPOLL) &&
	    polled(ring, req))
		poster = POSTED_BY_IOPOLL;
	__u32 number = ring_number(ring, slot);
	__u32 opcode = OPCODE_NONE;
	struct many *known = 0;
	/* A notification has a request of its own, a no-op by its opcode. */
	if (req && !(cqe_flags & IORING_CQE_F_NOTIF)) {
		opcode = opcode_of(req);
		if (!opcode && slot->invalid == (__u64)req) {
			opcode = OPCODE_INVALID;
			slot->invalid = 0;
		}
	} else {
		struct many_key key = { .user_data = user_data, .ring = number };
		known = bpf_map_lookup_elem(&many, &key);
		if (known)
			opcode = known->opcode;
		else if (!req)
			number = whole_ring(number); /* another process sends it (IORING_OP_MSG_RING): it is of the ring that it comes to */
	}
	struct op_count *op = op_of(number, opcode, slot);
	op->completions++;
	slot->posted++;
	ring_in_use(number, slot);
	if (cqe_flags & IORING_CQE_F_NOTIF) {
		op->notifications++;
	} else if (result < 0) {
		op->errors++;
		count_error(number, opcode, result);
	} else if (result) {
		op->bytes += result;
	}
	if (cqe_flags & IORING_CQE_F_MORE)
		op->more++;
	/* A no-op is neither. */
	if (req && opcode) {
		if (plain_length(opcode)) {
			if (result >= 0 && (__u32)result < length_of(req) && !takes_a_buffer(req))
				op->shorts++;
		} else if (!(cqe_flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF)) && posts_many(req, opcode)) {
			many_ends(address_in_thread(req, slot), user_data, number);
		}
		/* A notification has no result. */
		if (plain_send(opcode) && !(cqe_flags & IORING_CQE_F_NOTIF) && result >= 0 && (__u32)result < to_send(req))
			op->shorts++;
	}
	switch (poster) {
	case POSTED_BY_IOPOLL:
		ring_of(number, slot)->iopoll++;
		break;
	case POSTED_BY_IOWQ:
		ring_of(number, slot)->iowq++;
		break;
	case POSTED_BY_SQPOLL:
		ring_of(number, slot)->sqpoll++;
		break;
	default:
		slot->pending++;
		segment_add(slot, number, 1);
	}
	slot->submitting = 0;
	if (!req) {
		if (found_room)
			return followed_now ? shot_posted(known, poster, result, cqe_flags) : 0;
		if (known && !(cqe_flags & IORING_CQE_F_MORE))
			known->request = 0; /* its last one */
		return 0;
	}
	__u32 index = 0;
	slot->last_posted = address_in_thread(req, slot);
	struct trail *trail = trail_of((__u64)req, &index);
	if (!trail)
		return 0;
	return found_room ? trail_posted(index, poster, result, cqe_flags) : trail_overflowed(index, result, cqe_flags);
}

static __always_inline int follow_complete_(struct io_ring_ctx *ring, void *req, struct io_uring_cqe *cqe)
{
	return posted(ring, true, req, cqe->user_data, cqe->res, cqe->flags, true);
}

SEC("tp_btf/io_uring_complete")
int BPF_PROG(follow_complete, struct io_ring_ctx *ring, void *req, struct io_uring_cqe *cqe)
{
	return UNDISTURBED(follow_complete_(ring, req, cqe));
}

/* Before 6.17 (072d37b0cd66) the completion queue entry's members stood in its place, and the ring was a plain address. */
SEC("tp_btf/io_uring_complete")
int follow_complete_members(__u64 *args)
{
	return posted((void *)args[0], false, (void *)args[1], args[2], (__s32)args[3], (__u32)args[4], true);
}

static __always_inline int follow_create_(int fd, void *ring, __u32 sq_entries, __u32 cq_entries, __u32 setup_flags)
{
	if (some_lie())
		lying_ends(address_in_thread(ring, this_slot()), 1);
	if (seen_here()) {
		number_ring(ring, false, setup_flags, sq_entries, cq_entries, this_slot());
		if (reaps_asked && setup_flags & IORING_SETUP_SQPOLL)
			lying_made(address_in_thread(ring, this_slot()));
	}
	return 0;
}

SEC("tp_btf/io_uring_create")
int BPF_PROG(follow_create, int fd, void *ring, __u32 sq_entries, __u32 cq_entries, __u32 setup_flags)
{
	return UNDISTURBED(follow_create_(fd, ring, sq_entries, cq_entries, setup_flags));
}

static __always_inline int follow_punt_(struct io_kiocb *req)
{
	struct cpu_slot *slot = this_slot();

	if (!counting || (slot->current == CURRENT_UNSEEN && !seen_here()))
		return 0;
	__u32 ring = ring_number(req->ctx, slot);
	__u32 index;
	__u64 request = address_of(req, slot);
	enum punt why = PUNT_WOULD_BLOCK;
	struct op_count *op = op_of(ring, req->opcode, slot);
	if (!(req->flags & REQ_F_FORCE_ASYNC)) {
		op->punted_would_block++;
	} else if (!bpf_map_delete_elem(&drained, &request) || req->flags & REQ_F_IO_DRAIN) {
		op->punted_drained++;
		why = PUNT_DRAINED;
	} else {
		op->punted_asked++;
		why = PUNT_ASKED;
	}
	went_away(request, slot);
	struct trail *trail = trail_of(request, &index);
	if (trail)
		trail->punt = why;
	return 0;
}

SEC("tp_btf/io_uring_queue_async_work")
int BPF_PROG(follow_punt, struct io_kiocb *req)
{
	return UNDISTURBED(follow_punt_(req));
}

struct overflow_search {
	__u64 node;
	__u64 user_data;
	__u64 found;
	__s32 result;
	__u32 pad;
};

static int overflow_is(__u32 i, struct overflow_search *search)
{
	if (!search->node)
		return 1;
	struct io_kiocb *req = (void *)search->node - bpf_core_field_offset(struct io_kiocb, comp_list);
	if (BPF_CORE_READ(req, cqe.user_data) == search->user_data && BPF_CORE_READ(req, cqe.res) == search->result) {
		search->found = (__u64)req;
		return 1;
	}
	search->node = (__u64)BPF_CORE_READ(req, comp_list.next);
	return 0;
}

#define OVERFLOW_NEAR 32
#define OVERFLOW_FAR (1 << 16)

/* The event does not name the request. It stands in the list of those whose completions the kernel is posting, next to the last one. */
static __noinline __u64 overflowed_request(struct io_ring_ctx *ring, __u64 user_data, __s32 result)
{
	struct cpu_slot *slot = this_slot();
	struct overflow_search search = { .user_data = user_data, .result = result };

	if (!bpf_core_field_exists(ring->submit_state.compl_reqs) || !bpf_core_field_exists(((struct io_kiocb *)0)->comp_list))
		return 0;
	__u64 first = (__u64)BPF_CORE_READ(ring, submit_state.compl_reqs.first);
	if (!first)
		return 0;
	struct io_kiocb *last = (struct io_kiocb *)slot->last_posted;
	if (last) {
		search.node = (__u64)BPF_CORE_READ(last, comp_list.next);
		bpf_loop(OVERFLOW_NEAR, overflow_is, &search, 0);
	}
	if (!search.found) {
		search.node = first;
		bpf_loop(OVERFLOW_FAR, overflow_is, &search, 0);
	}
	return search.found;
}

/* IORING_REGISTER_RESIZE_RINGS (6.13) changes them. */
static __noinline int sizes_of(struct io_ring_ctx *ring, __u32 number)
{
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &number);

	if (info && !info->others) {
		info->sq_entries = BPF_CORE_READ(ring, sq_entries);
		info->cq_entries = BPF_CORE_READ(ring, cq_entries);
	}
	return 0;
}

/* A completion that finds the queue full has this event and no other, neither now nor when it is handed over. */
static __always_inline int follow_overflow_(void *address, __u64 user_data, __s32 result, __u32 cqe_flags)
{
	struct io_ring_ctx *ring = address;
	struct cpu_slot *slot = this_slot();

	if (!counting)
		return 0;
	/* What announces more is a part of a request, which stands in no list. */
	__u64 request = cqe_flags & IORING_CQE_F_MORE ? 0 : overflowed_request(ring, user_data, result);
	posted(ring, false, (void *)request, user_data, result, cqe_flags, false);
	if (slot->current == CURRENT_UNSEEN)
		return 0; /* nobody's who is watched */
	__u32 number = ring_number(ring, slot);
	ring_of(number, slot)->overflows++;
	if (!request && followed_now && !(cqe_flags & IORING_CQE_F_MORE)) {
		struct many_key key = { .user_data = user_data, .ring = number };
		overflows_seen = 1;
		add(&overflowed, &key, 1);
	}
	sizes_of(ring, number);
	return 0;
}

SEC("tp_btf/io_uring_cqe_overflow")
int BPF_PROG(follow_overflow, void *address, __u64 user_data, __s32 result, __u32 cqe_flags)
{
	return UNDISTURBED(follow_overflow_(address, user_data, result, cqe_flags));
}

/* A chain whose head fails is cancelled. Where the head asked for no completion if it succeeds, what is behind it has none. */
static __always_inline int follow_chain_failed_(struct io_kiocb *head, struct io_kiocb *link)
{
	__u32 index;
	struct cpu_slot *slot = this_slot();

	if (!counting || !skip_links_flag || !(flags_of(head) & skip_links_flag))
		return 0;
	if (slot->current == CURRENT_UNSEEN && !seen_here())
		return 0;
	__u64 request = address_in_thread(link, slot);
	op_of(ring_number(link->ctx, slot), link->opcode, slot)->unposted++;
	struct trail *trail = trail_of(request, &index);
	if (trail) {
		slot->skipped++;
		retag_at(index, 0);
	}
	return 0;
}

SEC("tp_btf/io_uring_fail_link")
int BPF_PROG(follow_chain_failed, struct io_kiocb *head, struct io_kiocb *link)
{
	return UNDISTURBED(follow_chain_failed_(head, link));
}

static __always_inline int follow_poll_arm_(struct io_kiocb *req)
{
	__u32 index;
	struct cpu_slot *slot = this_slot();

	if (!counting)
		return 0;
	__u64 request = address_of(req, slot);
	went_away(request, slot);
	struct trail *trail = trail_of(request, &index);
	if (!trail)
		return 0;
	trail->course = COURSE_POLL;
	look_at_file(index); /* it may wait for ever */
	if (!trail->issued_ns) {
		trail->issued_ns = bpf_ktime_get_ns();
		trail->issued_cpu = bpf_get_smp_processor_id();
	}
	return 0;
}

SEC("tp_btf/io_uring_poll_arm")
int BPF_PROG(follow_poll_arm, struct io_kiocb *req)
{
	return UNDISTURBED(follow_poll_arm_(req));
}

/* The poll's wake-up: only requests that wait in a poll pass here. */
static __always_inline int follow_task_add_(struct io_kiocb *req, int mask)
{
	__u32 index, nr;
	struct cpu_slot *slot = this_slot();
	struct trail *trail = counting ? trail_of(address_of(req, slot), &index) : 0;

	if (!trail)
		return 0;
	/* A multishot request that has had its share of a run, which is not over, and queues itself once more (IOU_REQUEUE, Linux
	 * 6.8 and later): nobody woke it.
	 */
	if (!mask && trail->shots && slot->trails && slot->tid == trail->tid && context_of(slot, &nr) == WAKER_OTHER)
		return 0;
	ready(trail);
	return 0;
}

SEC("tp_btf/io_uring_task_add")
int BPF_PROG(follow_task_add, struct io_kiocb *req, int mask)
{
	return UNDISTURBED(follow_task_add_(req, mask));
}
