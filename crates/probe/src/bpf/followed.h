/* State of rings and traced requests, and the rings' counts. */
#ifndef IOTRAIL_FOLLOWED_H
#define IOTRAIL_FOLLOWED_H

#include "state.h"

const volatile __u32 one_in = 1;
const volatile __u32 drain_active_flag = 0; /* flag in a ring's int_flags; from BTF */
const volatile __u64 skip_links_flag = 0; /* REQ_F_… bit of a failed head with IOSQE_CQE_SKIP_SUCCESS; from BTF */
const volatile __u64 multishot_flags = 0; /* REQ_F_… bits of multishot requests; from BTF */
const volatile struct trail trail_layout = {};         /* never read: a ring buffer has no value type */

__u32 finishing; /* selects no more requests; selected ones continue to their end */
__u32 rings_made;  /* rings and contexts numbered so far; also the generation of the slots' caches */
__u32 rings_numbered; /* of these, the ones with a number of their own */
__u32 rings_gone;     /* of those, the closed ones */
__u32 rings_swept;    /* and the ones that user space, the only writer, removed from the maps */

/* Maximum number of numbered rings at a time, including closed rings that are not swept yet; set together with the map sizes. */
const volatile __u32 rings_max = 1;

/* These maps have one entry if requests are not traced. */
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

/* Counted at selection, because some requests post no completion, or one that cannot be attributed to them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, struct batch_key);
	__type(value, __u64);
} batches SEC(".maps");

/* State of a multishot request, keyed by user data: all its completions except the last carry only that. */
struct many_key {
	__u64 user_data;
	__u32 ring;
	__u32 pad;
};

struct many {
	__u64 request; /* the last one submitted, until its last completion; 0: complete */
	__u32 opcode;
	__u32 serial; /* serial of its trail; 0: not traced */
	__u32 shared; /* another one was in flight at its submission: completions cannot be attributed */
	__s32 fd;     /* as in struct armed_key */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024); /* MANY if requests are traced */
	__type(key, struct many_key);
	__type(value, struct many);
} many SEC(".maps");

/* Requests whose completion found the queue full, and that may still occupy a trail slot. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 8192);
	__type(key, struct many_key);
	__type(value, __u64);
} overflowed SEC(".maps");

__u32 overflows_seen; /* no lookup while there are none */

__u32 workers_made; /* io-wq workers that ran */
__u32 workers_now;
__u32 workers_most;

struct worker {
	__u64 free_ns; /* earliest possible start of its current work */
	__u32 idle;    /* it left the CPU without work */
	__u32 pad;
};

/* Number of live trails. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct worker);
} workers SEC(".maps");

/* Traced requests by address. A bucket is one cache line, which a lookup searches completely. */
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
	__uint(max_entries, 1); /* BUCKETS * WAYS if requests are traced */
	__type(key, __u32);
	__type(value, struct trail);
} trails SEC(".maps");

__u32 followed_now; /* requests in the table: no lookup while there are none */

/* The same table for bios, each with its trail. */
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
