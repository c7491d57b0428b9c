/* What is kept of rings, their counts, and followed requests. */
#ifndef IOTRAIL_FOLLOWED_H
#define IOTRAIL_FOLLOWED_H

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
	__uint(max_entries, 1024); /* MANY where requests are followed */
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

struct worker {
	__u64 free_ns; /* from when on it could begin what it works on */
	__u32 idle;    /* it left the CPU without work */
	__u32 pad;
};

/* Those of them that live. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct worker);
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

#endif
