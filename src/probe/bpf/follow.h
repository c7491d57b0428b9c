/* Other people's programs: counts by ring and opcode, and chosen requests followed from their submission to what carried
 * their completion (a trail each). All of it only where `following`.
 */
#ifndef IOTRAIL_FOLLOW_H
#define IOTRAIL_FOLLOW_H

#include "state.h"

const volatile __u32 one_in = 1;
const volatile __u64 multishot_flags = 0; /* REQ_F_… bits of a request that posts many completions; from BTF */
const volatile struct trail trail_layout = {};         /* never read: a ring buffer has no value type */

__u32 finishing; /* no more requests are chosen; those that are go on to their end */
__u32 rings_made; /* rings and contexts numbered so far; also the epoch of what the slots remember */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u64); /* address */
	__type(value, __u32);
} ring_numbers SEC(".maps");

/* The last entry stands for all that found no room. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_info);
} ring_infos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_count);
} ring_counts SEC(".maps");

const volatile __u32 rings_max = 1;

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct errno_key);
	__type(value, __u64);
} errnos SEC(".maps");

/* What is known of a request that posts many completions, by the only thing that all but its last one name: its user data. */
struct many_key {
	__u64 user_data;
	__u32 ring;
	__u32 pad;
};

struct many {
	__u64 request; /* the last one submitted, until its last completion; 0: over */
	__u32 opcode;
	__u32 serial; /* of its trail; 0: it is not followed */
	__u32 shared; /* another one was open when it was submitted: whose a completion is can't be told */
	__u32 pad;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct many_key);
	__type(value, struct many);
} many SEC(".maps");

__u32 workers_made; /* io-wq workers that ran */
__u32 workers_now;
__u32 workers_most;

/* Those of them that live. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} workers SEC(".maps");

/* The followed requests by address: a bucket is one cache line, looked at as a whole. */
#define BUCKETS 4096
#define WAYS 8

struct bucket {
	__u64 tags[WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BUCKETS);
	__type(key, __u32);
	__type(value, struct bucket);
} requests SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* BUCKETS * WAYS where requests are followed */
	__type(key, __u32);
	__type(value, struct trail);
} trails SEC(".maps");

__u32 followed_now; /* requests in the table: nothing to look for while there are none */

/* The same for the block layer's bios, each with the trail that it is of. */
struct bio_bucket {
	__u64 tags[WAYS];
	__u32 trails[WAYS];
	__u32 serials[WAYS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BUCKETS);
	__type(key, __u32);
	__type(value, struct bio_bucket);
} bios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} trails_out SEC(".maps");

static __always_inline __u32 bucket_of(__u64 address)
{
	/* Fibonacci hashing; the low bits of an address say nothing. */
	return (address >> 5) * 0x9E3779B97F4A7C15ull >> 52 & (BUCKETS - 1);
}

static __always_inline struct trail *trail_at(__u32 index)
{
	return bpf_map_lookup_elem(&trails, &index);
}

/* The trail of a request, and its index; none: it is not followed. */
static __always_inline struct trail *trail_of(__u64 request, __u32 *index)
{
	if (!followed_now)
		return 0;
	__u32 b = bucket_of(request);
	struct bucket *bucket = bpf_map_lookup_elem(&requests, &b);
	if (!bucket)
		return 0;
	for (int i = 0; i < WAYS; i++)
		if (bucket->tags[i] == request) {
			*index = b * WAYS + i;
			return trail_at(*index);
		}
	return 0;
}

/* Its completion is posted; its place is kept until it is known what carried it, and no longer found by the address, which
 * the kernel may use again.
 */
#define COMPLETED(request) ((request) | 1)

static __always_inline void retag_at(__u32 index, __u64 to)
{
	__u32 b = index / WAYS;
	struct bucket *bucket = bpf_map_lookup_elem(&requests, &b);

	if (!bucket)
		return;
	bucket->tags[index % WAYS] = to;
	if (!to)
		__sync_fetch_and_sub(&followed_now, 1);
}

/* A place for a request; none: its bucket is full. */
static __always_inline struct trail *remember(__u64 request, __u32 *index)
{
	__u32 b = bucket_of(request);
	struct bucket *bucket = bpf_map_lookup_elem(&requests, &b);

	if (!bucket)
		return 0;
	for (int i = 0; i < WAYS; i++)
		if (!bucket->tags[i] && __sync_val_compare_and_swap(&bucket->tags[i], 0, request) == 0) {
			__sync_fetch_and_add(&followed_now, 1);
			*index = b * WAYS + i;
			return trail_at(*index);
		}
	return 0;
}

/* A new number for the ring or context of this address. */
static __always_inline struct ring_info *number_new(__u64 address, enum interface interface, __u32 *number)
{
	*number = __sync_fetch_and_add(&rings_made, 1);
	if (*number >= rings_max - 1)
		*number = rings_max - 1;
	bpf_map_update_elem(&ring_numbers, &address, number, BPF_ANY);
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, number);
	if (info) {
		info->address = address;
		info->interface = interface;
		info->tgid = bpf_get_current_pid_tgid() >> 32;
		bpf_get_current_comm(info->comm, sizeof(info->comm));
	}
	return info;
}

/* A ring that is seen for the first time. */
static __always_inline __u32 number_ring(struct io_ring_ctx *ring, bool found, __u32 setup_flags, __u32 sq_entries,
					 __u32 cq_entries, struct cpu_slot *slot)
{
	__u64 address = address_in_thread(ring, slot);
	__u32 number;

	struct ring_info *info = number_new(address, INTERFACE_IO_URING, &number);
	if (info) {
		info->setup_flags = setup_flags;
		info->sq_entries = sq_entries;
		info->cq_entries = cq_entries;
		info->found = found;
	}
	slot->ring_address = address;
	slot->ring_epoch = rings_made;
	slot->ring = number;
	return number;
}

static __noinline int look_up_ring(struct io_ring_ctx *ring)
{
	struct cpu_slot *slot = this_slot();
	__u64 address = address_in_thread(ring, slot);
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &address);
	if (known) {
		slot->ring_address = address;
		slot->ring_epoch = rings_made;
		slot->ring = *known;
		return *known;
	}
	return number_ring(ring, true, BPF_CORE_READ(ring, flags), BPF_CORE_READ(ring, sq_entries),
			   BPF_CORE_READ(ring, cq_entries), slot);
}

/* The ring's number: the slot knows the last one's. */
static __always_inline __u32 ring_number(struct io_ring_ctx *ring, struct cpu_slot *slot)
{
	/* An address may be used again, but not without a ring being made. */
	if (slot->ring_address != address_in_thread(ring, slot) || slot->ring_epoch != rings_made)
		return look_up_ring(ring);
	return slot->ring;
}

/* `n` more are pending, of this ring. */
static __always_inline void segment_add(struct cpu_slot *slot, __u32 ring, __u32 n)
{
	struct segment *first = &slot->segments[0];

	/* Most threads have one ring. */
	if (first->count && first->ring == ring && !slot->segments[1].count) {
		first->count += n;
		return;
	}
	for (int i = 0; i < SEGMENTS_MAX; i++) {
		struct segment *s = &slot->segments[i];
		bool last = i == SEGMENTS_MAX - 1 || !slot->segments[i + 1].count;

		if (s->count && !(last && (s->ring == ring || i == SEGMENTS_MAX - 1)))
			continue;
		if (!s->count)
			s->ring = ring;
		s->count += n;
		return;
	}
}

static __always_inline void count_inlined(__u32 ring, __u32 n)
{
	struct ring_count *count = bpf_map_lookup_elem(&ring_counts, &ring);

	if (count)
		count->inlined += n;
}

/* A followed request is over: it is handed on, and its place is free. By its place, since another thread may hold a
 * completed one of the same address.
 */
static __always_inline void trail_end(struct trail *trail, __u32 index, struct cpu_slot *slot)
{
	if (bpf_ringbuf_output(&trails_out, trail, sizeof(*trail), BPF_RB_NO_WAKEUP))
		slot->trails_lost++;
	trail->serial++;
	retag_at(index, 0);
}

struct ending {
	struct delivery_key *key; /* none: all were inline */
	__u64 inlined;            /* so many of the pending, the first ones */
	__u32 items;
	__u32 next;
};

static int trail_ends(__u32 i, struct ending *ending)
{
	__u32 index = ending->next - 1;
	struct trail *trail = ending->next ? trail_at(index) : 0;

	if (!trail)
		return 1;
	ending->next = trail->next;
	struct delivery_key *key = ending->key;
	if (trail->carrier == BY_SQPOLL) {
		trail->run_items = ending->items;
	} else if (key && trail->position > ending->inlined) {
		trail->carrier = key->carrier;
		trail->nr = key->nr;
		trail->entry = key->entry;
		trail->waker = key->waker;
		trail->waker_nr = key->waker_nr;
		trail->waker_cpu = key->waker_cpu;
		trail->run_items = ending->items;
	} else {
		trail->carrier = BY_SUBMISSION;
	}
	trail_end(trail, index, this_slot());
	return 0;
}

/* Ends the completed trails of the current thread. A helper's loop, since the verifier walks through a loop of C's once for
 * each of its turns.
 */
static __always_inline void trails_end(struct delivery_key *key, __u64 inlined, __u32 items, struct cpu_slot *slot)
{
	struct ending ending = { .key = key, .inlined = inlined, .items = items, .next = slot->trails };

	slot->trails = slot->trails_waiting = 0;
	bpf_loop(TRAILS_WAITING_MAX, trail_ends, &ending, 0);
}

/* What is pending on the current thread was posted inline. */
static __noinline int all_inline(void)
{
	struct cpu_slot *slot = this_slot();

	if (!following) {
		slot->inlined += slot->pending;
		slot->pending = 0;
		return 0;
	}
	for (int i = 0; i < SEGMENTS_MAX; i++) {
		struct segment *s = &slot->segments[i];
		if (!s->count)
			break;
		count_inlined(s->ring, s->count);
		s->count = 0;
	}
	if (slot->trails)
		trails_end(0, 0, 0, slot);
	slot->pending = slot->submitted = 0;
	return 0;
}

/* A process that uses io_uring or aio is followed from then on, if every one is asked for. */
static __always_inline bool adopted(struct task_struct *task)
{
	if (watched(task))
		return true;
	if (!everyone || (__u32)task->tgid == own_tgid)
		return false;
	__u32 tgid = task->tgid;
	struct process_info info = {};
	bpf_get_current_comm(info.comm, sizeof(info.comm));
	bpf_map_update_elem(&followed, &tgid, &info, BPF_ANY);
	return true;
}

#endif
