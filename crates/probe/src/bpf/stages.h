/* Stages of traced requests, and the time in which a ring is used. */
#ifndef IOTRAIL_STAGES_H
#define IOTRAIL_STAGES_H

#include "request.h"
#include "choose.h"
#include "files.h"
#include "reap.h"

__noinline int ring_used(__u32 ring, __u32 now)
{
	struct ring_info *info = bpf_map_lookup_elem(&ring_infos, &ring);

	if (!info)
		return 0;
	if (!info->first_jiffy)
		info->first_jiffy = now;
	info->last_jiffy = now;
	return 0;
}

/* A count of this ring changed. Its rates refer to the time between the first and last change, in ticks. */
static __always_inline void ring_in_use(__u32 ring, struct cpu_slot *slot)
{
	struct in_use *last = &slot->in_use[ring & (IN_USE_MAX - 1)];
	__u32 now = bpf_jiffies64();

	if (last->jiffy == now && last->ring == ring)
		return;
	last->ring = ring;
	last->jiffy = now;
	ring_used(ring, now);
}

/* The current thread's last submitted request is not posted inline. */
static __always_inline void went_away(__u64 request, struct cpu_slot *slot)
{
	if (slot->last_request != request)
		return;
	slot->last_request = 0;
	if (slot->submitted)
		slot->submitted--;
}

/* Activity of the submitter when its completion becomes ready. If the thread has exited, the ID at that address differs. */
static __always_inline void look_at_submitter(struct trail *trail)
{
	struct task_struct *task = (struct task_struct *)trail->task;

	if (BPF_CORE_READ(task, pid) != (int)trail->tid)
		return;
	__u32 cpu = BPF_CORE_READ(task, thread_info.cpu);
	struct cpu_slot *there = &slots[cpu & (IOTRAIL_MAX_CPUS - 1)];
	trail->meanwhile_cpu = cpu;
	trail->switched = there->switched;
	if (is_on_cpu(task)) {
		trail->meanwhile = MEANWHILE_RUNNING;
		return;
	}
	struct task_struct *other = (struct task_struct *)there->running;
	if (!other)
		return;
	trail->meanwhile = BPF_CORE_READ(task, __state) ? MEANWHILE_SLEEPING : MEANWHILE_RUNNABLE;
	trail->meanwhile_tid = BPF_CORE_READ(other, pid);
	bpf_core_read_str(trail->meanwhile_comm, sizeof(trail->meanwhile_comm), &other->comm);
}

/* The device or peer is done, as far as is known: the last stamp counts. */
static __always_inline void ready(struct trail *trail)
{
	trail->ready_ns = bpf_ktime_get_ns();
	trail->ready_cpu = bpf_get_smp_processor_id();
	trail->meanwhile = MEANWHILE_UNSEEN;
	look_at_submitter(trail);
}

/* Socket operations: first issued nonblocking, then they wait in a poll. */
#define SOCKET_OPS                                                                                                   \
	(1ull << IORING_OP_SENDMSG | 1ull << IORING_OP_RECVMSG | 1ull << IORING_OP_ACCEPT | 1ull << IORING_OP_CONNECT | \
	 1ull << IORING_OP_SEND | 1ull << IORING_OP_RECV)

#define READ_OPS (1ull << IORING_OP_READV | 1ull << IORING_OP_READ_FIXED | 1ull << IORING_OP_READ)

/* The current thread's last submitted request is not complete, not in a poll and not with io-wq. So its poll found the
 * socket ready (IO_APOLL_READY, which has no event), and its task work is queued.
 */
static __noinline int submission_ends(void)
{
	struct cpu_slot *slot = this_slot();
	struct trail *trail = slot->submitting ? trail_at(slot->submitting - 1) : 0;

	slot->submitting = 0;
	if (!trail || trail->tid != slot->tid || trail->course != COURSE_DIRECT || trail->issued_ns || trail->punted_ns ||
	    trail->marks)
		return 0;
	struct kiocb *iocb = (void *)trail->request;
	if (READ_OPS >> (trail->opcode & 63) & 1 && BPF_CORE_READ(iocb, ki_flags) & IOCB_WAITQ) {
		trail->marks = TRAIL_WAITS_FOR_PAGE;
		trail->issued_ns = bpf_ktime_get_ns();
		trail->issued_cpu = bpf_get_smp_processor_id();
	}
	if (!(SOCKET_OPS >> (trail->opcode & 63) & 1))
		return 0;
	/* The request waits for a drain. */
	if (flags_of((struct io_kiocb *)trail->request) & REQ_F_FORCE_ASYNC)
		return 0;
	ready(trail);
	trail->course = COURSE_POLL;
	trail->issued_ns = trail->ready_ns;
	trail->issued_cpu = trail->ready_cpu;
	return 0;
}

static __noinline int no_completion_of(struct trail *trail, struct cpu_slot *slot)
{
	struct many_key key = { .user_data = trail->user_data, .ring = trail->ring };
	__u64 *left = overflows_seen ? bpf_map_lookup_elem(&overflowed, &key) : 0;

	slot->no_completion++;
	if (left && *left)
		__sync_fetch_and_add(left, -1);
	return 0;
}

/* The slot of a traced request is reused without an observed completion. */
static __always_inline void count_uncompleted(struct trail *trail, struct cpu_slot *slot)
{
	if (trail->skips)
		slot->skipped++;
	else
		no_completion_of(trail, slot);
}

#endif
