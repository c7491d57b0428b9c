/* Recording: one record per event that decides a delivery path. It shares only the traced processes and the per-CPU state
 * with the aggregation, so that the two can be compared.
 */
#ifndef IOTRAIL_RECORDING_H
#define IOTRAIL_RECORDING_H

#include "threaded.h"

const volatile bool recording = false;
const volatile struct event event_layout = {}; /* never read: a ring buffer has no value type, so this exports the layout */

/* One page unless recording; user space sets the size when it opens the object. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} events SEC(".maps");

/* Reserves a record; null if the buffer is full. Only if `recording`. */
static __always_inline struct event *event_begin(enum event_kind kind, __u32 tid, struct cpu_slot *slot)
{
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		slot->record_lost++;
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->time_ns = bpf_ktime_get_ns();
	event->cpu = bpf_get_smp_processor_id();
	event->tid = tid;
	event->kind = kind;
	return event;
}

/* The reader polls, because a wake-up would be one of the measured interrupts. */
static __always_inline void event_end(struct event *event)
{
	bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
}

/* An event without data. */
static __always_inline void record_plain(enum event_kind kind, __u32 tid, struct cpu_slot *slot)
{
	struct event *event = event_begin(kind, tid, slot);

	if (event)
		event_end(event);
}

static __always_inline void record_completion(enum poster poster, __u32 tid, struct cpu_slot *slot)
{
	struct event *event = event_begin(EVENT_COMPLETE, tid, slot);

	if (!event)
		return;
	event->poster = poster;
	event_end(event);
}

static __always_inline void record_run(__u32 items, bool looped, struct task_struct *task, struct cpu_slot *slot)
{
	struct event *event = event_begin(EVENT_RUN, task->pid, slot);

	if (!event)
		return;
	struct entry entry;
	entry_of(task, &entry, true);
	event->items = items;
	event->nr = entry.nr;
	event->entry = entry.address;
	if (entry.nr < 0)
		event->waker = fired_in((struct pt_regs *)bpf_task_pt_regs(task), &event->waker_nr, slot);
	event->line = event->waker == WAKER_IRQ ? event->waker_nr + 1 : slot->last_irq;
	event->flags = (entry.finished ? EVENT_FINISHED : 0) | (looped ? EVENT_LOOPED : 0);
	event_end(event);
}

static __always_inline void record_switched_out(bool asleep, struct task_struct *task, struct cpu_slot *slot)
{
	struct event *event = event_begin(EVENT_SWITCHED_OUT, task->pid, slot);

	if (!event)
		return;
	struct entry entry;
	entry_of(task, &entry, false);
	event->nr = entry.nr;
	event->flags = (entry.finished ? EVENT_FINISHED : 0) | (asleep ? EVENT_ASLEEP : 0);
	event_end(event);
}

static __always_inline void record_woken(struct task_struct *task, struct cpu_slot *slot)
{
	struct event *event = event_begin(EVENT_WOKEN, task->pid, slot);

	if (!event)
		return;
	event->waker = context_of(slot, &event->waker_nr);
	event_end(event);
}

#endif
