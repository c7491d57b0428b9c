/* Other people's programs: counts by ring and opcode, and chosen requests followed from their submission to what carried
 * their completion (a trail each). All of it only where `following`.
 */
#ifndef IOTRAIL_FOLLOW_H
#define IOTRAIL_FOLLOW_H

#include "state.h"

const volatile __u32 one_in = 1;
const volatile __u32 drain_active_flag = 0; /* in a ring's int_flags; from BTF */
const volatile __u64 skip_links_flag = 0; /* REQ_F_… of a head that asked for no completion and failed; from BTF */
const volatile __u64 multishot_flags = 0; /* REQ_F_… bits of a request that posts many completions; from BTF */
const volatile struct trail trail_layout = {};         /* never read: a ring buffer has no value type */

__u32 finishing; /* no more requests are chosen; those that are go on to their end */
__u32 rings_made;  /* rings and contexts numbered so far; also the epoch of what the slots remember */
__u32 rings_numbered; /* of them, those that have a number of their own */
__u32 rings_gone;     /* of these, those that are no more */
__u32 rings_swept;    /* and that user space has taken out of the maps: only it writes here */

/* Rings that have a number of their own at one time, those that are not swept yet included; set with the maps' sizes. */
const volatile __u32 rings_max = 1;

/* Where requests are not followed these have one entry. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u64); /* address; or OTHERS_OF(tgid), or USE_OF(address, tgid) */
	__type(value, __u32);
} ring_numbers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_info);
} ring_infos SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, struct op_key);
	__type(value, struct op_count);
} op_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ring_count);
} ring_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct errno_key);
	__type(value, __u64);
} errnos SEC(".maps");

/* Counted when they are chosen: some have no completion of their own, or one that cannot be told to be theirs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct batch_key);
	__type(value, __u64);
} batches SEC(".maps");

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

/* Requests whose completion found the queue full, and which may still have their place among the followed. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct many_key);
	__type(value, __u64);
} overflowed SEC(".maps");

__u32 overflows_seen; /* nothing to look for in there while there are none */

__u32 workers_made; /* io-wq workers that ran */
__u32 workers_now;
__u32 workers_most;

/* Those of them that live. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
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

/* The process's name, as `ps` shows it: its first thread's. Of other threads, one that serves a connection may make the ring. */
static __always_inline void comm_of(struct task_struct *task, char *comm, __u32 size)
{
	bpf_probe_read_kernel_str(comm, size, task->group_leader->comm);
}

/* What all that a map has no room for is counted under, by process: no address of the kernel's, and no tgid alone (POSIX AIO). */
#define OTHERS_OF(tgid) ((__u64)(tgid) | 1ull << 32)

static __always_inline void ring_gone(struct ring_info *info)
{
	if (info->gone)
		return;
	info->gone = 1;
	__sync_fetch_and_add(&rings_gone, 1);
}

/* What was counted of this address up to here is another one's. */
static __always_inline void address_used_again(__u64 address)
{
	__u32 *before = bpf_map_lookup_elem(&ring_numbers, &address);
	struct ring_info *info = before ? bpf_map_lookup_elem(&ring_infos, before) : 0;

	if (info && !info->others)
		ring_gone(info);
}

/* The number of its process's other rings. */
static __noinline int number_others(__u64 address, struct ring_info *info)
{
	__u32 tgid = info->tgid, number = RING_OTHERS;
	__u64 of_process = OTHERS_OF(tgid) | (__u64)info->interface << 33;
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &of_process);
	struct ring_info *others = known ? bpf_map_lookup_elem(&ring_infos, known) : 0;

	if (others) {
		number = *known;
	} else {
		struct ring_info fresh = { .address = of_process, .interface = info->interface, .tgid = tgid, .others = 1 };
		__builtin_memcpy(fresh.comm, info->comm, sizeof(fresh.comm));
		number = __sync_fetch_and_add(&rings_made, 1);
		if (bpf_map_update_elem(&ring_infos, &number, &fresh, BPF_NOEXIST))
			number = RING_OTHERS;
		else
			bpf_map_update_elem(&ring_numbers, &of_process, &number, BPF_ANY);
	}
	if (!bpf_map_update_elem(&ring_numbers, &address, &number, BPF_ANY) && others)
		__sync_fetch_and_add(&others->others, 1);
	return number;
}

/* A number for the ring or context of this address, which was not known; the rest of `info` is set here. `made`: it was made just now,
 * and what had the address before is gone. Else two threads may meet it at once: who comes second takes the number of the first.
 */
static __always_inline __u32 number_new(__u64 address, struct ring_info *info, bool made)
{
	__u32 number = __sync_fetch_and_add(&rings_made, 1);

	if (made)
		address_used_again(address);
	if (bpf_map_update_elem(&ring_numbers, &address, &number, made ? BPF_ANY : BPF_NOEXIST)) {
		__u32 *first = bpf_map_lookup_elem(&ring_numbers, &address);
		if (first)
			return *first;
	}
	info->address = address;
	info->tgid = bpf_get_current_pid_tgid() >> 32;
	comm_of(bpf_get_current_task_btf(), info->comm, sizeof(info->comm));
	/* Counted by hand: how many entries a map has, no program is told. */
	__u32 kept = __sync_fetch_and_add(&rings_numbered, 1) - rings_swept;
	if (kept >= rings_max || bpf_map_update_elem(&ring_infos, &number, info, BPF_NOEXIST)) {
		__sync_fetch_and_sub(&rings_numbered, 1);
		return number_others(address, info);
	}
	return number;
}

/* A ring that is seen for the first time. */
static __always_inline __u32 number_ring(struct io_ring_ctx *ring, bool found, __u32 setup_flags, __u32 sq_entries,
					 __u32 cq_entries, struct cpu_slot *slot)
{
	__u64 address = address_in_thread(ring, slot);
	struct ring_info info = {
		.interface = INTERFACE_IO_URING,
		.setup_flags = setup_flags,
		.sq_entries = sq_entries,
		.cq_entries = cq_entries,
		.found = found,
	};
	__u32 number = number_new(address, &info, !found);

	slot->ring_address = address;
	slot->ring_epoch = rings_made;
	slot->ring = number;
	return number;
}

/* What a process that did not make a ring does with it: the low bits of an address are zero, and the high ones are the same in all. */
#define USE_OF(address, tgid) ((__u64)(address) >> 6 << 22 | (tgid))

/* The number of the current process's use of a ring that another one made, or was met with first. */
static __noinline int number_use(__u32 whole)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct ring_info *of = bpf_map_lookup_elem(&ring_infos, &whole);

	/* Of those that are counted by process together it is not told. */
	if (!of || of->tgid == tgid || of->others)
		return whole;
	__u64 address = USE_OF(of->address, tgid);
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &address);
	struct ring_info *before = known ? bpf_map_lookup_elem(&ring_infos, known) : 0;
	if (before && before->of == whole + 1)
		return *known;
	struct ring_info info = {
		.interface = INTERFACE_IO_URING,
		.setup_flags = of->setup_flags,
		.sq_entries = of->sq_entries,
		.cq_entries = of->cq_entries,
		.found = of->found,
		.of = whole + 1,
	};
	/* What is known of this address is of another ring, or swept. */
	return number_new(address, &info, known != 0);
}

static __noinline int look_up_ring(struct io_ring_ctx *ring)
{
	struct cpu_slot *slot = this_slot();
	__u64 address = address_in_thread(ring, slot);
	__u32 *known = bpf_map_lookup_elem(&ring_numbers, &address);
	if (known) {
		slot->ring = number_use(*known);
		slot->ring_address = address;
		slot->ring_epoch = rings_made;
		return slot->ring;
	}
	return number_ring(ring, true, BPF_CORE_READ(ring, flags), BPF_CORE_READ(ring, sq_entries),
			   BPF_CORE_READ(ring, cq_entries), slot);
}

/* The number of the ring itself, whoever uses it. */
static __always_inline __u32 whole_ring(__u32 ring)
{
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &ring);

	return info && info->of ? info->of - 1 : ring;
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

#define ADD_IF(to, from, member)                                                \
	do {                                                                    \
		if ((from)->member)                                             \
			__sync_fetch_and_add(&(to)->member, (from)->member);    \
	} while (0)

/* Adds counts to what the map has of this key. Whether it has room. */
static __always_inline bool op_added(struct op_key *key, struct op_count *count)
{
	struct op_count *sum = bpf_map_lookup_elem(&op_counts, key);

	if (!sum) {
		if (!bpf_map_update_elem(&op_counts, key, count, BPF_NOEXIST))
			return true;
		/* Another CPU was first, or there is no room. */
		sum = bpf_map_lookup_elem(&op_counts, key);
		if (!sum)
			return false;
	}
	ADD_IF(sum, count, requests);
	ADD_IF(sum, count, skips);
	ADD_IF(sum, count, completions);
	ADD_IF(sum, count, bytes);
	ADD_IF(sum, count, errors);
	ADD_IF(sum, count, shorts);
	ADD_IF(sum, count, more);
	ADD_IF(sum, count, notifications);
	ADD_IF(sum, count, unposted);
	ADD_IF(sum, count, punted_asked);
	ADD_IF(sum, count, punted_would_block);
	ADD_IF(sum, count, punted_drained);
	return true;
}

static __always_inline bool ring_added(__u32 ring, struct ring_count *count)
{
	struct ring_count *sum = bpf_map_lookup_elem(&ring_counts, &ring);

	if (!sum) {
		if (!bpf_map_update_elem(&ring_counts, &ring, count, BPF_NOEXIST))
			return true;
		sum = bpf_map_lookup_elem(&ring_counts, &ring);
		if (!sum)
			return false;
	}
	ADD_IF(sum, count, inlined);
	ADD_IF(sum, count, sqpoll);
	ADD_IF(sum, count, iowq);
	ADD_IF(sum, count, iopoll);
	ADD_IF(sum, count, overflows);
	ADD_IF(sum, count, unseen);
	return true;
}

/* What finds no room counts for the other rings, so that the sums stay right. */
static __always_inline void op_put_away(struct op_key *key, struct op_count *count, struct cpu_slot *slot)
{
	if (op_added(key, count))
		return;
	struct op_key others = { .ring = RING_OTHERS, .opcode = key->opcode };
	if (!op_added(&others, count))
		slot->losses[LOSS_COUNT] += count->completions ? count->completions : 1;
}

static __always_inline void ring_put_away(__u32 ring, struct ring_count *count, struct cpu_slot *slot)
{
	if (!ring_added(ring, count) && !ring_added(RING_OTHERS, count))
		slot->losses[LOSS_COUNT]++;
}

/* The cell is another key's from now on. */
static __noinline int op_cell_turns(__u32 place, __u32 ring, __u32 opcode)
{
	struct cpu_slot *slot = this_slot();
	struct op_cell *cell = &slot->ops[place & (OP_CELLS - 1)];
	struct op_key key = cell->key;
	struct op_count count = cell->count;

	/* Whoever looks at it from another CPU never finds a count by the next one's key. */
	__builtin_memset(&cell->count, 0, sizeof(cell->count));
	barrier();
	cell->key.ring = ring;
	cell->key.opcode = opcode;
	/* Only one that was never used has counted nothing. */
	if (count.requests | count.completions | count.punted_asked | count.punted_would_block | count.punted_drained)
		op_put_away(&key, &count, slot);
	return 0;
}

static __noinline int ring_cell_turns(__u32 place, __u32 ring)
{
	struct cpu_slot *slot = this_slot();
	struct ring_cell *cell = &slot->rings[place & (RING_CELLS - 1)];
	__u32 before = cell->ring, used = cell->used;
	struct ring_count count = cell->count;

	__builtin_memset(&cell->count, 0, sizeof(cell->count));
	barrier();
	cell->ring = ring;
	cell->used = 1;
	if (used)
		ring_put_away(before, &count, slot);
	return 0;
}

/* Where the current thread counts of this ring and opcode: its CPU's alone, and plain additions do. Most events repeat one of the
 * last keys, and operations that a program uses beside each other have cells of their own (the numbers are chosen for that).
 */
static __always_inline struct op_count *op_of(__u32 ring, __u32 opcode, struct cpu_slot *slot)
{
	opcode &= OPCODES_MAX - 1;
	__u32 place = ((opcode * 139 >> 6) ^ ring) & (OP_CELLS - 1);
	struct op_cell *cell = &slot->ops[place];

	if (cell->key.ring != ring || cell->key.opcode != opcode)
		op_cell_turns(place, ring, opcode);
	return &cell->count;
}

static __always_inline struct ring_count *ring_of(__u32 ring, struct cpu_slot *slot)
{
	__u32 place = ring & (RING_CELLS - 1);
	struct ring_cell *cell = &slot->rings[place];

	if (cell->ring != ring || !cell->used)
		ring_cell_turns(place, ring);
	return &cell->count;
}

static __always_inline void count_inlined(__u32 ring, __u32 n)
{
	ring_of(ring, this_slot())->inlined += n;
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
static __noinline int adopt(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid;

	/* The kernel's own threads do what others asked for. */
	if (tgid == own_tgid || task->flags & PF_KTHREAD)
		return 0;
	struct process_info info = { .leader = (__u64)task->group_leader };
	comm_of(task, info.comm, sizeof(info.comm));
	if (!bpf_map_update_elem(&followed, &tgid, &info, BPF_ANY))
		return 1;
	this_slot()->losses[LOSS_COUNT]++;
	return 0;
}

static __always_inline bool adopted(struct task_struct *task)
{
	return watched(task) || (everyone && adopt());
}

#endif
