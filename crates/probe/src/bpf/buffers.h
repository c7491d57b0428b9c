/* Provided buffers: how many buffers of a group the kernel has, and in which order it consumes them. */
#ifndef IOTRAIL_BUFFERS_H
#define IOTRAIL_BUFFERS_H

#include "request.h"

/* A request that consumes a buffer when it has data. */
struct taker {
	__u16 group;
	__u16 opcode;
	__s32 fd;
};

/* Such requests by address, from submission to last completion. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct taker);
} takers SEC(".maps");

__u32 takers_seen; /* no lookup while there are none */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 256);
	__type(key, struct buffer_key);
	__type(value, struct buffer_count);
} buffer_counts SEC(".maps");

/* Until the program submits another request for the same file. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct armed_key);
	__type(value, struct disarmed);
} disarmed SEC(".maps");

__u32 disarmed_seen; /* no lookup while there are none */

static __noinline int disarms(__u32 ring, __s32 fd, __u32 opcode, __s32 result)
{
	struct armed_key key = { .ring = ring, .fd = fd };
	struct disarmed now = { .ns = bpf_ktime_get_ns(), .opcode = opcode, .result = result };

	disarmed_seen = 1;
	bpf_map_update_elem(&disarmed, &key, &now, BPF_ANY);
	return 0;
}

static __always_inline __s32 descriptor_of(struct io_kiocb *req)
{
	return req->flags & REQ_F_FIXED_FILE ? ~req->cqe.fd : req->cqe.fd;
}

/* Not by the program's cancel, and not by the end of the stream. */
static __always_inline bool ends_unasked(__u32 opcode, __s32 result)
{
	if (opcode == IORING_OP_POLL_ADD || opcode == IORING_OP_ACCEPT)
		return result != -ECANCELED;
	return result > 0 && (opcode == IORING_OP_RECV || opcode == IORING_OP_RECVMSG || opcode == IORING_OP_READ_MULTISHOT);
}

/* The program submits another request for the file. */
static __noinline int arms(struct io_kiocb *req, __u32 ring)
{
	struct armed_key key = { .ring = ring, .fd = descriptor_of(req) };

	bpf_map_delete_elem(&disarmed, &key);
	return 0;
}

const volatile struct buffer_count no_buffers = { .least = ~0u };

static __always_inline struct buffer_count *buffers_of(__u32 ring, __u32 group)
{
	struct buffer_key key = { .ring = ring, .group = group };
	struct buffer_count *count = bpf_map_lookup_elem(&buffer_counts, &key);

	if (count)
		return count;
	bpf_map_update_elem(&buffer_counts, &key, (const void *)&no_buffers, BPF_NOEXIST);
	return bpf_map_lookup_elem(&buffer_counts, &key);
}

static __noinline int takes_from_group(struct io_kiocb *req, __u32 ring)
{
	__u64 request = address_in_thread(req, this_slot());
	struct taker taker = { .group = req->buf_index, .opcode = req->opcode, .fd = descriptor_of(req) };
	struct armed_key key = { .ring = ring, .fd = taker.fd };

	takers_seen = 1;
	bpf_map_update_elem(&takers, &request, &taker, BPF_ANY);
	struct disarmed *ended = disarmed_seen ? bpf_map_lookup_elem(&disarmed, &key) : 0;
	struct buffer_count *count = ended && ended->result == -ENOBUFS ? buffers_of(ring, taker.group) : 0;
	if (count) {
		__sync_fetch_and_add(&count->rearmed, 1);
		__sync_fetch_and_add(&count->unarmed_ns, bpf_ktime_get_ns() - ended->ns);
	}
	if (!ended)
		return 0;
	bpf_map_delete_elem(&disarmed, &key);
	return 0;
}

/* lib/xarray.c: an entry whose two low bits are 2 is a node with 64 slots. A 16-bit index needs three levels. */
#define XA_LEVELS 3

static __always_inline struct io_buffer_list *list_of(struct io_ring_ctx *ring, __u32 group)
{
	struct io_ring_ctx___before_6_10 *before = (void *)ring;
	struct io_buffer_list *list;
	__u64 entry;

	/* Before 6.10, small groups have an array, and a buffer ring's entries have no mapping of their own. */
	if (!bpf_core_field_exists(ring->io_bl_xa) || bpf_core_field_exists(before->io_bl))
		return 0;
	entry = (__u64)BPF_CORE_READ(ring, io_bl_xa.xa_head);
	for (int i = 0; i < XA_LEVELS && (entry & 3) == 2; i++) {
		struct xa_node *node = (void *)(entry - 2);
		__u32 slot = group >> (BPF_CORE_READ(node, shift) & 31) & 63;
		if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)((__u64)&node->slots + 8 * slot)))
			return 0;
	}
	list = (void *)entry;
	return entry && !(entry & 3) && BPF_CORE_READ(list, bgid) == group ? list : 0;
}

/* Number of entries of a buffer ring; 0 if the list is not a ring. */
static __always_inline __u32 entries_of(struct io_buffer_list *list)
{
	if (bpf_core_field_exists(list->nr_entries))
		return BPF_CORE_READ(list, nr_entries);
	return BPF_CORE_READ(list, flags) & IOBL_BUF_RING ? BPF_CORE_READ(list, mask) + 1 : 0;
}

/* Maximum number of buffers read that were consumed since the last check. */
#define TAKEN_MAX 16

/* Buffer ring positions consumed before an observed completion's position; kept until their own completions. */
struct place_key {
	__u32 ring;
	__u16 group;
	__u16 bid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1024);
	__type(key, struct place_key);
	__type(value, __u32);
} places SEC(".maps");

/* Checks the buffer ring position of the completion's buffer. `more`: the kernel keeps the rest of the buffer. */
static __always_inline void look_at_order(struct buffer_count *count, struct place_key *key, __u64 entries, __u32 taken,
					  __s32 result, bool incremental, bool more)
{
	struct io_uring_buf entry, own = {};
	__u16 first = count->head - taken, at = key->bid;
	__u32 mask = count->entries - 1, position = 0;
	bool found = false;

	for (__u32 i = 0; i < TAKEN_MAX && i < taken + more; i++) {
		__u32 place = (__u16)(first + i);
		if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)(entries + sizeof(entry) * (place & mask))))
			return;
		if (!found && entry.bid == at) {
			found = true;
			position = place;
			own = entry;
		} else {
			/* The program may overwrite the ring entry when it returns a buffer. */
			key->bid = entry.bid;
			bpf_map_update_elem(&places, key, &place, BPF_ANY);
		}
	}
	if (!found) {
		key->bid = at;
		__u32 *place = bpf_map_lookup_elem(&places, key);
		if (!place) {
			count->unplaced++;
			return;
		}
		position = *place;
		bpf_map_delete_elem(&places, key);
		bpf_probe_read_kernel(&own, sizeof(own), (void *)(entries + sizeof(own) * (position & mask)));
	}
	if (count->placed && (__s16)(position - count->position) < 0)
		count->out_of_order++;
	else
		count->position = position;
	if (incremental && result > 0) {
		/* The kernel advances the address of a partly consumed buffer. */
		__u64 begin = more ? own.addr - result : own.addr;
		if (count->placed && position == count->used && begin < count->used_to)
			count->repeated++;
		count->used = position;
		count->used_to = begin + result;
	}
	count->placed++;
}

/* A completion with a buffer, or one that lacked a buffer. */
__noinline int buffer_taken(__u64 ring, __u32 number, __u64 request, __s32 result, __u32 cqe_flags)
{
	struct taker *taker = bpf_map_lookup_elem(&takers, &request);
	struct buffer_count *count = taker ? buffers_of(number, taker->group) : 0;

	if (!count)
		return 0;
	if (result == -ENOBUFS) {
		__sync_fetch_and_add(&count->enobufs, 1);
		if (!(cqe_flags & IORING_CQE_F_MORE))
			disarms(number, taker->fd, taker->opcode, result);
	}
	if (!(cqe_flags & IORING_CQE_F_BUFFER))
		return 0;
	bool more = cqe_flags & IORING_CQE_F_BUF_MORE;
	struct io_buffer_list *list = list_of((void *)ring, taker->group);
	__u32 entries = list ? entries_of(list) : 0, left = 0, took = !more;
	if (entries) {
		__u64 base = (__u64)BPF_CORE_READ(list, buf_ring);
		__u16 head = BPF_CORE_READ(list, head), tail = 0;
		bool incremental = bpf_core_field_exists(list->flags) && (BPF_CORE_READ(list, flags) & IOBL_INC);

		bpf_probe_read_kernel(&tail, sizeof(tail), (void *)(base + BUF_RING_TAIL));
		left = (__u16)(tail - head);
		if (count->entries == entries && (__u16)(head - count->head) <= entries) {
			took = (__u16)(head - count->head);
		} else {
			/* First check of this group. A buffer ring registered since then starts at 0. */
			struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &number);
			if (count->entries || (info && !info->found))
				took = head;
		}
		count->head = head;
		count->entries = entries;
		struct place_key key = { .ring = number, .group = taker->group, .bid = cqe_flags >> IORING_CQE_BUFFER_SHIFT };
		look_at_order(count, &key, base, took, result, incremental, more);
	} else if (list && bpf_core_field_exists(list->nbufs)) {
		left = BPF_CORE_READ(list, nbufs);
	} else {
		__sync_fetch_and_add(&count->taken, took);
		return 0;
	}
	__sync_fetch_and_add(&count->taken, took);
	__u32 before = left + took;
	if (took) {
		/* Buffers are consumed one after the other. */
		count->looks += took;
		count->available += (__u64)before * took - (__u64)took * (took - 1) / 2;
		count->last = left + 1;
	}
	if (before > count->most)
		count->most = before;
	if (left < count->least)
		count->least = left;
	return 0;
}

static __noinline int taker_ends(void *req)
{
	__u64 request = (__u64)req;

	if (takes_a_buffer(req))
		bpf_map_delete_elem(&takers, &request);
	return 0;
}

#endif
