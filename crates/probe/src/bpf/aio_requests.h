/* Requests of native aio, which has no tracepoint of its own. The end function of its direct I/O, in the file system (iomap)
 * or the block device, calls back through the kiocb. So each call of aio's own kiocb callback is one completion.
 *
 * If requests are traced, system calls supply the rest: submissions at the entry of io_submit, before another thread could
 * reap the result, and reaped results at the exit of io_getevents.
 */
#ifndef IOTRAIL_AIO_REQUESTS_H
#define IOTRAIL_AIO_REQUESTS_H

#include "follow.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1); /* AIO_REQUESTS_MAX if requests are traced */
	__type(key, struct aio_key);
	__type(value, struct aio_request);
} aio_requests SEC(".maps");

__u32 aio_used; /* a context of a traced process was observed */
__u32 aio_used_as_i386; /* and was used by calls in the 32-bit table */
const volatile bool aio_by_number = false; /* no program is attached to io_submit's own tracepoint (it needs tracefs) */

const volatile struct reaped reaped_layout = {}; /* as trail_layout */

const volatile struct ring_count no_uses = {};

/* Counts in the maps directly: other threads of this CPU can interrupt a library function (uprobe), and they use the slot.
 * Sums on the stack would not fit at this call depth (512 bytes before 6.13).
 */
static __always_inline struct ring_count *ring_entry(__u32 ring)
{
	struct ring_count *sum = bpf_map_lookup_elem(&ring_counts, &ring);

	if (sum)
		return sum;
	bpf_map_update_elem(&ring_counts, &ring, (const void *)&no_uses, BPF_NOEXIST);
	return bpf_map_lookup_elem(&ring_counts, &ring);
}

static __always_inline struct ring_count *ring_sum(__u32 ring)
{
	struct ring_count *sum = ring_entry(ring);

	if (!sum)
		sum = ring_entry(RING_OTHERS);
	if (!sum)
		this_slot()->losses[LOSS_COUNT]++;
	return sum;
}

/* Adds another request to a control block that is already in use. */
static __noinline int aio_joins(struct aio_request *open, struct aio_request *request)
{
	if (!open->several) {
		open->several = 1;
		open->followed = !!open->weight;
	}
	if (open->opcode != request->opcode)
		open->opcode = OPCODE_NONE;
	if (open->asked_bytes != request->asked_bytes)
		open->asked_bytes = 0;
	open->more++;
	open->followed += !!request->weight;
	open->submitted_ns = request->submitted_ns;
	open->weight = request->weight;
	open->later = request->later;
	open->tid = request->tid;
	return 0;
}

/* Counts a submitted request and keeps it until its result is reaped. `open`: another request of the same control block is pending. */
static __noinline int aio_submitted(__u64 block, __u32 ring, struct aio_request *request, struct aio_request *open)
{
	struct cpu_slot *slot = this_slot();
	struct aio_key key = { .block = block, .ring = ring };
	struct op_count *op = op_sum(ring, request->opcode);

	if (op)
		__sync_fetch_and_add(&op->requests, 1);
	ring_in_use(ring, slot);
	request->later = !!finishing;
	request->weight = chosen(slot, request->later);
	if (open)
		return aio_joins(open, request);
	/* An existing entry means that its reap was unobserved. */
	struct aio_request *before = bpf_map_lookup_elem(&aio_requests, &key);
	if (before && before->weight)
		__sync_fetch_and_add(&slot->unreaped, 1);
	if (bpf_map_update_elem(&aio_requests, &key, request, BPF_ANY))
		slot->losses[LOSS_CALL]++;
	return 0;
}

__noinline int aio_result_counted(__u32 ring, __u32 opcode, __s64 result, bool is_short)
{
	struct op_count *op = op_sum(ring, opcode);

	if (!op)
		return 0;
	__sync_fetch_and_add(&op->completions, 1);
	if (result < 0)
		__sync_fetch_and_add(&op->errors, 1);
	else
		__sync_fetch_and_add(&op->bytes, result);
	if (is_short)
		__sync_fetch_and_add(&op->shorts, 1);
	return 0;
}

/* Sends the timestamps of a traced request. */
static __noinline int aio_told(struct aio_request *request, __u32 ring, __u32 opcode, __s64 result)
{
	/* Written directly to the ring buffer: no stack is left at this call depth. */
	struct reaped *reaped = request ? bpf_ringbuf_reserve(&trails_out, sizeof(*reaped), 0) : 0;

	if (!reaped) {
		this_slot()->trails_lost++;
		return 0;
	}
	reaped->submitted_ns = request->submitted_ns;
	reaped->reaped_ns = bpf_ktime_get_ns();
	reaped->allocated_ns = request->allocated_ns;
	reaped->issued_ns = request->issued_ns;
	reaped->ready_ns = request->ready_ns;
	reaped->ended_ns = request->ended_ns;
	reaped->inlined = request->inlined;
	reaped->result = result;
	reaped->ring = ring;
	reaped->tgid = bpf_get_current_pid_tgid() >> 32;
	reaped->opcode = opcode;
	reaped->weight = request->weight;
	reaped->fd = request->fd;
	bpf_ringbuf_submit(reaped, BPF_RB_NO_WAKEUP);
	return 0;
}

/* The program reaped a result. */
__noinline int aio_reaped(__u64 block, __u32 ring, __s64 result)
{
	struct aio_key key = { .block = block, .ring = ring };
	struct aio_request *request = bpf_map_lookup_elem(&aio_requests, &key);
	bool submission_seen = request && request->submitted_ns;
	__u32 opcode = submission_seen ? request->opcode : OPCODE_NONE;

	ring_in_use(ring, this_slot());
	if (result < 0)
		count_error(ring, opcode, result);
	aio_result_counted(ring, opcode, result, submission_seen && result >= 0 && result < request->asked_bytes);
	if (!request || !request->ended) {
		struct ring_count *sum = ring_sum(ring);
		if (sum)
			__sync_fetch_and_add(&sum->unseen, 1);
	} else if (request->several) {
		__sync_fetch_and_add(&request->ended, -1);
	}
	if (!request)
		return 0;
	if (!request->several) {
		if (request->weight)
			aio_told(request, ring, opcode, result);
	} else if (request->followed) {
		request->followed--;
		this_slot()->shared++;
	}
	if (request->more)
		request->more--;
	else
		bpf_map_delete_elem(&aio_requests, &key);
	return 0;
}

#endif
