/* Threaded interrupts: all device interrupts on PREEMPT_RT and with `threadirqs`, some drivers' elsewhere. I/O that ends in
 * an IRQ thread is attributed to the interrupt that woke the thread. On PREEMPT_RT softirqs also run in threads, where they
 * can be preempted.
 */
#ifndef IOTRAIL_THREADED_H
#define IOTRAIL_THREADED_H

#include "state.h"

/* By thread ID. Preallocated: PREEMPT_RT cannot allocate in an interrupt. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct handler_run);
} irq_threads SEC(".maps");

bool lines_threaded; /* at least one line has an IRQ thread */

/* A handler wakes its IRQ thread. */
static __always_inline void leaves_to_thread(struct task_struct *thread, struct cpu_slot *slot)
{
	struct handler_run run = { .line = slot->in_irq, .serial = slot->handlers, .cpu = bpf_get_smp_processor_id() };
	__u32 tid = thread->pid;

	struct handler_run *known = bpf_map_lookup_elem(&irq_threads, &tid);
	if (known)
		*known = run;
	else if (bpf_map_update_elem(&irq_threads, &tid, &run, BPF_ANY))
		slot->losses[LOSS_INTERRUPT]++;
	lines_threaded = 1;
}

/* The line + 1 of the current IRQ thread, and the handler's last run if that was on this CPU; 0: none. */
static __always_inline __u32 line_of_thread(__u32 *serial)
{
	if (!lines_threaded)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!(task->flags & PF_KTHREAD))
		return 0;
	__u32 tid = task->pid;
	struct handler_run *run = bpf_map_lookup_elem(&irq_threads, &tid);
	if (!run || run->cpu != bpf_get_smp_processor_id())
		return 0;
	*serial = run->serial;
	return run->line;
}

/* The context on this CPU if it is not the current thread's own, or that of an IRQ thread. A softirq raised by an interrupt
 * is attributed to that interrupt: the block softirq to the device's, for example, even if a thread (ksoftirqd) runs it
 * later.
 */
static __always_inline enum waker context_of(struct cpu_slot *slot, __u32 *nr)
{
	if (slot->in_irq) {
		*nr = slot->in_irq - 1;
		return WAKER_IRQ;
	}
	if (slot->in_vector) {
		*nr = slot->in_vector - 1;
		return WAKER_VECTOR;
	}
	if (slot->in_softirq) {
		struct raiser *raiser = &slot->raiser;
		if (raiser->irq) {
			*nr = raiser->irq - 1;
			return WAKER_SOFTIRQ_OF_IRQ;
		}
		if (raiser->vector) {
			*nr = raiser->vector - 1;
			return WAKER_SOFTIRQ_OF_VECTOR;
		}
		*nr = slot->in_softirq - 1;
		return WAKER_SOFTIRQ;
	}
	__u32 serial, line = line_of_thread(&serial);
	if (line) {
		*nr = line - 1;
		return WAKER_IRQ;
	}
	*nr = 0;
	return WAKER_OTHER;
}

/* Activity during a preempted softirq does not belong to the softirq. Its duration is unknown. */
static __always_inline void switches_softirq(struct task_struct *prev, struct task_struct *next, struct cpu_slot *slot)
{
	if (slot->in_softirq) {
		slot->preempted_softirq = slot->in_softirq;
		slot->preempted_raiser = slot->raiser;
		slot->preempted = (__u64)prev;
		slot->in_softirq = 0;
		slot->softirq_since = 0;
	}
	if (slot->preempted && slot->preempted == (__u64)next) {
		slot->in_softirq = slot->preempted_softirq;
		slot->raiser = slot->preempted_raiser;
		slot->preempted = 0;
	}
}

#endif
