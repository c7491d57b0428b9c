/* Queues of completions that wait in a ring's CQ, oldest first. */
#ifndef IOTRAIL_LYING_H
#define IOTRAIL_LYING_H

#include "follow.h"

const volatile bool reaps_asked = false;
const volatile struct stay stay_layout = {};	      /* as trail_layout */
const volatile enum stay_loss stay_loss_layout = 0;

#define CQ_BACKLOGS 256
#define LYING_WAYS 4  /* slots that a ring's queue may occupy */
#define LYING_GROUP 8 /* number of queues that are skipped together while empty */

#define LYING_ALL 256 /* this many of a ring's eligible completions are sampled first */
#define LYING_SHIFT 3 /* after that, 1 in 1 << this */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* CQ_BACKLOGS if requested */
	__type(key, __u32);
	__type(value, struct cq_backlog);
} cq_backlogs SEC(".maps");

/* Number of queued completions: without any, nothing is checked. On its own cache line, because every submission reads it. */
__u32 backlog_now __attribute__((aligned(64)));
__u32 backlog_groups[CQ_BACKLOGS / LYING_GROUP] __attribute__((aligned(64)));
__u64 stays_lost[STAY_LOSS_MAX];

/* State of the check of all queues: the next queue, and the time of the last check. */
__u32 backlog_cursor;
__u32 backlog_jiffy;

/* If the program does not reap, submissions check its queue less and less often. */
struct backlog_pace {
	__u32 skip;
	__u32 next;
};
struct backlog_pace backlog_paces[IOTRAIL_MAX_CPUS];
#define LYING_SKIP_MAX 63

#define NO_PLACE 0xffffffffu

static __always_inline __u32 backlog_place(__u64 ring, __u32 way)
{
	return ((ring >> 6) * 0x9E3779B97F4A7C15ull >> 56) + way & (CQ_BACKLOGS - 1);
}

/* The slot of the ring's queue, or NO_PLACE. */
static __always_inline __u32 backlog_find(__u64 ring)
{
	for (int i = 0; i < LYING_WAYS; i++) {
		__u32 place = backlog_place(ring, i);
		struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);

		if (q && q->ring_address == ring)
			return place;
	}
	return NO_PLACE;
}

/* A checker does not wait for the lock: its owner checks too, and may be the code that was interrupted. A writer spins for a
 * few microseconds.
 */
#define LYING_TRIES 256

static __always_inline bool backlog_try(struct cq_backlog *q)
{
	return !__sync_val_compare_and_swap(&q->busy, 0, 1);
}

struct trying {
	struct cq_backlog *queue;
	__u64 got;
};

static int backlog_tries(__u32 i, struct trying *trying)
{
	trying->got = backlog_try(trying->queue);
	return trying->got;
}

static __always_inline bool backlog_lock(struct cq_backlog *q)
{
	struct trying trying = { .queue = q };

	if (backlog_try(q))
		return true;
	bpf_loop(LYING_TRIES, backlog_tries, &trying, 0);
	return trying.got;
}

static __always_inline void backlog_unlock(struct cq_backlog *q)
{
	__sync_val_compare_and_swap(&q->busy, 1, 0);
}

/* If all slots are taken, reuses the slot of a ring without queued completions. The new ring starts as if it had posted
 * many, so only a share of its completions is sampled.
 */
__noinline __u32 backlog_find_or_make(__u64 ring)
{
	__u32 found = backlog_find(ring);

	if (found != NO_PLACE)
		return found;
	for (int i = 0; i < LYING_WAYS; i++) {
		__u32 place = backlog_place(ring, i);
		struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);

		if (!q)
			continue;
		__u64 before = __sync_val_compare_and_swap(&q->ring_address, 0, ring);
		if (!before || before == ring)
			return place;
	}
	for (int i = 0; i < LYING_WAYS; i++) {
		__u32 place = backlog_place(ring, i);
		struct cq_backlog *q = bpf_map_lookup_elem(&cq_backlogs, &place);

		if (!q || q->count || q->wanted || !backlog_try(q))
			continue;
		bool free = !q->count;
		if (free) {
			q->ring_address = ring;
			q->posted = LYING_ALL;
			q->thinned = q->tid = 0;
			q->due_ns = 0;
		}
		backlog_unlock(q);
		if (free)
			return place;
	}
	return NO_PLACE;
}

static __always_inline void backlog_add(__u32 place, __s32 n)
{
	__sync_fetch_and_add(&backlog_groups[(place & (CQ_BACKLOGS - 1)) / LYING_GROUP], n);
	__sync_fetch_and_add(&backlog_now, n);
}

static __always_inline void stays_lose(enum stay_loss why, __u64 n)
{
	if (n)
		__sync_fetch_and_add(&stays_lost[why], n);
}

struct leaving {
	struct cq_backlog *queue;
	__u64 gone_ns; /* 0: removed without an observed reap */
	__u32 head;
	__u32 left;
};

/* Reports and removes the oldest completion if the head has passed it. */
static int backlog_leaves(__u32 i, struct leaving *leaving)
{
	struct cq_backlog *q = leaving->queue;
	struct lying *l = &q->entries[q->first & (LYING_MAX - 1)];

	if (!q->count || (leaving->gone_ns && (__s32)(leaving->head - l->end) < 0))
		return 1;
	struct stay *stay = bpf_ringbuf_reserve(&trails_out, sizeof(*stay), 0);
	if (stay) {
		stay->posted_ns = l->posted_ns;
		stay->not_yet_ns = q->looked_ns > l->posted_ns ? q->looked_ns : l->posted_ns;
		stay->gone_ns = leaving->gone_ns;
		stay->due_ns = l->posted_ns;
		/* A completion that ends a wait did not wait for others. */
		if (q->wanted && (__s32)(q->wanted_end - l->end) > 0)
			stay->due_ns = 0;
		else if ((__s32)(q->due_end - l->end) > 0 && q->due_ns > l->posted_ns)
			stay->due_ns = q->due_ns;
		stay->starved_ns = q->starved_ns - l->starved_ns;
		stay->ring = l->ring;
		stay->weight = l->weight;
		stay->depth = l->depth;
		stay->deepest = q->deepest;
		stay->cq_entries = q->cq_entries;
		stay->pad = 0;
		bpf_ringbuf_submit(stay, BPF_RB_NO_WAKEUP);
	} else {
		stays_lose(STAY_LOST, 1);
	}
	q->first++;
	q->count--;
	leaving->left++;
	return 0;
}

/* Removes the reaped completions (all if `gone_ns` is 0). An empty queue keeps no state of the previous episode. */
static __always_inline void backlog_leave(struct cq_backlog *q, __u32 place, __u64 gone_ns, __u32 head)
{
	struct leaving leaving = { .queue = q, .gone_ns = gone_ns, .head = head };

	bpf_loop(LYING_MAX, backlog_leaves, &leaving, 0);
	backlog_add(place, -(__s32)leaving.left);
	if (!q->count)
		q->thinned = 0;
}

struct thinning {
	struct cq_backlog *queue;
	__u32 odd;
};

static int backlog_thins(__u32 i, struct thinning *thinning)
{
	struct cq_backlog *q = thinning->queue;
	struct lying *to = &q->entries[(q->first + i) & (LYING_MAX - 1)];
	struct lying *from = &q->entries[(q->first + 2 * i + thinning->odd) & (LYING_MAX - 1)];

	*to = *from;
	to->weight *= 2;
	return 0;
}

static __noinline int backlog_thin(struct cq_backlog *q, __u32 place)
{
	if (!q)
		return 0;
	struct thinning thinning = { .queue = q, .odd = bpf_get_prandom_u32() & 1 };

	bpf_loop(LYING_MAX / 2, backlog_thins, &thinning, 0);
	q->count = LYING_MAX / 2;
	q->thinned++;
	backlog_add(place, -(LYING_MAX / 2));
	return 0;
}

static __always_inline void backlog_drop(struct cq_backlog *q, __u32 place)
{
	stays_lose(STAY_DROPPED, q->count);
	backlog_add(place, -(__s32)q->count);
	q->count = q->wanted = q->thinned = q->deepest = 0;
	q->due_ns = 0;
}

#endif
