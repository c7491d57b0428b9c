/* Numbers of rings and contexts. */
#ifndef IOTRAIL_RINGS_H
#define IOTRAIL_RINGS_H

#include "followed.h"

/* The name of the process as `ps` shows it, that of its first thread. Another thread may create the ring, for example one
 * that serves a connection.
 */
static __always_inline void comm_of(struct task_struct *task, char *comm, __u32 size)
{
	bpf_probe_read_kernel_str(comm, size, task->group_leader->comm);
}

/* Key under which a process's entries that fit in no map are counted: neither a kernel address nor a plain tgid (POSIX AIO). */
#define OTHERS_OF(tgid) ((__u64)(tgid) | 1ull << 32)

static __always_inline void ring_gone(struct ring_info *info)
{
	if (info->gone)
		return;
	info->gone = 1;
	__sync_fetch_and_add(&rings_gone, 1);
}

/* Previous counts of this address belong to an earlier ring. */
static __always_inline void address_used_again(__u64 address)
{
	__u32 *before = bpf_map_lookup_elem(&ring_numbers, &address);
	struct ring_info *info = before ? bpf_map_lookup_elem(&ring_infos, before) : 0;

	if (info && !info->others)
		ring_gone(info);
}

/* Number under which rings of a process without their own number are counted. */
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

/* Assigns a number to the ring or context at this address, and sets the rest of `info`. `made`: it was just created, and
 * replaces any earlier owner of the address. Otherwise two threads may find it concurrently; the second thread uses the
 * number of the first.
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
	/* Counted here, because a program cannot read a map's number of entries. */
	__u32 kept = __sync_fetch_and_add(&rings_numbered, 1) - rings_swept;
	if (kept >= rings_max || bpf_map_update_elem(&ring_infos, &number, info, BPF_NOEXIST)) {
		__sync_fetch_and_sub(&rings_numbered, 1);
		return number_others(address, info);
	}
	return number;
}

/* Numbers a ring at its first event. */
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

/* Key of a process's use of a ring that it did not create. An address's low six bits are zero, and its high bits are the
 * same in all addresses.
 */
#define USE_OF(address, tgid) ((__u64)(address) >> 6 << 22 | (tgid))

/* Number of the current process's use of a ring that another process created or used first. */
__noinline int number_use(__u32 whole)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct ring_info *of = bpf_map_lookup_elem(&ring_infos, &whole);

	/* A ring that is counted by process has no separate uses. */
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
	/* An existing entry at this address belongs to an earlier ring or was removed. */
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

/* Number of the ring itself, independent of the process using it. */
static __always_inline __u32 whole_ring(__u32 ring)
{
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &ring);

	return info && info->of ? info->of - 1 : ring;
}

/* The ring's number; the slot caches the last one. */
static __always_inline __u32 ring_number(struct io_ring_ctx *ring, struct cpu_slot *slot)
{
	/* An address can only be reused after a new ring was created. */
	if (slot->ring_address != address_in_thread(ring, slot) || slot->ring_epoch != rings_made)
		return look_up_ring(ring);
	return slot->ring;
}

#endif
