/* Selects the requests that are traced end to end: 1 in `one_in`, or, if `adaptive`, all requests of a CPU while its rate is
 * low and 1 in `one_in` otherwise. The mode is decided before the request arrives. Its probability is therefore known, and
 * estimates weight the request by the inverse.
 */
#ifndef IOTRAIL_CHOOSE_H
#define IOTRAIL_CHOOSE_H

#include "follow.h"

const volatile bool adaptive = false;
const volatile __u32 window_jiffies = 1;
const volatile __u32 whole_max = 0;	  /* requests per CPU and window up to which all are traced */
const volatile __u64 trails_crowded = 0; /* pending bytes in the ring buffer above which the reader lags */

/* Start value of a window in which not every request is traced. */
#define WINDOW_BUSY (1u << 31)

static __always_inline __u32 random_below(__u32 n)
{
	return (__u64)bpf_get_prandom_u32() * n >> 32;
}

/* Whether every request on this CPU is currently traced. */
static __always_inline bool while_few(struct cpu_slot *slot)
{
	__u32 now = bpf_jiffies64();
	__u32 passed = now - slot->window_since;

	if (passed >= window_jiffies) {
		/* If the last window ended more than one window ago, it was followed by an empty one. */
		bool busy = passed < 2 * window_jiffies && (slot->window_submits & ~WINDOW_BUSY) > whole_max;
		slot->window_since = now;
		slot->window_submits = busy ? WINDOW_BUSY : 0;
	}
	if (++slot->window_submits > whole_max)
		return false;
	if (bpf_ringbuf_query(&trails_out, BPF_RB_AVAIL_DATA) <= trails_crowded)
		return true;
	slot->window_submits |= WINDOW_BUSY;
	return false;
}

/* Selects 1 in `one_in` at random gaps, because regular gaps would alias with the program's batches. Gaps are uniform from 1
 * to 2 * one_in - 1. The first gap is the remainder of such a gap at a random time (the smaller of two different numbers),
 * so that every request has the same probability.
 */
static __always_inline bool is_next(struct cpu_slot *slot)
{
	const __u32 longest = 2 * one_in - 1;

	if (slot->until_next > 1) {
		slot->until_next--;
		return false;
	}
	if (!slot->until_next) {
		__u32 one = 1 + random_below(longest + 1), other = 1 + random_below(longest);
		if (other >= one)
			other++;
		slot->gaps = slot->until_next = one < other ? one : other;
		if (slot->until_next > 1) {
			slot->until_next--;
			return false;
		}
	}
	slot->until_next = 1 + random_below(longest);
	slot->gaps += slot->until_next;
	return true;
}

/* Weight of a request; 0: not traced. `later` requests, at the end of a window, are counted but not traced, and do not advance the gaps. */
static __always_inline __u32 chosen(struct cpu_slot *slot, bool later)
{
	if (later) {
		__sync_fetch_and_add(&slot->came_later, 1); /* a library function (uprobe) may be interrupted here */
		return 0;
	}
	if (one_in <= 1 || (adaptive && while_few(slot))) {
		slot->chosen_whole++;
		return 1;
	}
	if (!is_next(slot))
		return 0;
	slot->chosen_sampled++;
	return one_in;
}

#endif
