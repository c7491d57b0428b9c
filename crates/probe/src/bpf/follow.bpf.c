/* Other io_uring events: created rings, io-wq punts, overflows, failed chains, polls. */
#include "stages.h"

static __always_inline int follow_create_(int fd, void *ring, __u32 sq_entries, __u32 cq_entries, __u32 setup_flags)
{
	if (some_lie())
		backlog_ends(address_in_thread(ring, this_slot()), 1);
	if (seen_here()) {
		number_ring(ring, false, setup_flags, sq_entries, cq_entries, this_slot());
		if (reaps_asked && setup_flags & IORING_SETUP_SQPOLL)
			backlog_made(address_in_thread(ring, this_slot()));
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
	struct op_part *op = op_of(ring, req->opcode, slot);
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
	if (chains_seen)
		bpf_map_delete_elem(&chained, &request);
	struct trail *trail = trail_of(request, &index);
	if (!trail)
		return 0;
	trail->punt = why;
	if (!trail->punted_ns)
		trail->punted_ns = bpf_ktime_get_ns();
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

/* The event does not name the request. The request follows the last posted one in the list of requests whose completions the
 * kernel is posting.
 */
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

/* IORING_REGISTER_RESIZE_RINGS (6.13) changes the sizes. */
static __noinline int sizes_of(struct io_ring_ctx *ring, __u32 number)
{
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &number);

	if (info && !info->others) {
		info->sq_entries = BPF_CORE_READ(ring, sq_entries);
		info->cq_entries = BPF_CORE_READ(ring, cq_entries);
	}
	return 0;
}

/* A completion that finds the queue full has only this event, now and when it is flushed. */
static __always_inline int follow_overflow_(void *address, __u64 user_data, __s32 result, __u32 cqe_flags)
{
	struct io_ring_ctx *ring = address;
	struct cpu_slot *slot = this_slot();

	if (!counting)
		return 0;
	/* A completion with IORING_CQE_F_MORE belongs to a request that is in no list. */
	__u64 request = cqe_flags & IORING_CQE_F_MORE ? 0 : overflowed_request(ring, user_data, result);
	posted(ring, false, (void *)request, user_data, result, cqe_flags, false);
	if (slot->current == CURRENT_UNSEEN)
		return 0; /* not a traced process's ring */
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

/* If the head of a chain fails, the kernel cancels the rest. If the head has IOSQE_CQE_SKIP_SUCCESS, the others post no completion. */
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
	look_at_file(index); /* it may wait indefinitely */
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

/* A poll wake-up: only requests that wait in a poll have this event. */
static __always_inline int follow_task_add_(struct io_kiocb *req, int mask)
{
	__u32 index, nr;
	struct cpu_slot *slot = this_slot();
	struct trail *trail = counting ? trail_of(address_of(req, slot), &index) : 0;

	if (!trail)
		return 0;
	/* A multishot request that used up its share of the current run requeues itself (IOU_REQUEUE, Linux 6.8 and later).
	 * Nothing woke it.
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
