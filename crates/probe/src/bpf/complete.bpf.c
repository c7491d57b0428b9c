/* Posted completions: counts them, and completes the trails of traced requests. */
#include "stages.h"

/* Threads that share a ring share its request cache too: many completed requests at one address may wait for their task work
 * runs at the same time. They do not all fit in that address's bucket.
 */
__noinline int spread(__u32 index)
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

/* A write to a file that is open with O_APPEND goes to the end, whatever its offset. Offset 0 requests no place. */
static __always_inline void look_at_place(struct trail *trail, __s32 result)
{
	void *request = (void *)trail->request;

	if (trail->offset <= 0 || result <= 0 || (trail->file & S_IFMT) != S_IFREG)
		return;
	if (BPF_CORE_READ((struct kiocb *)request, ki_flags) & IOCB_APPEND && offset_of(request) - result != trail->offset)
		trail->file |= FILE_APPENDED;
}

static __always_inline void trail_result(struct trail *trail, __u32 index, __s32 result, __u32 cqe_flags)
{
	trail->posted_ns = bpf_ktime_get_ns();
	look_at_file(index);
	look_at_place(trail, result);
	trail->posted_cpu = bpf_get_smp_processor_id();
	trail->result = result;
	trail->cqe_flags = cqe_flags;
	if (costly_gone || trail->submitted_ns < costly_since)
		trail->marks |= TRAIL_PARTLY_OBSERVED;
}

/* A traced request completed. */
__noinline int trail_posted(__u32 index, enum poster poster, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	struct trail *trail = trail_at(index);

	if (!trail)
		return 0;
	trail_result(trail, index, result, cqe_flags);
	if (reaps_asked)
		backlog_posted(trail->weight);
	if (trail->course == COURSE_BLOCK && trail->bios)
		trail->ready_ns = 0; /* some of its I/O ended unobserved */
	if (trail->ended_ns < trail->ready_ns)
		trail->ended_ns = 0; /* from an earlier attempt that transferred only a part */
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
	if (poster == POSTED_BY_IOWQ && trail->punted_ns && slot->worker_ns)
		trail->worker_ns = slot->worker_ns > trail->punted_ns ? slot->worker_ns : trail->punted_ns;
	trail_end(trail, index, slot);
	return 0;
}

/* The completion queue is full: when and how the program gets the completion is unknown. */
__noinline int trail_overflowed(__u32 index, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	struct trail *trail = trail_at(index);

	if (!trail)
		return 0;
	trail_result(trail, index, result, cqe_flags);
	trail->carrier = BY_OVERFLOW;
	slot->no_completion++;
	trail_end(trail, index, slot);
	return 0;
}

/* A completion of a multishot request other than the last. It gets a trail of its own, which copies the request's stages. */
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
	/* Many completions of one request may wait for their runs at the same time. They do not all fit in its bucket. */
	struct trail *trail = remember(COMPLETED(known->request + ((__u64)request->shots << 6)), &index);
	if (!trail) {
		slot->no_room++;
		return 0;
	}
	__u32 serial = trail->serial + 1;
	__builtin_memcpy(trail, request, sizeof(*trail));
	trail->serial = serial;
	/* The next completion has its own ready time. If the same run also posts it, that time was not observed. */
	request->shots++;
	request->ready_ns = request->queued_ns = 0;
	request->meanwhile = MEANWHILE_UNSEEN;
	return trail_posted(index, poster, result, cqe_flags);
}

__noinline int count_error(__u32 ring, __u32 opcode, __s32 result)
{
	struct errno_key key = { .ring = ring, .opcode = opcode, .number = -result };

	add_or_lose(&errnos, &key, 1, LOSS_ERRNO, this_slot());
	return 0;
}

static __always_inline void count_result(struct op_part *op, __u32 ring, __u32 opcode, __s32 result)
{
	if (result < 0) {
		op->errors++;
		count_error(ring, opcode, result);
	} else if (result) {
		op->bytes += result;
	}
}

/* After its request a worker continues with the linked ones (io_wq_free_work), which have no event of their own. */
static __noinline int taken_on(struct io_kiocb *req, __u32 number)
{
	struct cpu_slot *slot = this_slot();
	__u64 request = address_in_thread(req, slot);
	__u32 index = 0, opcode = opcode_of(req);
	bool asked = flags_of(req) & REQ_F_FORCE_ASYNC;

	if (bpf_map_delete_elem(&chained, &request))
		return 0;
	struct op_part *op = op_of(number, opcode, slot);
	if (asked)
		op->punted_asked++;
	else
		op->punted_would_block++;
	struct trail *trail = trail_of(request, &index);
	if (trail && !trail->punt)
		trail->punt = asked ? PUNT_ASKED : PUNT_WOULD_BLOCK;
	return 0;
}

/* The request was refused before it started, so the stamp is not its own. */
static __always_inline bool refused_polling(__s32 result)
{
	return result == -EBADF || result == -EINVAL || result == -EOPNOTSUPP;
}

/* A message (IORING_OP_MSG_RING) to a ring that no traced process created or used: counted as one of that ring's completions. */
static __noinline int sent_elsewhere(struct io_ring_ctx *ring)
{
	struct cpu_slot *slot = this_slot();
	__u64 address = address_in_thread(ring, slot);
	struct io_kiocb *sender = (void *)slot->last_request;

	if (!sender || BPF_CORE_READ(sender, opcode) != IORING_OP_MSG_RING || bpf_map_lookup_elem(&ring_numbers, &address))
		return 0;
	return bpf_core_field_exists(ring->mm_account) &&
	       (__u64)BPF_CORE_READ(ring, mm_account) != (__u64)bpf_get_current_task_btf()->mm;
}

/* The kernel tears the ring down: no thread reaps its completions. */
static __always_inline bool torn_down(struct io_ring_ctx *ring)
{
	return BPF_CORE_READ(ring, refs.percpu_count_ptr) & PERCPU_REF_DEAD;
}

/* The kernel ended the traced request with its ring. */
__noinline int trail_torn_down(__u32 index)
{
	struct trail *trail = trail_at(index);

	if (!trail)
		return 0;
	/* The request holds a reference to its task. */
	struct task_struct *submitter = (void *)trail->task;
	if (!(BPF_CORE_READ(submitter, flags) & PF_EXITING))
		trail->marks |= TRAIL_RING_CLOSED;
	trail->posted_ns = bpf_ktime_get_ns();
	look_at_file(index);
	trail->carrier = BY_TEARDOWN;
	trail_end(trail, index, this_slot());
	return 0;
}

/* A thread of the program runs the task work that cancels the requests of its closed ring. */
static __noinline int posted_after_close(struct io_ring_ctx *ring, void *req)
{
	__u32 index = 0;

	if (!torn_down(ring))
		return 0;
	if (trail_of((__u64)req, &index))
		trail_torn_down(index);
	return 1;
}

/* Posted by a kernel thread instead of an exiting thread, or a message of an untraced process. */
static __noinline int posted_by_kernel(struct io_ring_ctx *ring, void *req, __s32 result, __u32 cqe_flags)
{
	struct cpu_slot *slot = this_slot();
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 address = address_in_thread(ring, slot);
	__u32 index = 0;

	if (req && !(task->flags & PF_KTHREAD))
		return 0;
	/* Address 0 marks a free slot in the table. */
	struct trail *trail = req ? trail_of((__u64)req, &index) : 0;
	if (torn_down(ring))
		return trail ? trail_torn_down(index) : 0;
	__u32 *number = bpf_map_lookup_elem(&ring_numbers, &address);
	if (!number)
		return 0;
	__u32 opcode = req ? opcode_of(req) : OPCODE_NONE;
	struct op_part *op = op_of(*number, opcode, slot);
	op->completions++;
	count_result(op, *number, opcode, result);
	if (cqe_flags & IORING_CQE_F_MORE)
		op->more++;
	ring_of(*number, slot)->unseen++;
	/* Its delivery path is untracked. */
	if (trail) {
		slot->no_completion++;
		retag_at(index, 0);
	}
	return 0;
}

/* Whether a completion that names no request and belongs to no known multishot request is a message from another ring, or
 * reports the release of a registered resource.
 */
__noinline int is_message(__u32 number, __u64 user_data, __u32 cqe_flags)
{
	__u64 *left = bpf_map_lookup_elem(&messages, &user_data);

	if (left && *left) {
		__sync_fetch_and_add(left, -1);
		return 1;
	}
	/* IORING_REGISTER_SEND_MSG_RING has no event. A request's completion that does not name the request sets IORING_CQE_F_MORE. */
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &number);
	return info && !info->found && !info->tagged && !(cqe_flags & IORING_CQE_F_MORE);
}

__noinline int count_message(__u32 number)
{
	struct op_count *op = op_sum(number, IORING_OP_MSG_RING);

	if (op)
		__sync_fetch_and_add(&op->messages, 1);
	return 0;
}

__noinline int buffer_is_free(__u64 address, __u32 number, __u32 opcode)
{
	struct op_count *op = op_sum(number, opcode);
	struct io_notif_data *data = (void *)address;
	__u64 *since = bpf_map_lookup_elem(&held_since, &address);

	if (op && bpf_core_field_exists(data->zc_report) && BPF_CORE_READ(data, zc_report))
		__sync_fetch_and_add(&op->reporting, 1);
	if (op && since) {
		__sync_fetch_and_add(&op->held, 1);
		__sync_fetch_and_add(&op->held_ns, bpf_ktime_get_ns() - *since);
	}
	bpf_map_delete_elem(&held_since, &address);
	return 0;
}

/* A worker posted, and may start its next request from here on. Returns the earliest start of the current one. */
__noinline __u64 worker_turns(void)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct worker *worker = bpf_map_lookup_elem(&workers, &tid);
	__u64 began = worker ? worker->free_ns : 0;

	if (worker)
		worker->free_ns = bpf_ktime_get_ns();
	return began;
}

/* `typed`: the verifier knows the type behind `ring`. `found_room`: the completion is in the CQ. */
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
	    !refused_polling(result) && polled(ring, req))
		poster = POSTED_BY_IOPOLL;
	if (!req && sent_elsewhere(ring))
		return 0;
	if (req && result == -ECANCELED && posted_after_close(ring, req))
		return takers_seen ? taker_ends(req) : 0;
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
		/* That request has had its last completion: this is another ring's message with the same user data. */
		if (known && !req && !known->request && !is_zero_copy_send(known->opcode))
			known = 0;
		if (known)
			opcode = known->opcode;
		else if (!req) {
			number = whole_ring(number); /* another process may have sent it: it belongs to the target ring */
			if (found_room && is_message(number, user_data, cqe_flags)) {
				opcode = IORING_OP_MSG_RING;
				count_message(number);
			}
		}
	}
	if (takers_seen) {
		__u64 taker = req ? (__u64)req : known ? known->request : 0;
		if (taker && ((cqe_flags & IORING_CQE_F_BUFFER) || result == -ENOBUFS))
			buffer_taken(address_in_thread(ring, slot), number, taker, result, cqe_flags);
		if (req && !(cqe_flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF)))
			taker_ends(req);
	}
	struct op_part *op = op_of(number, opcode, slot);
	op->completions++;
	slot->posted++;
	ring_in_use(number, slot);
	if (cqe_flags & IORING_CQE_F_NOTIF) {
		op->notifications++;
		/* IORING_NOTIF_USAGE_ZC_COPIED is the indication. */
		if ((__s32)result < 0)
			op->copied++;
		if (req)
			buffer_is_free(address_in_thread(req, slot), number, opcode);
	} else {
		count_result(op, number, opcode, result);
	}
	if (cqe_flags & IORING_CQE_F_MORE)
		op->more++;
	/* A no-op is neither of them. */
	if (req && opcode) {
		if (plain_length(opcode)) {
			if (result >= 0 && (__u32)result < length_of(req) && !takes_a_buffer(req))
				op->shorts++;
		} else if (!(cqe_flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF)) && posts_many(req, opcode)) {
			many_ends(address_in_thread(req, slot), user_data, number, result);
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
		slot->worker_ns = followed_now ? worker_turns() : 0;
		if (chains_seen && req && result != -ECANCELED)
			taken_on(req, number);
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
		if (known && !(cqe_flags & IORING_CQE_F_MORE)) {
			known->request = 0; /* this was its last completion */
			if (ends_unasked(known->opcode, result))
				disarms(number, known->fd, known->opcode, result);
		}
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

/* Before 6.17 (072d37b0cd66) the arguments were the members of the completion queue entry, and the ring was a plain address. */
SEC("tp_btf/io_uring_complete")
int follow_complete_members(__u64 *args)
{
	return posted((void *)args[0], false, (void *)args[1], args[2], (__s32)args[3], (__u32)args[4], true);
}
