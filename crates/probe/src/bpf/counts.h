/* Counts by ring and opcode: kept in the CPU's slot first, then moved to the maps. */
#ifndef IOTRAIL_COUNTS_H
#define IOTRAIL_COUNTS_H

#include "rings.h"

/* Finds the ring's segment among several and adds `n` to it. */
__noinline int segment_find_and_add(__u32 ring, __u32 n)
{
	struct cpu_slot *slot = this_slot();

	for (int i = 0; i < SEGMENTS_MAX; i++) {
		struct segment *s = &slot->segments[i];
		bool last = i == SEGMENTS_MAX - 1 || !slot->segments[i + 1].count;

		if (s->count && !(last && s->ring == ring))
			continue;
		s->ring = ring;
		s->count += n;
		return 0;
	}
	/* No segment is free, so the order is lost. Each ring's count stays correct, but the split into inline and other
	 * completions is less exact.
	 */
	for (int i = SEGMENTS_MAX - 2; i >= 0; i--) {
		if (slot->segments[i].ring == ring) {
			slot->segments[i].count += n;
			return 0;
		}
	}
	slot->segments[SEGMENTS_MAX - 1].count += n;
	return 0;
}

/* `n` more completions of this ring are pending. */
static __always_inline void segment_add(struct cpu_slot *slot, __u32 ring, __u32 n)
{
	struct segment *first = &slot->segments[0];

	/* Most threads have one ring. */
	if (first->count && first->ring == ring && !slot->segments[1].count)
		first->count += n;
	else
		segment_find_and_add(ring, n);
}

#define ADD_IF(to, from, member)                                                \
	do {                                                                    \
		if ((from)->member)                                             \
			__sync_fetch_and_add(&(to)->member, (from)->member);    \
	} while (0)

const volatile struct op_count no_ops = {};

/* The sums of this key, created if missing; null if the map is full. */
static __always_inline struct op_count *op_entry(__u32 ring, __u32 opcode)
{
	struct op_key key = { .ring = ring, .opcode = opcode & (OPCODES_MAX - 1) };
	struct op_count *sum = bpf_map_lookup_elem(&op_counts, &key);

	if (sum)
		return sum;
	bpf_map_update_elem(&op_counts, &key, (const void *)&no_ops, BPF_NOEXIST);
	return bpf_map_lookup_elem(&op_counts, &key);
}

/* A key that does not fit is counted with the process's other rings; null: the count is lost, and recorded as lost. */
static __always_inline struct op_count *op_sum(__u32 ring, __u32 opcode)
{
	struct op_count *sum = op_entry(ring, opcode);

	if (!sum)
		sum = op_entry(RING_OTHERS, opcode);
	if (!sum)
		this_slot()->losses[LOSS_COUNT]++;
	return sum;
}

/* Adds a CPU's part to the sums of this key. Returns whether the map had space. */
static __always_inline bool op_added(struct op_key *key, struct op_part *count)
{
	struct op_count *sum = op_entry(key->ring, key->opcode);

	if (!sum)
		return false;
	ADD_IF(sum, count, requests);
	ADD_IF(sum, count, skips);
	ADD_IF(sum, count, completions);
	ADD_IF(sum, count, bytes);
	ADD_IF(sum, count, errors);
	ADD_IF(sum, count, shorts);
	ADD_IF(sum, count, more);
	ADD_IF(sum, count, notifications);
	ADD_IF(sum, count, copied);
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
	ADD_IF(sum, count, waits);
	ADD_IF(sum, count, waits_min);
	ADD_IF(sum, count, waits_registered);
	ADD_IF(sum, count, waits_no_iowait);
	ADD_IF(sum, count, waits_loop);
	return true;
}

/* A key that does not fit is counted with the process's other rings, so that the sums stay correct. */
static __always_inline void op_put_away(struct op_key *key, struct op_part *count, struct cpu_slot *slot)
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

/* Reassigns the cell to another key. */
__noinline int op_cell_turns(__u32 place, __u32 ring, __u32 opcode)
{
	struct cpu_slot *slot = this_slot();
	struct op_cell *cell = &slot->ops[place & (OP_CELLS - 1)];
	struct op_key key = cell->key;
	struct op_part count = cell->count;

	/* A reader on another CPU must never see the old count under the new key. */
	__builtin_memset(&cell->count, 0, sizeof(cell->count));
	barrier();
	cell->key.ring = ring;
	cell->key.opcode = opcode;
	/* Only a cell that was never used has all-zero counts. */
	if (count.requests | count.completions | count.unposted | count.punted_asked | count.punted_would_block | count.punted_drained)
		op_put_away(&key, &count, slot);
	return 0;
}

__noinline int ring_cell_turns(__u32 place, __u32 ring)
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

/* The cell of this ring and opcode on the current CPU. Only this CPU writes to it, so plain additions suffice. Most events
 * repeat a recent key. Opcodes that programs use together have different cells; their numbers are chosen for that.
 */
static __always_inline struct op_part *op_of(__u32 ring, __u32 opcode, struct cpu_slot *slot)
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

#endif
