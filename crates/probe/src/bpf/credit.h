/* Attributes device interrupts to the traced processes whose I/O they complete. A line's interrupts complete the I/O of any
 * process, so an interrupt counts only if I/O of a traced process ends in its handler or in a softirq that the handler
 * raised. Each handler run is attributed at most once.
 */
#ifndef IOTRAIL_CREDIT_H
#define IOTRAIL_CREDIT_H

#include "follow.h"
#include "threaded.h"

const volatile __u64 io_complete_address = 0;    /* io_complete_rw */
const volatile __u64 iomap_end_io_address = 0;   /* iomap_dio_bio_end_io */
const volatile __u64 nvme_end_io_address = 0;    /* nvme_uring_cmd_end_io */
const volatile bool any_wakeup = false; /* the interface's threads sleep only for its I/O */

#define DIO_IS_SYNC 2 /* block/fops.c */

const volatile __u64 io_complete_polled_address = 0; /* io_complete_rw_iopoll */

__noinline int count_credit(__u32 line);

/* The handler run that causes the current activity: its line + 1 (0: none) and its serial number. */
static __always_inline __u32 handler_here(struct cpu_slot *slot, __u32 *serial)
{
	if (slot->in_irq) {
		*serial = slot->handlers;
		return slot->in_irq;
	}
	if (slot->in_vector)
		return 0;
	if (!slot->in_softirq)
		return line_of_thread(serial);
	*serial = slot->raiser.serial;
	return slot->raiser.irq;
}

static __always_inline bool credited(struct cpu_slot *slot, __u32 serial)
{
	return slot->credited[serial & (CREDITS_MAX - 1)] == serial;
}

/* Whether the current device interrupt is not attributed yet. */
static __always_inline bool creditable(struct cpu_slot *slot)
{
	__u32 serial;

	return !not_counting() && handler_here(slot, &serial) && !credited(slot, serial);
}

/* I/O of a traced process ended in the current context. */
static __always_inline void credit(struct cpu_slot *slot)
{
	__u32 serial, line = handler_here(slot, &serial);

	if (!line || not_counting() || credited(slot, serial))
		return;
	slot->credited[serial & (CREDITS_MAX - 1)] = serial;
	slot->credits++;
	count_credit(line - 1);
}

/* The kiocb of a bio's direct I/O; otherwise null and, if known, the thread that waits for the bio. */
static __always_inline struct kiocb *kiocb_of(struct bio *bio, struct task_struct **waiter)
{
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io);

	*waiter = 0;
	if (!end)
		return 0;
	if (end == iomap_end_io_address && bpf_core_type_exists(struct iomap_dio)) {
		struct iomap_dio *dio = BPF_CORE_READ(bio, bi_private);
		if (!BPF_CORE_READ(dio, wait_for_completion))
			return BPF_CORE_READ(dio, iocb);
		*waiter = BPF_CORE_READ(dio, submit.waiter);
	} else if (end == blkdev_end_io_async_address || end == blkdev_end_io_address) {
		/* A single bio is embedded in the structure; several bios point to it. */
		struct blkdev_dio *dio = end == blkdev_end_io_address ?
						 BPF_CORE_READ(bio, bi_private) :
						 (void *)bio - bpf_core_field_offset(struct blkdev_dio, bio);
		struct kiocb *iocb = BPF_CORE_READ(dio, iocb);
		if (!(BPF_CORE_READ(dio, flags) & DIO_IS_SYNC))
			return iocb;
		*waiter = (struct task_struct *)iocb;
	}
	return 0;
}

/* Upper bound for the bios merged into one block request. */
#define BIOS_MAX 4096

struct bios {
	struct bio *next;
	__u64 allocated_ns; /* allocation time of the request */
};

/* Returns the next bio. */
static __always_inline struct bio *next_bio(struct bios *bios)
{
	struct bio *bio = bios->next;

	if (bio)
		bios->next = BPF_CORE_READ(bio, bi_next);
	return bio;
}

static __always_inline bool watched_by_address(struct task_struct *task)
{
	return task && watched_thread(BPF_CORE_READ(task, pid), BPF_CORE_READ(task, tgid));
}

/* Whether a traced process submitted it. */
static __always_inline bool watched_request(struct io_kiocb *req)
{
	struct io_kiocb___before_6_13 *before = (void *)req;

	if (bpf_core_field_exists(before->task))
		return watched_by_address(BPF_CORE_READ(before, task));
	return watched_by_address(BPF_CORE_READ(req, tctx, task));
}

/* Whether a traced thread woken by a device was waiting for I/O: it is an io_uring kernel thread, or is in the call that
 * waits for completions. Other waits (for a socket, or for a free tag while it submits) are not the interface's I/O.
 * `state`: null for a thread that has never waited.
 */
static __always_inline bool waits_for_io(struct task_struct *task, const struct thread_state *state)
{
	struct entry entry;

	if (any_wakeup || (task->flags & PF_IO_WORKER))
		return true;
	entry_of(task, &entry, false);
	switch (entry.nr) {
	case NR_io_uring_enter:
		return state && state->waiting;
	case NR_io_getevents:
	case NR_io_pgetevents:
		return true;
	case NR_pread64:
	case NR_pwrite64: {
		/* glibc's POSIX AIO helper threads. */
		__u64 address = task->tgid;
		return following && bpf_map_lookup_elem(&ring_numbers, &address);
	}
	}
	return false;
}

/* Task work ran on return from an interrupt. Without COOP_TASKRUN and DEFER_TASKRUN it runs immediately, so the interrupt
 * added it if it ended unattributable I/O (a page-cache read, for example). With these flags the task work may be older.
 */
static __always_inline void credit_return(struct io_uring_task *tctx, struct cpu_slot *slot)
{
	__u32 line = slot->last_irq, serial = slot->handlers;

	if (!tctx || !line || slot->unclaimed != serial || credited(slot, serial))
		return;
	if (BPF_CORE_READ(tctx, last, flags) & (IORING_SETUP_COOP_TASKRUN | IORING_SETUP_DEFER_TASKRUN))
		return;
	slot->unclaimed = 0;
	slot->credited[serial & (CREDITS_MAX - 1)] = serial;
	slot->credits++;
	count_credit(line - 1);
}

#endif
