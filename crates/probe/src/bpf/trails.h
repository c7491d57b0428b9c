/* Traced requests by address, and the slots of their trails. */
#ifndef IOTRAIL_TRAILS_H
#define IOTRAIL_TRAILS_H

#include "followed.h"

static __always_inline __u32 bucket_of(__u64 address)
{
	/* Fibonacci hashing; the low bits of an address carry no information. */
	return (address >> 5) * 0x9E3779B97F4A7C15ull >> 52 & (BUCKETS - 1);
}

static __always_inline struct trail *trail_at(__u32 index)
{
	return bpf_map_lookup_elem(&trails, &index);
}

/* The trail of a request and its index; null if the request is not traced. */
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

/* Tag of a completed request. Its slot is kept until the delivery path is known, but the address, which the kernel may
 * reuse, no longer finds it.
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

/* Allocates a slot for a request; null if its bucket is full. */
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

#endif
