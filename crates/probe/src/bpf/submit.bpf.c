/* Submitted requests: counts them by ring and opcode, and selects some for tracing. */
#include "stages.h"
#include "buffers.h"
#include "callsite.h"

/* Counts `n` requests by the number that the current io_uring_enter was asked to submit, if any. */
static __noinline int count_batch(struct task_struct *task, __u32 ring, __u32 weight, __u32 n, bool wide)
{
	__u32 batch = task->flags & PF_IO_WORKER ? 0 : enter_batch(task);

	if (batch) {
		struct batch_key key = { .ring = ring, .batch = batch, .sampled = weight > 1, .wide = wide };
		add_or_lose(&batches, &key, n, LOSS_COUNT, this_slot());
	}
	return batch;
}

/* The SQE occupies two entries of a queue whose other SQEs occupy one. */
static __always_inline bool is_wide(struct io_kiocb *req)
{
	return (req->opcode == IORING_OP_NOP128 || req->opcode == IORING_OP_URING_CMD128) &&
	       (BPF_CORE_READ(req, ctx, flags) & IORING_SETUP_SQE_MIXED);
}

static __noinline int follow_this(struct io_kiocb *req, struct task_struct *task, __u32 ring, __u32 weight)
{
	struct cpu_slot *slot = this_slot();
	__u64 request = address_in_thread(req, slot);
	__u32 index = 0;
	__u32 batch = count_batch(task, ring, weight, 1, is_wide(req));

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
	trail->offset = has_offset(trail->opcode) ? offset_of(req) : -1;
	/* The requests of a chain run one after the other, whatever their timestamps are. */
	bool reads = trail->opcode == IORING_OP_READ || trail->opcode == IORING_OP_READ_FIXED;
	if (plain && reads && !(slot->links & LINKED))
		trail->buffer = buffer_of(req);
	trail->enter_batch = batch;
	trail->site_weight = stack_due(CLASS_REQUESTS + (trail->opcode & (OPCODES_MAX - 1)), STACKS_OF_REQUESTS);
	if (trail->site_weight)
		trail->site = user_stack(ROOM_OF_EVENTS);
	trail->submitted_cpu = bpf_get_smp_processor_id();
	trail->submitted_ns = bpf_ktime_get_ns();
	if (slot->links & LINKED)
		trail->marks = slot->links & LINKED_TO_LAST ? TRAIL_LINKED : TRAIL_HEAD;
	else
		slot->submitting = index + 1;
	uses_ring(ring, task->pid, 0, slot);
	return 0;
}

/* The current thread's switch-in was missed. Returns whether the thread is traced. */
__noinline int seen_here(void)
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
	struct many now = { .opcode = req->opcode, .fd = descriptor_of(req) };
	__u32 index;

	/* A zero-copy send's result names its request, but its notification does not. */
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

/* A request posted its last completion. */
__noinline int many_ends(__u64 request, __u64 user_data, __u32 ring, __s32 result)
{
	struct many_key key = { .user_data = user_data, .ring = ring };
	struct many *known = bpf_map_lookup_elem(&many, &key);

	if (!known || known->request != request)
		return 0;
	if (ends_unasked(known->opcode, result))
		disarms(ring, known->fd, known->opcode, result);
	/* Another request may have the same user data. */
	if (known->shared)
		known->request = 0;
	else
		bpf_map_delete_elem(&many, &key);
	return 0;
}

/* With 1 in N tracing, this request's address may still be that of an earlier traced request whose completion was missed. */
__noinline int not_chosen(__u64 request)
{
	__u32 index;
	struct trail *trail = trail_of(request, &index);

	if (trail) {
		count_uncompleted(trail, this_slot());
		retag_at(index, 0);
	}
	return 0;
}

/* A separate function, so that other paths do not have to save registers that only this one needs. */
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

/* Requests that drain, or are delayed by a drain, until they are punted. During a drain the kernel sets REQ_F_FORCE_ASYNC in
 * all new requests (io_init_req); only those that requested the drain also have REQ_F_IO_DRAIN.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* address */
	__type(value, __u32);
} drained SEC(".maps");

/* Linked requests until they are punted to io-wq or completed by a worker. A later request at the same address must have
 * been punted if a worker completes it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64); /* address */
	__type(value, __u32);
} chained SEC(".maps");

__u32 chains_seen; /* no lookup while there are none */

__noinline int joins_chain(__u64 request)
{
	__u32 one = 1;

	chains_seen = 1;
	bpf_map_update_elem(&chained, &request, &one, BPF_ANY);
	return 0;
}

/* Messages on their way to another ring, by the user data of their completion there. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, __u64); /* user data */
	__type(value, __u64); /* number of messages */
} messages SEC(".maps");

/* Submission time of a zero-copy send, by the address of its notification. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u64);
} held_since SEC(".maps");

static __noinline int message_leaves(struct io_kiocb *req)
{
	struct io_msg *message = (void *)req;
	__u64 data = 0;

	if (bpf_core_field_exists(message->user_data))
		data = BPF_CORE_READ(message, user_data);
	add(&messages, &data, 1);
	return 0;
}

static __noinline int buffer_is_held(struct io_kiocb *req)
{
	struct io_sr_msg *send = (void *)req;
	__u64 now = bpf_ktime_get_ns(), notification = 0;

	if (bpf_core_field_exists(send->notif))
		notification = (__u64)BPF_CORE_READ(send, notif);
	bpf_map_update_elem(&held_since, &notification, &now, BPF_ANY);
	return 0;
}

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
	/* A task work run has its event before the thread submits again. */
	if (slot->pending || slot->trails)
		all_inline();
	slot->submitted++;
	slot->submits = 1;
	if (slot->submitting)
		submission_ends();
	/* One read of the full member, whose size is relocated at load time. */
	__u64 flags = req->flags;
	barrier_var(flags);
	__u32 links = flags & REQ_F_LINKS ? LINKED | LINKED_TO_NEXT : 0;
	slot->links = slot->links & LINKED_TO_NEXT ? links | LINKED | LINKED_TO_LAST : links;
	__u64 request = address_in_thread(req, slot);
	slot->last_request = request;
	__u32 opcode = req->opcode;
	__u32 ring = ring_number(req->ctx, slot);
	struct op_part *op = op_of(ring, opcode, slot);
	op->requests++;
	ring_in_use(ring, slot);
	if (slot->links & LINKED)
		joins_chain(request);
	if (some_lie())
		backlog_submits();
	if (flags & REQ_F_CQE_SKIP)
		op->skips++;
	if (flags & REQ_F_FORCE_ASYNC)
		waits_for_drain(req);
	if (flags & REQ_F_BUFFER_SELECT)
		takes_from_group(req, ring);
	if (disarmed_seen && ends_unasked(opcode, 1))
		arms(req, ring);
	if (opcode == IORING_OP_MSG_RING)
		message_leaves(req);
	if (is_zero_copy_send(opcode))
		buffer_is_held(req);
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

/* A rejected request is the last of its call, unless the ring continues (IORING_SETUP_SUBMIT_ALL). It therefore also
 * represents the requests after it, which another call submits again.
 */
static __noinline int refused_batch(struct io_ring_ctx *ring, __u32 number)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 batch = enter_batch(task), n = 1;

	if (!(BPF_CORE_READ(ring, flags) & IORING_SETUP_SUBMIT_ALL)) {
		/* The shared head advances only at the end of the call. */
		__u32 position = BPF_CORE_READ(ring, cached_sq_head) - BPF_CORE_READ(ring, rings, sq.head);
		if (position && position <= batch)
			n = batch - position + 1;
	}
	return count_batch(task, number, 1, n, false);
}

/* A request rejected before its submission event still posts a completion. */
__noinline int count_denied(__u32 ring, __u32 opcode)
{
	struct op_count *op = op_sum(ring, opcode);

	if (op)
		__sync_fetch_and_add(&op->denied, 1);
	return 0;
}

static __always_inline int follow_refused_(void *entry, struct io_kiocb *req, int error)
{
	struct cpu_slot *slot = this_slot();

	if (!counting || (slot->current == CURRENT_UNSEEN && !seen_here()))
		return 0;
	__u32 ring = ring_number(req->ctx, slot);
	__u32 opcode = req->opcode;
	__u8 asked;
	/* The kernel replaces an unknown opcode with a no-op. */
	if (!opcode && !bpf_probe_read_kernel(&asked, sizeof(asked), entry) && asked) {
		opcode = OPCODE_INVALID;
		slot->invalid = address_in_thread(req, slot);
	}
	struct op_part *op = op_of(ring, opcode, slot);
	op->requests++;
	if (error == -EACCES)
		count_denied(ring, opcode);
	/* Its preparation had allocated the notification, which follows. */
	if (is_zero_copy_send(opcode))
		many_begins(req, ring);
	slot->submitted++;
	slot->chosen_whole++;
	refused_batch(req->ctx, ring);
	__u32 weight = stack_due(CLASS_REQUESTS + (opcode & (OPCODES_MAX - 1)), STACKS_OF_REQUESTS);
	if (weight)
		site_counted(user_stack(ROOM_OF_EVENTS), SITE_OF(SITE_REFUSED, opcode), weight, 0, 1);
	return 0;
}

SEC("tp_btf/io_uring_req_failed")
int BPF_PROG(follow_refused, void *entry, struct io_kiocb *req, int error)
{
	return UNDISTURBED(follow_refused_(entry, req, error));
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
